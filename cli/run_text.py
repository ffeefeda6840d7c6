"""What a person reads of a measured run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from executors.measured import message_rows, rows_of
from report.tables import Lines, Part, Table, Unit, numbers
from topology.units import format_memory, format_seconds

if TYPE_CHECKING:
    from executors.measured import Measured
    from ir.plan import Plan
    from planner.explain.next_plan import NextPlan


def run_parts(
    plan: Plan, found: Measured, differences: Sequence[str], written: Sequence[Path],
    other: NextPlan | None = None,
) -> Iterator[Part]:  # fmt: skip
    """Predicted and measured: the step by cause, messages, memory, and what was checked; and what
    a search chooses with the rates that were measured, where that is another plan.
    """
    low_s, high_s = found.spread_s
    ran = f"{found.machine['backend']}, {found.software}"
    median, low, high = map(format_seconds, (found.median_s, low_s, high_s))
    first = (
        f"{plan.graph.name} on {found.processes} processes ({ran}), {len(found.steps_s)} steps",
        f"step {median} median, {low} to {high} (10 % to 90 %)",
        _loss_text(found),
    )
    yield Lines("", first)
    yield _causes(plan, found)
    yield _messages(plan, found)
    shown = sorted(found.classes_s.items(), key=lambda item: -item[1])
    if shown:
        texts = ", ".join(f"{name} {format_seconds(s)}" for name, s in shown)
        yield Lines("", (f"\nProfiled, one step of one process: {texts}",))
    yield Lines("Otherwise than planned", tuple(differences), "- ")
    yield Lines("Notes", tuple(found.notes), "- ")
    yield Lines("Written", tuple(map(str, written)), "- ")
    if other is not None:
        yield Lines("Next", (_next_text(other),), "- ")


def _next_text(other: NextPlan) -> str:
    from ir.plan_name import plan_name  # noqa: PLC0415

    return (
        f"{plan_name(other.plan)}: with the rates that were measured its step is "
        f"{format_seconds(other.next_s)}, that of this plan {format_seconds(other.this_s)} "
        f"({1.0 - other.next_s / other.this_s:.0%} less); -o writes it as next_plan.json"
    )


def _loss_text(found: Measured) -> str:
    if found.loss_error is None:
        return f"loss {found.loss:.6g}, not checked"
    said = "as on one device" if found.is_right else "NOT that of one device"
    return f"loss {found.loss:.6g}, {said} (relative error {found.loss_error:.1e})"


def _causes(plan: Plan, found: Measured) -> Table:
    rows = [
        (row.cause, format_seconds(row.predicted), format_seconds(row.measured),
         None if row.error is None else f"{row.error:+.0%}")
        for row in rows_of(plan, found)
    ]  # fmt: skip
    peak = plan.estimate.peak_memory_bytes
    error = f"{peak / found.memory_bytes - 1.0:+.0%}" if found.memory_bytes else None
    rows.append(("peak memory", format_memory(peak), format_memory(found.memory_bytes), error))
    return Table.of("", ("", *numbers("predicted", "measured", "error")), rows)


def _messages(plan: Plan, found: Measured) -> Table:
    number, seconds = Unit.NUMBER, Unit.SECONDS
    columns = (
        "messages", ("planned", number), ("time", seconds), ("seen", number),
        ("time seen", seconds),
    )  # fmt: skip
    return Table.of("", columns, message_rows(plan, found))
