"""Explanations as text for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from cli.text import fitted, table
from ir.causes import cause_text, links_between
from report.tables import percent
from topology.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from planner.explain import (
        Breakpoint,
        Candidate,
        CauseDelta,
        FasterLink,
        MemoryStatus,
        OperatorExplanation,
        PlanExplanation,
        Range,
        Rival,
        Sensitivity,
        StageStatus,
        WhyNot,
    )

_MOST_PARTS = 12
_MOST_RIVALS = 8
_MOST_STAGES = 16


def print_explanation(
    found: PlanExplanation | Sensitivity | OperatorExplanation, out: Console
) -> None:
    """Whichever of the three it is."""
    from planner.explain import OperatorExplanation, Sensitivity  # noqa: PLC0415

    if isinstance(found, Sensitivity):
        _sensitivity(found, out)
    elif isinstance(found, OperatorExplanation):
        _operator(found, out)
    else:
        _summary(found, out)


def _summary(found: PlanExplanation, out: Console) -> None:
    """What costs most, what limits, what comes next."""
    step = format_seconds(found.step_time_s)
    out.print(Text(f"A step takes {step}; {_proof(found)}", style="bold"))
    for text in found.limits:
        out.print(Text(f"- {text}"))
    if len(found.stages) > 1:
        _stages(found.stages, out)
    parts = 1 + max((stage.part for stage in found.stages), default=0)
    made = table("Dearest operators", ["operators", "count", "compute", "moving", "%", "cuts"],
                 right=(1, 2, 3, 4))  # fmt: skip
    for each in found.operators:
        made.add_row(
            fitted(f"{each.label} {each.name}", out), str(each.count),
            format_seconds(each.compute_s), format_seconds(each.communication_s),
            percent(each.time_s, found.step_time_s * parts), each.cuts,
        )  # fmt: skip
    out.print(made)
    _memory(found.memory, out)
    holders = table("Memory at the peak", ["cause", "bytes", "largest"], right=(1,))
    for holder in found.holders:
        largest = f"{holder.largest} ({format_bytes(holder.largest_bytes)})"
        holders.add_row(holder.cause, format_bytes(holder.nbytes), largest)
    out.print(holders)
    _rivals(found.rivals, out)
    _links(found.links, out)


def _stages(stages: Sequence[StageStatus], out: Console) -> None:
    """What each stage does; of many alike the first ones and the last."""
    columns = ["stage", "part", "works", "waits", "moving", "memory", "dearest operators"]
    made = table("Stages, in a step", columns, right=(0, 1, 2, 3, 4, 5))
    left_out = len(stages) - _MOST_STAGES
    shown = stages if left_out <= 0 else (*stages[: _MOST_STAGES - 1], stages[-1])
    for each in shown:
        dearest = ", ".join(f"{o.count} x {o.label}" for o in each.dearest)
        made.add_row(
            str(each.stage), str(each.part), format_seconds(each.work_s),
            format_seconds(each.waits_s), format_seconds(each.communication_s),
            format_bytes(each.peak_memory_bytes), dearest,
        )  # fmt: skip
    out.print(made)
    if left_out > 0:
        out.print(f"and {left_out} more; --json has all")


def _operator(found: OperatorExplanation, out: Console) -> None:
    """One operator or tensor: its candidates, their costs, its neighbours."""
    head = (
        f"{found.label} {found.name}" if found.kind == "operator" else f"{found.kind} {found.name}"
    )
    out.print(Text(head, style="bold"), soft_wrap=True)
    if found.scope:
        out.print(found.scope, soft_wrap=True)
    out.print(f"{found.candidates} ways; the step takes {format_seconds(found.step_time_s)}")
    if found.place is not None:
        place = found.place
        out.print(
            f"in stage {place.stage} of {place.stages}; times are those of its devices in a step "
            f"of {place.micro_batches} micro-batches, {format_seconds(place.work_s)} of work",
            soft_wrap=True,
        )
    _memory(found.memory, out)
    shown = (found.chosen, *found.rivals)
    _candidates(shown, out)
    for number, each in enumerate(shown):
        _candidate(number, each, out)
    _neighbours(found, out)


def print_why_not(found: WhyNot, out: Console) -> None:
    """A restriction, and where the time and the memory go that it costs."""
    out.print(Text(f"\nWhy not {found.asked}: {found.text}", style="bold"), soft_wrap=True)
    if found.restricted_s is not None and found.delta_s is not None:
        before, after = format_seconds(found.step_time_s), format_seconds(found.restricted_s)
        out.print(
            f"a step takes {after} in place of {before}; {found.changed} operators are split "
            "otherwise"
        )
    _deltas("Time", found.time, format_seconds, out)
    _deltas("Peak memory of a device", found.memory, format_bytes, out)
    for note in found.notes:
        out.print(f"note: {note}", soft_wrap=True)


def _deltas(
    title: str, deltas: Sequence[CauseDelta], unit: Callable[[float], str], out: Console
) -> None:
    if not deltas:
        return
    made = table(title, ["cause", "the plan", "held to it", "difference"], right=(1, 2, 3))
    for each in deltas:
        sign = "-" if each.delta < 0 else "+"
        made.add_row(
            cause_text(each.cause), unit(each.before), unit(each.after),
            f"{sign}{unit(abs(each.delta))}",
        )  # fmt: skip
    out.print(made)


def _sensitivity(found: Sensitivity, out: Console) -> None:
    """Between which values the plan stays the best."""
    out.print(Text(f"A step takes {format_seconds(found.step_time_s)}", style="bold"))
    made = table("The plan stays the best", ["", "now", "down to", "up to"], right=(1, 2, 3))
    for each in found.ranges:
        made.add_row(
            each.quantity, _amount(each, each.value),
            _edge(each, each.below, each.lowest), _edge(each, each.above, each.highest),
        )  # fmt: skip
    out.print(made)
    for each in found.ranges:
        for turn in (each.below, each.above):
            if turn is not None:
                more = f": {', '.join(turn.changes)}" if turn.changes else ""
                place = f"{each.quantity} {_amount(each, turn.value)}"
                out.print(f"{place}: {turn.text}{more}", soft_wrap=True)


def _edge(found: Range, turn: Breakpoint | None, farthest: float) -> str:
    if turn is not None:
        return _amount(found, turn.still)
    return "any" if math.isinf(farthest) else f"{_amount(found, farthest)} or farther"


def _amount(found: Range, value: float) -> str:
    if found.unit == "samples":
        return f"{value:.0f}"
    return format_bytes(value) if found.unit == "B" else format_bandwidth(value)


def signed_seconds(time_s: float) -> str:
    """With its sign."""
    return f"{'-' if time_s < 0 else '+'}{format_seconds(abs(time_s))}"


def _proof(found: PlanExplanation) -> str:
    if found.proof == "optimal":
        return "nothing in the space is faster"
    return f"nothing in the space takes less than {format_seconds(found.bound_s)}"


def _memory(memory: MemoryStatus, out: Console) -> None:
    peak, limit = format_bytes(memory.peak_bytes), format_bytes(memory.limit_bytes)
    if not memory.is_binding:
        out.print(f"Memory has no say: {peak} of {limit} per device, and the fastest plan fits.")
        return
    price = format_seconds(memory.price_s_per_gib)
    out.print(f"Memory binds: {peak} of {limit} per device; a GiB more would save {price} a step.")


def _candidates(shown: Sequence[Candidate], out: Console) -> None:
    title = "Candidates, the chosen one first"
    made = table(title, ["", "layouts", "here", "all else as planned", "all else anew"],
                 right=(2, 3, 4))  # fmt: skip
    for number, each in enumerate(shown):
        anew = "does not fit" if each.delta_s is None else signed_seconds(each.delta_s)
        made.add_row(
            _letter(number), each.cuts or each.outputs[0], format_seconds(each.local_s),
            "-" if each.is_chosen else signed_seconds(each.fixed_delta_s),
            "-" if each.is_chosen else anew,
        )  # fmt: skip
    out.print(made)


def _candidate(number: int, each: Candidate, out: Console) -> None:
    name = f"{_letter(number)}: {', '.join(each.inputs)} -> {', '.join(each.outputs)}"
    hides = any(part.hidden_s for part in each.parts)
    columns = ["cause", "what moves", "time", *(["hidden"] if hides else [])]
    made = table(name, columns, right=(2, 3))
    for part in each.parts[:_MOST_PARTS]:
        what = f"{part.tensor}, {part.neighbour}: {part.purpose}" if part.tensor else part.purpose
        beside = [format_seconds(part.hidden_s) if part.hidden_s else ""] if hides else []
        made.add_row(cause_text(part.cause), what, format_seconds(part.time_s), *beside)
    out.print(made)
    if each.memory_charge_s:
        charge = format_seconds(each.memory_charge_s)
        out.print(f"its memory, {format_bytes(each.memory_bytes)}, costs others {charge}")
    for reason in each.reasons[:2]:
        out.print(Text(f"not chosen: {reason.text}"), soft_wrap=True)
    if each.also_changed:
        out.print(f"changes with it: {', '.join(each.also_changed)}", soft_wrap=True)


def _neighbours(found: OperatorExplanation, out: Console) -> None:
    letters = [_letter(i) for i in range(1 + len(found.rivals))]
    columns = ["tensor, neighbour", *letters, "wants"]
    numbers = tuple(range(1, 1 + len(letters)))
    made = table("What the neighbours, as planned, make of each", columns, right=numbers)
    for each in found.neighbours:
        name = (
            f"{each.tensor}, {each.name}"
            if each.tensor != each.name
            else f"{each.kind} {each.name}"
        )
        costs = [_cost(cost) for cost in each.costs_s]
        made.add_row(fitted(name, out), *costs, each.wants)
    out.print(made)


def _cost(time_s: float) -> str:
    return "cannot" if time_s >= 1e3 else format_seconds(time_s)


def _rivals(rivals: Sequence[Rival], out: Console) -> None:
    made = table("Closest rivals", ["plan", "step", "why not"], right=(1,))
    for each in rivals[:_MOST_RIVALS]:
        delta = "does not fit" if each.delta_s is None else signed_seconds(each.delta_s)
        made.add_row(fitted(each.name, out), delta, each.reason)
    out.print(made)


def _links(links: Sequence[FasterLink], out: Console) -> None:
    made = table("Links twice as fast", ["links", "this plan", "the best plan there"], right=(1, 2))
    for each in links:
        best = format_seconds(each.best_s) + (" (another plan)" if each.plan_changes else "")
        made.add_row(links_between(each.tier), format_seconds(each.same_plan_s), best)
    out.print(made)


def _letter(number: int) -> str:
    return "chosen" if number == 0 else chr(ord("A") + number - 1)
