"""How well measured runs predict one another: what no model of steps can be held to.

Usage: python -m benchmarks.training_noise ROWS.csv

A run whose layout was measured with smaller and with larger micro-batches, all else equal, is
predicted by interpolation between the nearest two (logarithm of time over logarithm of size).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from costmodel.training.dataset import Entry, measured_medians, read_entries, read_table
from costmodel.training.families import block_of

_LEAST = 5
"""Interpolated runs that a block needs to be printed."""


def main() -> None:
    """Print the errors of interpolation by block."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    path: Path = parser.parse_args().rows
    entries = read_entries(read_table(path.read_text(encoding="utf-8"), str(path)))
    print("| block | runs between two others | median | 90 % | largest |\n|---|--:|--:|--:|--:|")
    for block, errors in sorted(interpolated(entries).items()):
        if len(errors) >= _LEAST:
            sizes = 100 * np.abs(errors)
            print(
                f"| {block} | {len(sizes)} | {np.median(sizes):.1f} | "
                f"{np.quantile(sizes, 0.9):.1f} | {sizes.max():.1f} |"
            )


def interpolated(entries: tuple[Entry, ...]) -> dict[str, np.ndarray]:
    """Relative errors of interpolation between micro-batches, by block."""
    lines: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    for entry, time in zip(entries, measured_medians(entries), strict=True):
        if entry.read is None or time is None:
            continue
        run = entry.read.run
        others = replace(run, name="", layout=replace(run.layout, micro_batch=1))
        lines[block_of(run), str(others.model), str(others.layout), run.machine, run.precision][
            run.layout.micro_batch
        ] = time
    found: dict[str, list[float]] = defaultdict(list)
    for (block, *_), line in lines.items():
        sizes = sorted(line)
        for (low, size), (_, high) in pairwise(pairwise(sizes)):
            share = np.log(size / low) / np.log(high / low)
            expected = line[low] ** (1 - share) * line[high] ** share
            found[block].append(expected / line[size] - 1.0)
    return {block: np.array(errors) for block, errors in found.items()}


if __name__ == "__main__":
    main()
