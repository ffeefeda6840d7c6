"""How far runs are from a prediction with the constants of other software, or of other chips.

Usage: python -m benchmarks.training_others ROWS.csv

Every family of ROWS.csv is predicted with the constants that the package ships for every other one
on its chips, or of its software on others. All pairs have equal weight. What nine of ten runs lie
between is the least interval of `costmodel/training/predict.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.calibrate import excluded
from costmodel.training.calibration import shipped_calibration
from costmodel.training.dataset import measured_medians, read_entries, read_table
from costmodel.training.families import families, family_of
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

_SHARES = (0.05, 0.5, 0.95)


def distances(entries: tuple[Entry, ...]) -> dict[str, list[FloatArray]]:
    """Logarithms of measured over predicted time of each pair, by what the pair does not share."""
    rows: dict[str, list[tuple[TrainingRun, float]]] = defaultdict(list)
    aside = excluded()
    for entry, time in zip(entries, measured_medians(entries), strict=True):
        if entry.read is None or time is None or entry.name in aside:
            continue
        family, inherited = family_of(entry.read.run)
        if not inherited:
            rows[family.name].append((entry.read.run, time))
    found: dict[str, list[FloatArray]] = {"software": [], "chips": []}
    for one, other in permutations(families().values(), 2):
        alike = set(one.generations) & set(other.generations)
        if not rows[one.name] or not (alike or one.profile == other.profile):
            continue
        table = RunTable.of([run for run, _ in rows[one.name]])
        measured = np.array([time for _, time in rows[one.name]])
        predicted = step_times(table, shipped_calibration().constants[other.name]).total
        found["software" if alike else "chips"].append(np.log(measured / predicted))
    return found


def quantiles(parts: list[FloatArray]) -> FloatArray:
    """Quantiles of all parts together, each with equal weight."""
    values = np.concatenate(parts)
    weights = np.concatenate([np.full(len(part), 1.0 / len(part)) for part in parts])
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return np.asarray(values[order][np.searchsorted(below, _SHARES)])


def main() -> None:
    """Print what nine of ten runs lie between."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    given = parser.parse_args()
    text = given.rows.read_text(encoding="utf-8")
    found = distances(read_entries(read_table(text, str(given.rows))))
    for what, parts in (*found.items(), ("both", [*found["software"], *found["chips"]])):
        low, middle, high = quantiles(parts)
        counted = sum(len(part) for part in parts)
        sys.stdout.write(f"other {what}: {len(parts)} pairs, {counted} times: ")
        sys.stdout.write(f"{low:+.2f} {middle:+.2f} {high:+.2f}\n")


if __name__ == "__main__":
    main()
