"""The verdict on a plan, for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from cli.text import show
from report.tables import Lines, Table, Unit

if TYPE_CHECKING:
    from rich.console import Console

    from executors.verdict import Output, Verdict
    from ir.plan import Plan

MOST_ROWS = 12


def print_verdict(verdict: Verdict, plan: Plan, notes: Sequence[str], out: Console) -> None:
    """The verdict first, then what it rests on, then what is wrong."""
    devices = len(plan.rank_order)
    word = "verified" if verdict.passed else "NOT verified"
    out.print(f"{plan.graph.name}: {word} on {devices} virtual devices")
    for note in notes:
        out.print(f"  {note}")
    print_outputs(verdict.outputs, out)
    wrong = len(verdict.mismatches)
    out.print(f"\nMessages\n{verdict.messages} sent, {wrong} otherwise than planned")
    _print_mismatches(verdict, out)
    print_unverified(verdict.not_verified, out)


def print_outputs(outputs: Sequence[Output], out: Console) -> None:
    """The first outputs with their errors."""
    rows = [
        (o.name, "x".join(map(str, o.dims)) or "a scalar", _error(o.error))
        for o in outputs[:MOST_ROWS]
    ]
    columns = ("output", "dims", ("largest error", Unit.NUMBER))
    show((Table.of("Outputs, split against whole", columns, rows, after=_others(outputs)),), out)


def print_unverified(reasons: Mapping[str, str], out: Console) -> None:
    """Operators that were not run, the first of them, if any."""
    if not reasons:
        return
    out.print("\nNot verified")
    lines = [f"{name}: {reason}" for name, reason in list(reasons.items())[:MOST_ROWS]]
    show((Lines("", (*lines, *_others(reasons))),), out)


def _others(found: Sized) -> tuple[str, ...]:
    """How many more there are than are shown."""
    more = len(found) - MOST_ROWS
    return (f"and {more} others",) if more > 0 else ()


def _print_mismatches(verdict: Verdict, out: Console) -> None:
    for item in verdict.mismatches[:MOST_ROWS]:
        where = " for ".join(x for x in (item.tensor, item.operator) if x)
        out.print(f"- {where}: planned {item.planned or 'nothing'}; sent {item.sent or 'nothing'}")
    show((Lines("", _others(verdict.mismatches)),), out)


def _error(error: float) -> str:
    if not math.isfinite(error):
        return "not a number, or another shape"
    return "0" if error == 0 else f"{error:.1e}"
