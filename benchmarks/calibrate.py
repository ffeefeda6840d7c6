"""Fit the constants of training steps to published runs, and report how far off unseen models are.

Usage: python -m benchmarks.calibrate ROWS.csv [--write] [--report FILE]

ROWS.csv has the columns of `planner validate`. Without --write nothing in data/ changes.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from benchmarks.memory_fit import fit_memory
from benchmarks.training_crossvalidation import FamilyFit, FamilyRows, fit_families
from benchmarks.training_intervals import block_scores, intervals
from benchmarks.training_report import (
    constant_lines,
    left_out_lines,
    memory_lines,
    step_lines,
    sweep_lines,
)
from costmodel.training.dataset import Entry, measured_medians, read_entries, read_table
from costmodel.training.families import families, family_of, memory_families
from costmodel.training.measured_spans import spans_of
from costmodel.training.memory import MemoryConstants, reported_bytes
from costmodel.training.neighbours import COLUMNS, LARGEST, columns_of
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.families import MemoryFamily
    from costmodel.training.records import TrainingRun

ROOT = Path(__file__).resolve().parent.parent
EXCLUDED = ROOT / "data/calibration/training_excluded.yaml"
TARGET = ROOT / "data/calibration/training.yaml"
NEIGHBOURS = ROOT / "data/calibration/training_neighbours.csv"
HEADER = """\
# Constants of the estimate of training steps, fitted by benchmarks/calibrate.py to published runs;
# do not edit. Their meaning: costmodel/training/constants.py; rows and errors: docs/fidelity.md.
# interval: nine of ten runs of a source that was left out lie between, in standard deviations of a
# run (neighbours.py); of runs that measured ones are much alike (known), and of others (new).
"""


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Memory constants of a profile, and relative errors of its rows."""

    constants: MemoryConstants
    inside: np.ndarray
    unseen: np.ndarray
    """Of models left out."""

    sources: np.ndarray
    """Of sources left out."""


def main() -> None:
    """Fit all families, print the report and write the constants if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    parser.add_argument(
        "--write", action="store_true", help="replace data/calibration/training.yaml"
    )
    parser.add_argument("--report", type=Path, help="write the report there as well")
    options = parser.parse_args()
    entries = read_entries(read_table(options.rows.read_text(encoding="utf-8"), str(options.rows)))
    fits, memories = fit_all(entries), fit_memories(entries)
    report = "\n".join(report_lines(entries, fits, memories)) + "\n"
    sys.stdout.write(report)
    if options.report:
        options.report.write_text(report, encoding="utf-8")
    if options.write:
        TARGET.write_text(HEADER + calibration_text(fits, memories), encoding="utf-8")
        NEIGHBOURS.write_text(neighbours_text(fits), encoding="utf-8")


def excluded() -> dict[str, str]:
    """Reasons by identifier of rows that no constant is fitted to."""
    file = yaml.safe_load(EXCLUDED.read_text(encoding="utf-8"))
    return {name: entry["reason"] for entry in file["excluded"] for name in entry["ids"]}


def fit_all(entries: tuple[Entry, ...]) -> list[FamilyFit]:
    """Fit the families in their order, each from its parent's constants."""
    rows: dict[str, list[int]] = defaultdict(list)
    measured, aside = measured_medians(entries), excluded()
    for row, entry in enumerate(entries):
        if entry.read is None or measured[row] is None or entry.name in aside:
            continue
        family, inherited = family_of(entry.read.run)
        if not inherited:
            rows[family.name].append(row)
    prepared = {
        name: FamilyRows(
            tuple(entries[row].read.run for row in own),  # type: ignore[union-attr]
            np.array([measured[row] for row in own], dtype=np.float64),
            tuple(entries[row].source for row in own),
        )
        for name, own in rows.items()
    }
    return fit_families(families(), prepared)


def report_lines(
    entries: tuple[Entry, ...], fits: list[FamilyFit], memories: dict[str, MemoryFit]
) -> list[str]:
    """The whole report in Markdown."""
    return [
        *step_lines(entries, fits),
        *sweep_lines(entries, fits),
        *memory_lines(memories),
        *left_out_lines(entries, excluded()),
        *constant_lines(fits),
    ]


def neighbours_text(fits: list[FamilyFit]) -> str:
    """What the formulas miss of each configuration, as the table that the package ships: of
    families whose rows of sources that were left out are better predicted for it.
    """
    lines = [",".join(("family", "machine", *COLUMNS, "runs", "missed"))]
    for fitted in filter(lambda each: each.looks_up, fits):
        runs = fitted.rows.runs
        missed = np.log(fitted.rows.measured_s / fitted.fitted_s)
        sizes = columns_of(RunTable.of(runs), len(runs))
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for run, row, value in zip(runs, sizes, missed, strict=True):
            key = (fitted.family.name, run.machine, *(f"{size:.6g}" for size in row))
            found[key].append(float(np.clip(value, -LARGEST, LARGEST)))
        lines += [
            ",".join((*key, str(len(values)), f"{np.mean(values):.4f}"))
            for key, values in sorted(found.items())
        ]
    return "\n".join(lines) + "\n"


def calibration_text(fits: list[FamilyFit], memories: dict[str, MemoryFit]) -> str:
    """The file that the package ships."""
    ends = {
        block: {key: list(pair) for key, pair in asdict(both).items()}
        for block, both in intervals(block_scores(fits)).items()
    }
    content = {
        "schema_version": 1,
        "families": {
            fitted.family.name: {
                "rows": len(fitted.rows.runs),
                "spans": spans_of(RunTable.of(fitted.rows.runs), len(fitted.rows.runs)),
                "machines": sorted({run.machine for run in fitted.rows.runs}),
                "constants": {
                    key: float(f"{value:.5g}") for key, value in asdict(fitted.constants).items()
                },
            }
            for fitted in fits
        },
        "interval": ends,
        "memory": {
            profile: {key: float(f"{value:.5g}") for key, value in asdict(found.constants).items()}
            for profile, found in memories.items()
        },
    }
    return yaml.safe_dump(content, sort_keys=False, width=120)


def memory_rows(
    entries: tuple[Entry, ...], profile: str
) -> tuple[list[TrainingRun], np.ndarray, np.ndarray]:
    """Runs of a profile that state their memory, the bytes, and their sources."""
    found = [
        (entry.read.run, entry.memory_bytes, entry.source)
        for entry in entries
        if entry.read is not None
        and entry.memory_bytes is not None
        and entry.read.run.profile == profile
    ]
    sizes = np.array([size for _, size, _ in found], dtype=np.float64)
    return [run for run, *_ in found], sizes, np.array([source for *_, source in found])


def fit_memories(entries: tuple[Entry, ...]) -> dict[str, MemoryFit]:
    """What each profile keeps, and the errors for its own and for unseen models."""
    fits: dict[str, MemoryFit] = {}
    for profile, family in memory_families().items():
        runs, measured, sources = memory_rows(entries, profile)
        start = fits[family.parent].constants if family.parent in fits else MemoryConstants()
        if not runs:
            counted = replace(start, **family.counted)
            fits[profile] = MemoryFit(counted, *(np.zeros(0) for _ in range(3)))
            continue
        table = RunTable.of(runs)
        constants = fit_memory(table, measured, family)
        models = np.array([run.model.name.lower() for run in runs])
        inside = reported_bytes(table, constants, family.counter)
        unseen, apart = (
            _without_groups(table, measured, family, groups) for groups in (models, sources)
        )
        errors = (each / measured - 1.0 for each in (inside, unseen, apart))
        fits[profile] = MemoryFit(constants, *errors)
    return fits


def _without_groups(
    table: RunTable, measured: np.ndarray, family: MemoryFamily, groups: np.ndarray
) -> np.ndarray:
    """Bytes of each row with constants fitted to the rows outside its group."""
    found = np.zeros(len(groups))
    for group in sorted(set(groups)):
        rows, rest = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        trained = replace(MemoryConstants(), **family.counted)
        if rest.size:
            trained = fit_memory(table.take(rest), measured[rest], family)
        found[rows] = reported_bytes(table.take(rows), trained, family.counter)
    return found


if __name__ == "__main__":
    main()
