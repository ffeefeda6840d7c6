"""The verdict on a plan, for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.text import table

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
    rows = table("Outputs, split against whole", ("output", "dims", "largest error"), right=(2,))
    for output in outputs[:MOST_ROWS]:
        dims = "x".join(map(str, output.dims)) or "a scalar"
        rows.add_row(output.name, dims, _error(output.error))
    out.print(rows)
    if len(outputs) > MOST_ROWS:
        out.print(f"and {len(outputs) - MOST_ROWS} others")


def print_unverified(reasons: Mapping[str, str], out: Console) -> None:
    """Operators that were not run, the first of them, if any."""
    if not reasons:
        return
    out.print("\nNot verified")
    for name, reason in list(reasons.items())[:MOST_ROWS]:
        out.print(f"{name}: {reason}")
    if len(reasons) > MOST_ROWS:
        out.print(f"and {len(reasons) - MOST_ROWS} others")


def _print_mismatches(verdict: Verdict, out: Console) -> None:
    for item in verdict.mismatches[:MOST_ROWS]:
        where = " for ".join(x for x in (item.tensor, item.operator) if x)
        out.print(f"- {where}: planned {item.planned or 'nothing'}; sent {item.sent or 'nothing'}")
    if len(verdict.mismatches) > MOST_ROWS:
        out.print(f"and {len(verdict.mismatches) - MOST_ROWS} others")


def _error(error: float) -> str:
    if not math.isfinite(error):
        return "not a number, or another shape"
    return "0" if error == 0 else f"{error:.1e}"
