"""A sweep as a table: one row for each point, the same columns for all."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from planner.whatif.analysis import rate_of
from planner.whatif.prices import Prices, bill
from planner.whatif.sweep import Point

AXES = ("cluster", "devices", "batch", "sequence", "bandwidth", "latency", "memory", "compute")
RESULTS = (
    "status", "step_s", "simulated_s", "bound_s", "gap", "samples_per_s", "tokens_per_s",
    "utilisation", "peak_gib", "limit_gib", "stages", "micro_batches", "plan", "price_per_step",
    "joules_per_step", "currency", "key", "message",
)  # fmt: skip
COLUMNS = (*AXES, *RESULTS)
"""Those of every sweep; open dimensions of a model stand behind the axes."""
GIB = 2.0**30


def columns(points: Sequence[Point]) -> tuple[str, ...]:
    """The columns of a sweep."""
    named = dict.fromkeys(name for point in points for name, _ in point.place.values)
    return (*AXES, *(name for name in named if name not in AXES), *RESULTS)


def row(point: Point, prices: Prices) -> dict[str, object]:
    """One point; `None` where something is not known."""
    result, names = point.result, columns([point])
    cells: dict[str, object] = {name: point.place.get(name) for name in names}
    cells |= {"devices": point.devices or cells["devices"], "status": result.status}
    cells |= {"key": point.key, "message": result.message or None}
    cells["peak_gib"] = _finite(result.peak_bytes / GIB)
    cells["limit_gib"] = result.limit_bytes / GIB or None
    if not result.is_planned:
        return {name: cells.get(name) for name in names}
    costs = bill(prices, result.chip, point.devices, result.best_s)
    cells |= {
        "step_s": result.step_s,
        "simulated_s": result.simulated_s,
        "bound_s": result.bound_s,
        "gap": _finite(result.gap),
        "samples_per_s": result.samples / result.best_s,
        "tokens_per_s": rate_of(point) if result.tokens else None,
        "utilisation": result.utilisation,
        "stages": result.stages,
        "micro_batches": result.micro_batches,
        "plan": result.outline,
        "price_per_step": costs.step_price,
        "joules_per_step": costs.step_joules,
        "currency": None if costs.step_price is None else prices.currency,
    }
    return {name: cells.get(name) for name in names}


def csv_text(points: Sequence[Point], prices: Prices) -> str:
    """A header and one row for each point; cells of what is not known are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns(points), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(row(point, prices)) for point in points)
    return out.getvalue()


def _cells(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _cell(value) for name, value in values.items()}


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
