"""Seconds of every step, as profilers of MindSpore and of torch on Ascend sum them up.

`ASCEND_PROFILER_OUTPUT/step_trace_time.csv`, and `cluster_step_trace_time.csv` of several ranks:
microseconds in which a device computes, waits for messages, and does nothing.

Source: Ascend documentation, "timeline and summary data" of the profiler, table step_trace_time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.traces.records import Trace

__all__ = ["is_step_table", "step_trace"]

_COLUMNS: Mapping[str, str] = {
    "computing": "computation",
    "communication(not overlapped)": "exposed communication",
    "free": "idle",
}
"""Columns that add up to a step, by what they tell."""
_SENT, _HIDDEN = "communication", "overlapped"


def is_step_table(names: Sequence[str]) -> bool:
    """Whether these columns, in lower case, are those of such a table."""
    return set(_COLUMNS) <= set(names)


def step_trace(rows: Iterator[list[str]], names: Sequence[str], name: str) -> Trace:
    """The trace of a table whose first line is read.

    Args:
        rows: what follows.
        names: of the columns, in lower case.
        name: of the file.

    Raises:
        CalibrationError: there is no step, or a row has no numbers where they are due.
    """
    found = [
        _Row(dict(zip(names, row, strict=False)), number, name)
        for number, row in enumerate(rows, 2)
        if any(cell.strip() for cell in row)
    ]
    own = [row for row in found if row.text("type") in {"", "rank"}]
    if not own:
        raise CalibrationError("the table has no step", name, "profile at least one step")
    devices = {row.text("device_id") or row.text("index") for row in own}
    parts = {
        told: [row.seconds(column) for row in own] for column, told in _COLUMNS.items()
    }  # fmt: skip
    steps_s = [sum(each) for each in zip(*parts.values(), strict=True)]
    totals = {told: sum(seconds) for told, seconds in parts.items()} | {"step": sum(steps_s)}
    return Trace(
        name=name,
        format="step table of Ascend",
        kernels=(),
        messages=(),
        steps=len(own),
        span_s=sum(steps_s),
        busy_s=sum(parts["computation"]),
        message_s=sum(row.seconds(_SENT) for row in own),
        hidden_s=sum(row.seconds(_HIDDEN) for row in own),
        ranks=len(devices) if len(devices) > 1 else 0,
        causes_s={told: seconds / len(own) for told, seconds in totals.items()},
    )


class _Row:
    """One step of one device."""

    def __init__(self, cells: Mapping[str, str], number: int, where: str) -> None:
        self.cells, self.number, self.where = cells, number, where

    def text(self, column: str) -> str:
        return self.cells.get(column, "").strip().lower()

    def seconds(self, column: str) -> float:
        """Of a column of microseconds; 0 where the table does not have it."""
        if column not in self.cells and column not in _COLUMNS:
            return 0.0
        try:
            value = float(self.cells.get(column, ""))
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise CalibrationError(
                f"row {self.number} has {self.cells.get(column, 'nothing')[:40]!r} where "
                f"microseconds of {column!r} are due",
                self.where,
                "copy the table again",
            )
        return value * 1e-6
