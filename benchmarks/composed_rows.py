"""Tables of published steps that a simulator composed of fewer profiles than they have rows.

Usage: python -m benchmarks.composed_rows ROWS.csv

Runs that differ in nothing but layers L and micro-batches M are a cell. A simulator that adds up
one profile has for each cell

    T = a M L + b M + c L + d

to the last digit that its table prints. Measured steps repeat to some tenths of a per cent at best,
so that no cell of theirs follows the law to a hundred-thousandth. A source with several such cells
is worth as many measurements as it has cells.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.dataset import read_entries, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingRun

__all__ = ["Composed", "composed_sources"]

_EXACT = 1e-5
"""Largest relative distance from the law at which a cell follows it."""

_FREE = 3
"""Rows of a cell beyond the numbers that the law fits to them, at least."""

_CELLS = 3
"""Exact cells of a source from which on its table counts as composed."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A source whose steps follow the law to rounding."""

    names: tuple[str, ...]
    """Its rows."""

    cells: int
    """Cells that follow it."""

    tested: int
    """Cells with enough rows to tell."""

    largest: float
    """Largest relative distance of a row in the exact cells."""


def main() -> None:
    """Print the sources whose rows another model composed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    path: Path = parser.parse_args().rows
    entries = read_entries(read_table(path.read_text(encoding="utf-8"), str(path)))
    print("| source | rows | exact cells of those that can tell | largest distance |")
    print("|---|--:|--:|--:|")
    for source, found in composed_sources(entries).items():
        cells = f"{found.cells} of {found.tested}"
        print(f"| {source} | {len(found.names)} | {cells} | {100 * found.largest:.4f} % |")


def composed_sources(entries: Iterable[Entry]) -> dict[str, Composed]:
    """Sources whose steps follow the law to rounding, in alphabetical order."""
    of: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.read is not None and entry.step_s is not None:
            of[entry.source].append(entry)
    found = {}
    for source, rows in sorted(of.items()):
        distances = [each for cell in _cells(rows) if (each := _distance(cell)) is not None]
        exact = [each for each in distances if each <= _EXACT]
        if len(exact) >= _CELLS:
            names = tuple(entry.name for entry in rows)
            found[source] = Composed(names, len(exact), len(distances), max(exact))
    return found


def _cells(rows: Sequence[Entry]) -> Iterable[list[tuple[TrainingRun, float]]]:
    """Runs that differ in layers, micro-batches and name alone, with their steps."""
    cells: dict[str, list[tuple[TrainingRun, float]]] = defaultdict(list)
    for entry in rows:
        if entry.read is None or entry.step_s is None:
            continue
        run = entry.read.run
        model = replace(run.model, name="", layers=1)
        layout = replace(run.layout, global_batch=1)
        cells[str(replace(run, name="", model=model, layout=layout))].append((run, entry.step_s))
    return cells.values()


def _distance(cell: Sequence[tuple[TrainingRun, float]]) -> float | None:
    """Largest relative distance of a row from the law; nothing where too few rows can tell."""
    steps = np.array([step_s for _, step_s in cell])
    sizes = [(run.model.layers, run.layout.micro_batches) for run, _ in cell]
    rows = np.array([(m * layers, m, layers, 1.0) for layers, m in sizes]) / steps[:, None]
    if len(steps) < int(np.linalg.matrix_rank(rows)) + _FREE:
        return None
    law, *_ = np.linalg.lstsq(rows, np.ones_like(steps), rcond=None)
    return float(np.max(np.abs(rows @ law - 1.0)))


if __name__ == "__main__":
    main()
