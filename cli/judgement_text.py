"""What an outside judge says of a plan, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.text import show
from cli.verdict_text import print_outputs, print_unverified
from planner.requests.verification import shown_outputs
from report.tables import Lines, Table, Unit
from topology.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from executors.judgement import Judgement
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
    number = Unit.NUMBER
    columns = (
        "kind", ("group", number), ("predicted", Unit.BYTES), ("sent", Unit.BYTES),
        ("messages predicted", number), ("sent", number), "",
    )  # fmt: skip
    rows = [
        (c.kind.replace("_", "-"), c.group_size, c.predicted_bytes, c.emitted_bytes,
         c.predicted_count, c.emitted_count, "differs" if c in judgement.differences else "")
        for c in judgement.comparisons
    ]  # fmt: skip
    title = "Messages, predicted beside sent, each device in one step"
    none = Lines("", ("\nMessages\nnone predicted, none sent",))
    show((Table.of(title, columns, rows) if rows else none,), out)
    if judgement.memory_bytes is not None:
        out.print(f"\nMemory of a device, as {judgement.judge} counts it\n"
                  f"{format_bytes(judgement.memory_bytes)}")  # fmt: skip
    print_unverified(judgement.not_run, out)
