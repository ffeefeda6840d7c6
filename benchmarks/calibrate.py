"""Fit the constants of training steps to published runs, and report how far off unseen models are.

Usage: python benchmarks/calibrate.py ROWS.csv [--write] [--report FILE]

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

from costmodel.training.assessment import rank_correlation
from costmodel.training.calibration import general_constants
from costmodel.training.crossvalidation import FamilyFit, fit_family
from costmodel.training.dataset import Entry, measured_medians, read_entries, read_table
from costmodel.training.families import block_of, families, family_of, memory_families
from costmodel.training.fitting import at_limit
from costmodel.training.memory import MemoryConstants
from costmodel.training.memory_fitting import fit_memory, reported_bytes
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.records import TrainingRun

ROOT = Path(__file__).resolve().parent.parent
EXCLUDED = ROOT / "data/calibration/training_excluded.yaml"
TARGET = ROOT / "data/calibration/training.yaml"
COVERAGE = 0.9
HEADER = """\
# Constants of the estimate of training steps, fitted by benchmarks/calibrate.py to published runs;
# do not edit. Their meaning: costmodel/training/constants.py; rows and errors: docs/fidelity.md.
# spread: logarithms of measured over predicted that hold nine of ten runs.
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
    report = "\n".join(report_lines(entries, fits) + memory_lines(memories)) + "\n"
    sys.stdout.write(report)
    if options.report:
        options.report.write_text(report, encoding="utf-8")
    if options.write:
        TARGET.write_text(HEADER + calibration_text(fits, memories), encoding="utf-8")


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


def by_block(fits: list[FamilyFit]) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Relative errors in sample, of unseen models and of the baseline, by block."""
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for fitted in fits:
        errors = zip(fitted.fitted_s, fitted.unseen_s, fitted.baseline_s, strict=True)
        for run, time, triple in zip(fitted.runs, fitted.measured_s, errors, strict=True):
            inside, unseen, plain = (float(one / time - 1.0) for one in triple)
            found[block_of(run)].append((inside, unseen, plain))
    columns = {block: np.array(rows).T for block, rows in sorted(found.items())}
    return {block: (rows[0], rows[1], rows[2]) for block, rows in columns.items()}


def ranks(fits: list[FamilyFit]) -> dict[str, float | None]:
    """Spearman's correlation of predictions for unseen models with measurements, by block."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fitted in fits:
        for run, time, unseen in zip(fitted.runs, fitted.measured_s, fitted.unseen_s, strict=True):
            found[block_of(run)].append((float(unseen), float(time)))
    return {
        block: rank_correlation([one for one, _ in pairs], [time for _, time in pairs])
        for block, pairs in found.items()
    }


def report_lines(entries: tuple[Entry, ...], fits: list[FamilyFit]) -> list[str]:
    """Tables in Markdown: errors by block, constants by family, rows left out."""
    available: dict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.read is not None and entry.step_s is not None:
            available[block_of(entry.read.run)] += 1
    lines = [
        (
            "| block | n used / all | fitted: median, 90 % | unseen: median, 90 %, bias | rank | "
            "baseline | in interval |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    order = ranks(fits)
    for block, (inside, unseen, plain) in by_block(fits).items():
        lines.append(
            f"| {block} | {len(inside)} / {available[block]} | {_pair(inside)} | {_pair(unseen)}, "
            f"{100 * np.median(unseen):+.1f} | {_rank(order[block])} | {_pair(plain)} | "
            f"{100 * covered(inside, unseen):.0f} |"
        )
    lines += ["", "| family | constants (at a limit: *) |", "|---|---|"]
    for fitted in fits:
        limited = at_limit(fitted.constants, fitted.family.fitted)
        values = ", ".join(
            f"{name} {getattr(fitted.constants, name):.3g}{'*' if name in limited else ''}"
            for name in fitted.family.fitted
        )
        lines.append(f"| {fitted.family.name} | {values} |")
    lines += ["", "Rows left out of the fit:", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in excluded().items()]
    lines += [f"- `{entry.name}`: {entry.skipped}" for entry in entries if entry.skipped]
    return lines


def interval(inside: np.ndarray, unseen: np.ndarray) -> tuple[float, float]:
    """Logarithms of measured over predicted that hold nine of ten runs.

    Runs to come are in part of models that were fitted and in part of others: both errors count.
    """
    logs = -np.log1p(np.concatenate([inside, unseen]))
    low, high = np.quantile(logs, [(1.0 - COVERAGE) / 2, (1.0 + COVERAGE) / 2])
    return round(float(min(low, -0.02)), 4), round(float(max(high, 0.02)), 4)


def covered(inside: np.ndarray, unseen: np.ndarray) -> float:
    """Share of the rows that the shipped interval around the shipped prediction holds."""
    low, high = interval(inside, unseen)
    logs = -np.log1p(inside)
    return float(np.mean((low <= logs) & (logs <= high)))


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _pair(errors: np.ndarray) -> str:
    sizes = 100 * np.abs(errors)
    return f"{np.median(sizes):.1f}, {np.quantile(sizes, 0.9):.1f}"


def memory_lines(memories: dict[str, MemoryFit]) -> list[str]:
    """The table of memory in Markdown."""
    lines = [
        "",
        "| memory | n | fitted: median, 90 % | unseen models: median, 90 %, bias |",
        "|---|--:|--:|--:|",
    ]
    for profile, found in memories.items():
        if not found.inside.size:
            continue
        lines.append(
            f"| {profile} | {len(found.inside)} | {_pair(found.inside)} | {_pair(found.unseen)}, "
            f"{100 * np.median(found.unseen):+.1f} |"
        )
    return lines


def calibration_text(fits: list[FamilyFit], memories: dict[str, MemoryFit]) -> str:
    """The file that the package ships."""
    spread = {
        block: list(interval(inside, unseen))
        for block, (inside, unseen, _) in by_block(fits).items()
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
        "spread": spread,
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
