"""Ranked layouts as a table of all of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from planner.whatif.layouts import COLUMNS
from report.layouts import GIB

if TYPE_CHECKING:
    from planner.whatif.layout_ranking import Ranking


def write_table(found: Ranking, path: Path) -> None:
    """Every layout as CSV, the fastest first."""
    priced = found.priced
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow((*COLUMNS, "step_s", "memory_gib", "fits"))
        order = priced.step_s.argsort(kind="stable")
        columns = (priced.layouts, priced.step_s, priced.memory_bytes / GIB, priced.fits)
        for layout, step_s, gib, fits in zip(*(c[order].tolist() for c in columns), strict=True):
            sizes = (f"{value:g}" for value in layout)
            writer.writerow((*sizes, f"{step_s:.6g}", f"{gib:.4g}", str(fits).lower()))
