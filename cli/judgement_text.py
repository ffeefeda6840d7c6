"""What an outside judge says of a plan, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.text import table
from cli.verdict_text import print_outputs, print_unverified
from planner.requests.verification import shown_outputs
from topology.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from executors.judgement import Comparison, Judgement
    from ir.plan import Plan


def judgement_record(judgement: Judgement, notes: Sequence[str]) -> dict[str, object]:
    """The answer of `planner verify --executor … --json`."""
    return {
        "status": "verified" if judgement.passed else "not verified",
        "judge": judgement.judge,
        "outputs": shown_outputs(judgement.outputs),
        "not_verified": dict(judgement.not_run),
        "messages": [
            asdict(c) | {"agrees": c not in judgement.differences} for c in judgement.comparisons
        ],
        "memory_bytes": judgement.memory_bytes,
        "notes": [*notes, *judgement.notes],
    }


def print_judgement(judgement: Judgement, plan: Plan, notes: Sequence[str], out: Console) -> None:
    """The verdict first, then what it rests on, then what is wrong."""
    word = "confirmed" if judgement.passed else "NOT confirmed"
    out.print(f"{plan.graph.name}: {word} by {judgement.judge} on {plan.devices} devices")
    for note in (*notes, *judgement.notes):
        out.print(f"  {note}")
    if judgement.outputs:
        print_outputs(judgement.outputs, out)
    columns = ("kind", "group", "predicted", "sent", "messages predicted", "sent", "")
    rows = table("Messages, predicted beside sent, each device in one step", columns,
                 right=(1, 2, 3, 4, 5))  # fmt: skip
    for item in judgement.comparisons:
        rows.add_row(*_cells(item, agrees=item not in judgement.differences))
    if judgement.comparisons:
        out.print(rows)
    else:
        out.print("\nMessages\nnone predicted, none sent")
    if judgement.memory_bytes is not None:
        out.print(f"\nMemory of a device, as {judgement.judge} counts it\n"
                  f"{format_bytes(judgement.memory_bytes)}")  # fmt: skip
    print_unverified(judgement.not_run, out)


def _cells(item: Comparison, *, agrees: bool) -> tuple[str, ...]:
    return (
        item.kind.replace("_", "-"),
        str(item.group_size),
        format_bytes(item.predicted_bytes),
        format_bytes(item.emitted_bytes),
        str(item.predicted_count),
        str(item.emitted_count),
        "" if agrees else "differs",
    )
