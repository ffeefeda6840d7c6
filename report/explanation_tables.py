"""Explanations in sentences and tables: why a plan, an operator or a layout is as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ir.causes import cause_text, links_between
from report.explanation import (
    Candidate,
    CauseDelta,
    MemoryStatus,
    OperatorExplanation,
    PlanExplanation,
    StageStatus,
    WhyNot,
)
from report.sensitivity import Breakpoint, Range, Sensitivity
from report.tables import Column, Head, Lines, Part, Table, Unit, share
from topology.units import format_bandwidth, format_bytes, format_seconds

_MOST_PARTS = 12
_MOST_RIVALS = 8
_MOST_STAGES = 16
_TIME, _NUMBER, _BYTES = Unit.SECONDS, Unit.NUMBER, Unit.BYTES


def parts(found: PlanExplanation | Sensitivity | OperatorExplanation) -> Iterator[Part]:
    """Whichever of the three it is."""
    if isinstance(found, OperatorExplanation):
        yield from _operator(found)
        return
    step = f"A step takes {format_seconds(found.step_time_s)}"
    if isinstance(found, Sensitivity):
        yield Head(step)
        yield from _sensitivity(found)
    else:
        yield Head(f"{step}; {_proof(found)}")
        yield from _summary(found)


def _proof(found: PlanExplanation) -> str:
    if found.proof == "optimal":
        return "nothing in the space is faster"
    if not found.bound_s:
        return "priced anew as it stands, without a bound"
    return f"nothing in the space takes less than {format_seconds(found.bound_s)}"


def _summary(found: PlanExplanation) -> Iterator[Part]:
    """What costs most, what limits, what comes next."""
    yield Lines("", found.limits, "- ")
    if len(found.stages) > 1:
        yield _stages(found.stages)
    whole = found.step_time_s * (1 + max((stage.part for stage in found.stages), default=0))
    yield Table.of(
        "Heaviest operators",
        (("operators", Unit.NAME), ("count", _NUMBER), ("compute", _TIME), ("exposed", _TIME),
         ("%", Unit.SHARE), ("cuts", Unit.CODE)),
        [
            (f"{o.label} {o.name}", o.count, o.compute_s, o.communication_s,
             share(o.time_s, whole), o.cuts)
            for o in found.operators
        ],
        after=(_memory(found.memory),),
    )  # fmt: skip
    yield Table.of(
        "Memory at the peak",
        ("cause", ("bytes", _BYTES), ("largest", Unit.CODE)),
        [
            (h.cause, h.nbytes, f"{h.largest} ({format_bytes(h.largest_bytes)})")
            for h in found.holders
        ],
    )
    yield Table.of(
        "Closest rivals",
        (("plan", Unit.NAME), ("step", Unit.CHANGE_S), "why not"),
        [(r.name, _delta(r.delta_s), r.reason) for r in found.rivals[:_MOST_RIVALS]],
    )
    yield Table.of(
        "Links twice as fast",
        ("links", ("this plan", _TIME), ("the best plan there", _NUMBER)),
        [
            (links_between(link.tier), link.same_plan_s,
             format_seconds(link.best_s) + (" (another plan)" if link.plan_changes else ""))
            for link in found.links
        ],
    )  # fmt: skip


def _stages(stages: Sequence[StageStatus]) -> Table:
    """What each stage does; of many alike the first ones and the last."""
    columns = (
        ("stage", _NUMBER), ("rank", _NUMBER), ("busy", _TIME), ("idle", _TIME),
        ("exposed", _TIME), ("memory", _BYTES),
        ("heaviest operators", Unit.CODE),
    )  # fmt: skip
    left_out = len(stages) - _MOST_STAGES
    shown = stages if left_out <= 0 else (*stages[: _MOST_STAGES - 1], stages[-1])
    rows = [
        (s.stage, s.part, s.work_s, s.waits_s, s.communication_s, s.peak_memory_bytes,
         ", ".join(f"{o.count} x {o.label}" for o in s.dearest))
        for s in shown
    ]  # fmt: skip
    after = [f"and {left_out} more; --json has all"] if left_out > 0 else []
    return Table.of("Stages, in a step", columns, rows, after=after)


def _operator(found: OperatorExplanation) -> Iterator[Part]:
    """One operator or tensor: its candidates, their costs, its neighbours."""
    is_operator = found.kind == "operator"
    name = f"{found.label if is_operator else found.kind} {found.name}"
    yield Head(name, soft_wrap=True)
    lines = [found.scope] if found.scope else []
    lines.append(f"{found.candidates} candidates; a step takes {format_seconds(found.step_time_s)}")
    if found.place is not None:
        place = found.place
        lines.append(
            f"in stage {place.stage} of {place.stages}; times are those of its devices in a step "
            f"of {place.micro_batches} micro-batches, {format_seconds(place.work_s)} of work"
        )
    yield Lines("", tuple(lines), soft_wrap=True)
    if found.memory is not None:
        yield Lines("", (_memory(found.memory),))
    shown = (found.chosen, *found.rivals)
    yield _candidates(shown, replanned=found.memory is not None)
    for number, each in enumerate(shown):
        yield from _candidate(number, each)
    yield _neighbours(found)


def why_not_parts(found: WhyNot) -> Iterator[Part]:
    """A restriction, and where the time and the memory go that it costs."""
    yield Head(f"\nWhy not {found.asked}: {found.text}", soft_wrap=True)
    if found.restricted_s is not None and found.delta_s is not None:
        before, after = format_seconds(found.step_time_s), format_seconds(found.restricted_s)
        told = f"a step takes {after} in place of {before}"
        yield Lines("", (f"{told}; {found.changed} operators are split otherwise",))
    yield _deltas("Time", found.time, _TIME, Unit.CHANGE_S)
    yield _deltas("Peak memory of a device", found.memory, Unit.BYTES, Unit.CHANGE_BYTES)
    yield Lines("", found.notes, "note: ", soft_wrap=True)


def _deltas(title: str, deltas: Sequence[CauseDelta], unit: Unit, change: Unit) -> Table:
    columns = ("cause", ("the plan", unit), ("held to it", unit), ("difference", change))
    return Table.of(
        title, columns, [(cause_text(d.cause), d.before, d.after, d.delta) for d in deltas]
    )


def _sensitivity(found: Sensitivity) -> Iterator[Part]:
    """Between which values the plan stays the best."""
    yield Table.of(
        "The plan stays the best",
        ("", ("now", _NUMBER), ("down to", _NUMBER), ("up to", _NUMBER)),
        [
            (r.quantity, _amount(r, r.value), _edge(r, r.below, r.lowest),
             _edge(r, r.above, r.highest))
            for r in found.ranges
        ],
    )  # fmt: skip
    lines = []
    for each in found.ranges:
        for turn in (each.below, each.above):
            if turn is not None:
                more = f": {', '.join(turn.changes)}" if turn.changes else ""
                lines.append(f"{each.quantity} {_amount(each, turn.value)}: {turn.text}{more}")
    yield Lines("", tuple(lines), soft_wrap=True)


def _edge(found: Range, turn: Breakpoint | None, farthest: float) -> str:
    if turn is not None:
        return _amount(found, turn.still)
    return "any" if math.isinf(farthest) else f"{_amount(found, farthest)} or farther"


def _amount(found: Range, value: float) -> str:
    if found.unit == "samples":
        return f"{value:.0f}"
    return format_bytes(value) if found.unit == "B" else format_bandwidth(value)


def _memory(memory: MemoryStatus) -> str:
    peak, limit = format_bytes(memory.peak_bytes), format_bytes(memory.limit_bytes)
    if not memory.is_binding:
        return f"Not memory-bound: {peak} of {limit} per device, and the fastest plan fits."
    price = format_seconds(memory.price_s_per_gib)
    return f"Memory-bound: {peak} of {limit} per device; a GiB more would save {price} a step."


def _delta(delta_s: float | None) -> float | str:
    return "does not fit" if delta_s is None else delta_s


def _candidates(shown: Sequence[Candidate], *, replanned: bool) -> Table:
    changes = ("rest as planned", "rest replanned")[: 1 + replanned]
    columns: list[Column] = ["", ("layouts", Unit.CODE), ("here", _TIME)]
    columns += [(name, Unit.CHANGE_S) for name in changes]
    rows: list[Sequence[object]] = []
    for number, each in enumerate(shown):
        more = (None, None) if each.is_chosen else (each.fixed_delta_s, _delta(each.delta_s))
        own = _letter(number), each.cuts or each.outputs[0], each.local_s
        rows.append((*own, *more[: len(changes)]))
    return Table.of("Candidates, the chosen one first", columns, rows)


def _candidate(number: int, each: Candidate) -> Iterator[Part]:
    hides = any(part.hidden_s for part in each.parts)
    hidden = (("hidden", _TIME),) if hides else ()
    rows = [
        (cause_text(part.cause),
         f"{part.tensor}, {part.neighbour}: {part.purpose}" if part.tensor else part.purpose,
         part.time_s, *((part.hidden_s or "",) if hides else ()))
        for part in each.parts[:_MOST_PARTS]
    ]  # fmt: skip
    title = f"{_letter(number)}: {', '.join(each.inputs)} -> {', '.join(each.outputs)}"
    yield Table.of(title, ("cause", "tensor or purpose", ("time", _TIME), *hidden), rows)
    lines = []
    if each.memory_charge_s:
        charge = format_seconds(each.memory_charge_s)
        lines.append(f"its memory, {format_bytes(each.memory_bytes)}, costs others {charge}")
    lines += [f"not chosen: {reason.text}" for reason in each.reasons[:2]]
    if each.also_changed:
        lines.append(f"changes with it: {', '.join(each.also_changed)}")
    yield Lines("", tuple(lines), soft_wrap=True)


def _neighbours(found: OperatorExplanation) -> Table:
    letters = [(_letter(i), _NUMBER) for i in range(1 + len(found.rivals))]
    rows = [
        (
            f"{n.tensor}, {n.name}" if n.tensor != n.name else f"{n.kind} {n.name}",
            *("cannot" if cost >= 1e3 else format_seconds(cost) for cost in n.costs_s),
            n.wants,
        )
        for n in found.neighbours
    ]
    columns: tuple[Column, ...] = (
        ("tensor, neighbour", Unit.NAME),
        *letters,
        ("cheapest layout", Unit.CODE),
    )
    return Table.of("Redistribution to the neighbours as planned, by candidate", columns, rows)


def _letter(number: int) -> str:
    return "chosen" if number == 0 else chr(ord("A") + number - 1)
