"""What a person reads of a measured run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.text import page
from executors.measured import message_rows, rows_of
from topology.units import format_memory, format_seconds

if TYPE_CHECKING:
    from executors.measured import Measured
    from ir.plan import Plan
    from planner.explain.next_plan import NextPlan


def print_run(
    plan: Plan, found: Measured, differences: Sequence[str], written: Sequence[Path]
) -> None:
    """Predicted beside measured: the step by cause, messages, memory, and what was checked."""
    with page() as out:
        low_s, high_s = found.spread_s
        out.print(
            f"{plan.graph.name} on {found.processes} processes ({found.machine['backend']}, "
            f"{found.software}), {len(found.steps_s)} steps"
        )
        out.print(
            f"step {format_seconds(found.median_s)} median, {format_seconds(low_s)} to "
            f"{format_seconds(high_s)} (10 % to 90 %)"
        )
        out.print(_loss_text(found))
        out.print()
        _print_causes(plan, found, out)
        _print_messages(plan, found, out)
        _print_classes(found, out)
        for head, lines in (
            ("Otherwise than planned", differences),
            ("Notes", found.notes),
            ("Written", [str(path) for path in written]),
        ):
            if lines:
                out.print(f"\n{head}")
                for line in lines:
                    out.print(f"- {line}")


def print_next(other: NextPlan | None) -> None:
    """What a search chooses with the rates that were measured, where that is another plan."""
    if other is None:
        return
    from ir.plan_name import plan_name  # noqa: PLC0415

    with page() as out:
        share = 1.0 - other.next_s / other.this_s
        out.print(
            f"\nNext\n- {plan_name(other.plan)}: with the rates that were measured its step is "
            f"{format_seconds(other.next_s)}, that of this plan {format_seconds(other.this_s)} "
            f"({share:.0%} less); -o writes it as next_plan.json"
        )


def _loss_text(found: Measured) -> str:
    if found.loss_error is None:
        return f"loss {found.loss:.6g}, not checked"
    said = "as on one device" if found.is_right else "NOT that of one device"
    return f"loss {found.loss:.6g}, {said} (relative error {found.loss_error:.1e})"


def _print_causes(plan: Plan, found: Measured, out: Any) -> None:
    from rich.table import Table  # noqa: PLC0415  slow to import

    table = Table(box=None, pad_edge=False)
    for name in ("", "predicted", "measured", "error"):
        table.add_column(name, justify="right" if name else "left")
    for row in rows_of(plan, found):
        error = "-" if row.error is None else f"{row.error:+.0%}"
        table.add_row(row.cause, format_seconds(row.predicted), format_seconds(row.measured), error)
    peak = plan.estimate.peak_memory_bytes
    error = "-" if not found.memory_bytes else f"{peak / found.memory_bytes - 1.0:+.0%}"
    table.add_row("peak memory", format_memory(peak), format_memory(found.memory_bytes), error)
    out.print(table)


def _print_messages(plan: Plan, found: Measured, out: Any) -> None:
    from rich.table import Table  # noqa: PLC0415

    rows = message_rows(plan, found)
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("messages", "planned", "time", "seen", "time seen"):
        table.add_column(name, justify="left" if name == "messages" else "right")
    for kind, planned, planned_s, seen, seen_s in rows:
        table.add_row(
            kind, str(planned), format_seconds(planned_s), str(seen), format_seconds(seen_s)
        )
    out.print()
    out.print(table)


def _print_classes(found: Measured, out: Any) -> None:
    shown = sorted(found.classes_s.items(), key=lambda item: -item[1])
    if shown:
        texts = ", ".join(f"{name} {format_seconds(s)}" for name, s in shown)
        out.print(f"\nProfiled, one step of one process: {texts}")
