"""A picture of all layouts of a job: time and memory, and those that no other beats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from planner.whatif.layout_space import COLUMNS, BoolArray, FloatArray
from planner.whatif.layouts import PricedLayouts
from planner.whatif.plot import COLOURS, saved_figure

GIB = 2.0**30
MOST_DRAWN = 20_000
"""Layouts that are drawn; of more, every n-th and all that no other beats."""
SLOWEST = 20.0
"""Layouts that take so many times the fastest are left out."""


def save_layouts(priced: PricedLayouts, path: Path, kind: str) -> None:
    """Write the picture.

    Args:
        priced: layouts of one job.
        path: the file.
        kind: `svg` or `png`.
    """
    with saved_figure(path, kind, (8.0, 5.5)) as figure:
        axes = figure.add_axes((0.09, 0.1, 0.88, 0.84))
        drawn = _drawn(priced)
        tensor = priced.layouts[:, COLUMNS.index("tp")]
        for number, degree in enumerate(np.unique(tensor[drawn]).tolist()):
            own = drawn & (tensor == degree)
            axes.scatter(
                priced.memory_bytes[own] / GIB, priced.step_s[own], s=3,
                color=COLOURS[number % len(COLOURS)], label=f"tp={degree:g}", rasterized=True,
            )  # fmt: skip
        best = np.flatnonzero(_unbeaten(priced.step_s, priced.memory_bytes))
        best = best[priced.memory_bytes[best].argsort()]
        axes.step(priced.memory_bytes[best] / GIB, priced.step_s[best], where="post", lw=1,
                  color="#222222", label="no other is faster with less")  # fmt: skip
        axes.axvline(priced.limit_bytes / GIB, color="#cc3311", ls="--", lw=1, label="limit")
        axes.set(xlabel="memory of a device, GiB", ylabel="step, s", xscale="log", yscale="log")
        axes.legend(markerscale=3, frameon=False, ncols=2)
        axes.grid(visible=True, alpha=0.3)


def _drawn(priced: PricedLayouts) -> BoolArray:
    near = priced.step_s <= SLOWEST * priced.step_s.min()
    every = max(1, int(near.sum()) // MOST_DRAWN)
    some = np.zeros(len(near), dtype=np.bool_)
    some[np.flatnonzero(near)[::every]] = True
    return some | _unbeaten(priced.step_s, priced.memory_bytes)


def _unbeaten(step_s: FloatArray, memory_bytes: FloatArray) -> BoolArray:
    """Layouts that no other beats in both."""
    order = np.lexsort((step_s, memory_bytes))
    before = np.concatenate(([np.inf], np.minimum.accumulate(step_s[order])[:-1]))
    kept = np.zeros(len(step_s), dtype=np.bool_)
    kept[order[step_s[order] < before]] = True
    return kept
