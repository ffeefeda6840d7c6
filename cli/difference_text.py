"""The difference of two plans as text for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from cli.text import fitted, table
from ir.causes import cause_text
from planner.difference import Amount, Change, Difference
from topology.units import format_bytes, format_seconds, without_rounding

_MOST_SHOWN = 15


def print_difference(found: Difference, names: tuple[str, str], out: Console) -> None:
    """What differs; equal things are left out.

    Args:
        found: the comparison.
        names: what to call the plans.
        out: where to print.
    """
    out.print(f"A: {names[0]}", soft_wrap=True)
    out.print(f"B: {names[1]}", soft_wrap=True)
    if found.is_empty:
        out.print(f"The plans are equal: {found.shared} operators and parameters, time, memory.")
        return
    out.print(Text(_headline(found.step_time_s), style="bold"))
    _facts(found, out)
    _amounts("Time", (*found.time_by_cause, found.step_time_s), format_seconds, out)
    _amounts(
        "Peak memory of a device", (*found.memory_by_cause, found.peak_memory_bytes),
        format_bytes, out,
    )  # fmt: skip
    _changes("Operators with other layouts", found.operators, out)
    _changes("Parameters with other layouts", found.parameters, out)
    _missing(found, out)


def _headline(step: Amount) -> str:
    first, second = format_seconds(step.first), format_seconds(step.second)
    if step.first == step.second:
        return f"Both take {first}"
    if not (step.first > 0 and step.second > 0):
        return f"A takes {first}, B {second}"
    faster, ratio = ("B", step.first / step.second)
    if ratio < 1:
        faster, ratio = "A", 1 / ratio
    return f"A takes {first}, B {second}: {faster} is {ratio:.3g} x faster"


def _facts(found: Difference, out: Console) -> None:
    if not found.facts:
        return
    made = table("Asked and found", ["", "A", "B"], right=())
    for fact in found.facts:
        made.add_row(fact.name, fact.first, fact.second)
    out.print(made)


def _amounts(
    title: str, amounts: Sequence[Amount], unit: Callable[[float], str], out: Console
) -> None:
    if all(a.first == a.second for a in amounts):
        return
    made = table(title, ["cause", "A", "B", "B - A"], right=(1, 2, 3))
    for each in amounts:
        delta = without_rounding(each.second - each.first, max(each.first, each.second))
        sign = "+" if delta > 0 else "-"
        made.add_row(
            cause_text(each.name),
            unit(each.first) if each.first else "-",
            unit(each.second) if each.second else "-",
            f"{sign}{unit(abs(delta))}" if delta else "same",
            style="bold" if each is amounts[-1] else None,
        )
    out.print(made)


def _changes(title: str, changes: Sequence[Change], out: Console) -> None:
    if not changes:
        return
    made = table(title, ["pattern", "count", "", "layouts"], right=(1,))
    for each in changes[:_MOST_SHOWN]:
        made.add_row(fitted(each.name, out), str(each.count), "A", each.first)
        made.add_row("", "", "B", each.second)
    out.print(made)
    rest = changes[_MOST_SHOWN:]
    if rest:
        out.print(f"and {sum(c.count for c in rest)} others in {len(rest)} groups")


def _missing(found: Difference, out: Console) -> None:
    for name, other, count in (("A", "B", found.only_first), ("B", "A", found.only_second)):
        if count:
            out.print(f"\n{count} operators and parameters of {name} are not in {other}.")
