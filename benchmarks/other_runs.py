"""Errors of predictions for runs of other sources, by source, hardware and type of products.

Usage: planner validate benchmarks/other_runs.csv -o predictions.csv
       python -m benchmarks.other_runs predictions.csv

Prints the table of docs/fidelity.md without what earlier constants gave.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Row = Mapping[str, str]

RUNS = Path(__file__).parent / "other_runs.csv"

_DETAIL = re.compile(r"(, | and | of (?:a|April)\b| \(| issue ).*")
"""Of a source: software, files and release behind the document."""

_WIDE = {"bf16", "fp16", "fp32"}


@dataclass(frozen=True, slots=True)
class Group:
    """Predicted runs of one source on one machine."""

    name: str
    errors: np.ndarray
    """Predicted over measured step, minus 1."""

    inside: int
    """Runs whose measurement lies in the interval."""

    fit: int
    """Runs that are predicted to fit."""

    @property
    def line(self) -> str:
        """The row of the table."""
        worst = self.errors[np.argmax(np.abs(self.errors))]
        middle, bias = np.median(np.abs(self.errors)), np.median(self.errors)
        shares = f"{100 * middle:.1f} | {100 * bias:+.1f} | {100 * worst:+.1f}"
        return f"| {self.name} | {len(self.errors)} | {shares} | {self.inside} | {self.fit} |"


def main() -> None:
    """Print a row for each group, and what holds of all runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("predictions", type=Path)
    path: Path = parser.parse_args().predictions
    found = groups(_rows(RUNS), _rows(path))
    print("| source, hardware, products | n | median | bias | worst | in the interval | fit |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for each in found:
        print(each.line)
    sizes = np.abs(np.concatenate([each.errors for each in found]))
    inside, fit = (sum(getattr(each, name) for each in found) for name in ("inside", "fit"))
    print(f"\n{len(sizes)} runs, median {100 * np.median(sizes):.1f} %, {inside} inside, {fit} fit")


def groups(runs: Iterable[Row], predictions: Iterable[Row]) -> list[Group]:
    """The groups of runs that are predicted and state a time, in alphabetical order."""
    named = {run["id"]: name_of(run) for run in runs}
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in predictions:
        if row["relative_error"]:
            rows[named[row["id"]]].append(row)
    return [_group(name, own) for name, own in sorted(rows.items())]


def name_of(run: Row) -> str:
    """Document, hardware without its maker, and type of products of a run."""
    document = _DETAIL.sub("", run["source"]).removeprefix("github:")
    hardware = run["hardware"].removeprefix("NVIDIA ")
    bits = "16 bits" if run["dtype"] in _WIDE else "8 bits and fewer"
    return f"{document}, {hardware}, {bits}"


def _group(name: str, rows: list[Row]) -> Group:
    errors = np.array([float(row["relative_error"]) for row in rows])
    inside = 0
    for row, error in zip(rows, errors, strict=True):
        predicted, low, high = (
            float(row[f"predicted_{of}_s"]) for of in ("step_time", "low", "high")
        )
        inside += low <= predicted / (1.0 + error) <= high
    return Group(name, errors, inside, sum(row["predicted_fits"] == "yes" for row in rows))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
