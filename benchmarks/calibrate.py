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

from benchmarks.training_intervals import block_scores, intervals
from benchmarks.training_report import (
    constant_lines,
    left_out_lines,
    memory_lines,
    step_lines,
    sweep_lines,
)
from costmodel.training.calibration import general_constants
from costmodel.training.crossvalidation import FamilyFit, fit_family
from costmodel.training.dataset import Entry, measured_medians, read_entries, read_table
from costmodel.training.families import families, family_of, memory_families
from costmodel.training.fitting import fit_memory, reported_bytes
from costmodel.training.memory import MemoryConstants
from costmodel.training.neighbours import COLUMNS, LARGEST, columns_of
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.records import TrainingRun

ROOT = Path(__file__).resolve().parent.parent
EXCLUDED = ROOT / "data/calibration/training_excluded.yaml"
TARGET = ROOT / "data/calibration/training.yaml"
NEIGHBOURS = ROOT / "data/calibration/training_neighbours.csv"
HEADER = """\
# Constants of the estimate of training steps, fitted by benchmarks/calibrate.py to published runs;
# do not edit. Their meaning: costmodel/training/constants.py; rows and errors: docs/fidelity.md.
# interval: nine of ten runs lie between, in standard deviations of a run (neighbours.py); of runs
# that measured ones are much alike (known), and of others (new).
"""


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Memory constants of a profile, and relative errors of its rows."""

    constants: MemoryConstants
    inside: np.ndarray
    unseen: np.ndarray


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
    found: dict[str, FamilyFit] = {}
    for name, family in families().items():
        start = found[family.parent].constants if family.parent in found else general_constants()
        start = replace(start, **family.priors)
        runs = [entries[row].read.run for row in rows[name]]  # type: ignore[union-attr]
        times = np.array([measured[row] for row in rows[name]], dtype=np.float64)
        if runs:
            found[name] = fit_family(family, runs, times, start)
    return list(found.values())


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
    """What the formulas miss of each configuration, as the table that the package ships."""
    lines = [",".join(("family", "machine", *COLUMNS, "runs", "missed"))]
    for fitted in fits:
        missed = np.log(fitted.measured_s / fitted.fitted_s)
        sizes = columns_of(RunTable.of(fitted.runs), len(fitted.runs))
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for run, row, value in zip(fitted.runs, sizes, missed, strict=True):
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
                "rows": len(fitted.runs),
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


def memory_rows(entries: tuple[Entry, ...], profile: str) -> tuple[list[TrainingRun], np.ndarray]:
    """Runs of a profile that state their memory, and the bytes."""
    found = [
        (entry.read.run, entry.memory_bytes)
        for entry in entries
        if entry.read is not None
        and entry.memory_bytes is not None
        and entry.read.run.profile == profile
    ]
    return [run for run, _ in found], np.array([size for _, size in found], dtype=np.float64)


def fit_memories(entries: tuple[Entry, ...]) -> dict[str, MemoryFit]:
    """What each profile keeps, and the errors for its own and for unseen models."""
    fits: dict[str, MemoryFit] = {}
    for profile, family in memory_families().items():
        runs, measured = memory_rows(entries, profile)
        start = fits[family.parent].constants if family.parent in fits else MemoryConstants()
        if not runs:
            counted = replace(start, **family.counted)
            fits[profile] = MemoryFit(counted, np.zeros(0), np.zeros(0))
            continue
        table = RunTable.of(runs)
        constants = fit_memory(table, measured, family)
        models = np.array([run.model.name.lower() for run in runs])
        unseen = np.zeros(len(runs))
        for model in sorted(set(models)):
            rows, rest = np.flatnonzero(models == model), np.flatnonzero(models != model)
            trained = replace(MemoryConstants(), **family.counted)
            if rest.size:
                trained = fit_memory(table.take(rest), measured[rest], family)
            unseen[rows] = reported_bytes(table.take(rows), trained, family.counter)
        inside = reported_bytes(table, constants, family.counter)
        fits[profile] = MemoryFit(constants, inside / measured - 1.0, unseen / measured - 1.0)
    return fits


if __name__ == "__main__":
    main()
