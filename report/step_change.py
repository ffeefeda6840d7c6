"""A step as planned, and with the same layouts under other circumstances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.tables import Table, Unit, numbers, percent, shown
from topology.units import format_bytes, format_seconds, without_rounding


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a plan on some machine, with some batch."""

    step_s: float
    simulated_s: float
    expected_s: tuple[float, float] | None
    """90 % of comparable published runs."""
    computing_s: float
    exposed_s: float
    hidden_s: float
    waiting_s: float
    samples_per_s: float
    samples_per_device_s: float
    peak_bytes: float
    limit_bytes: float
    devices: int
    batch: int

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.limit_bytes


_ROWS = (
    ("step", "step_s", Unit.SECONDS),
    ("computation", "computing_s", Unit.SECONDS),
    ("exposed communication", "exposed_s", Unit.SECONDS),
    ("hidden communication", "hidden_s", Unit.SECONDS),
    ("idle (pipeline bubble)", "waiting_s", Unit.SECONDS),
    ("step, simulated", "simulated_s", Unit.SECONDS),
    ("samples per second", "samples_per_s", Unit.NUMBER),
    ("samples per second and device", "samples_per_device_s", Unit.NUMBER),
    ("peak memory", "peak_bytes", Unit.BYTES),
    ("devices", "devices", Unit.NUMBER),
    ("batch", "batch", Unit.NUMBER),
)
_CHANGES = {Unit.SECONDS: Unit.CHANGE_S, Unit.BYTES: Unit.CHANGE_BYTES}


def step_table(before: StepFacts, after: StepFacts) -> Table:
    """Both steps quantity by quantity, with the difference and the ratio."""
    rows: list[Sequence[object]] = []
    for label, name, unit in _ROWS:
        one, two = getattr(before, name), getattr(after, name)
        delta = without_rounding(two - one, max(one, two))
        change = _amount(delta, _CHANGES.get(unit, Unit.NUMBER), "+") if delta else "same"
        ratio = f"{two / one:.3f}" if one else None
        rows.append((label, _amount(one, unit), _amount(two, unit), change, ratio))
    if before.expected_s or after.expected_s:
        told = "step, 90 % of comparable published runs"
        rows.append((told, _ends(before), _ends(after), None, None))
    columns = ("", *numbers("as planned", "as asked", "change", "x"))
    title = "The step, as planned and as asked"
    return Table.of(title, columns, rows, after=(_room(after),))


def _amount(value: float, unit: Unit, sign: str = "") -> str:
    form = ",.0f" if abs(value) >= 100 else ".4g"
    return f"{value:{sign}{form}}" if unit is Unit.NUMBER else shown(value, unit)


def _ends(of: StepFacts) -> str | None:
    return None if of.expected_s is None else " to ".join(map(format_seconds, of.expected_s))


def _room(after: StepFacts) -> str:
    told = "fits into memory" if after.fits else "does not fit into memory"
    if math.isinf(after.limit_bytes):
        return f"It {told}"
    of = f"{format_bytes(after.peak_bytes)} of {format_bytes(after.limit_bytes)}"
    return f"It {told}: {of} ({percent(after.peak_bytes, after.limit_bytes)} %)"
