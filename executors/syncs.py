"""Gradients that a plan reduces apart from the backward pass, and states sharded beyond parameters.

Where a step has several micro-batches, gradients may be reduced once, behind all of them; with ZeRO
1 and 2 they are reduced to where the optimizer's state lies, and what it updates is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedTensor
from ir.plan_enums import Cause
from ir.plan_stages import stage_plan

__all__ = ["Sync", "late_syncs", "without_syncs"]

_APART = frozenset({Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS})


@dataclass(frozen=True, slots=True)
class Sync:
    """What happens to one parameter apart from the passes of a micro-batch."""

    reduce: tuple[PlannedCollective, ...]
    """Messages of its gradient, one after the other; none where the passes leave it complete."""
    gather: tuple[PlannedCollective, ...]
    """Messages of the updated parameter."""
    before: NamedLayout
    """Of what the backward pass of a micro-batch leaves."""
    used: NamedLayout
    """Of the parameter, as a step uses it."""
    rest: NamedLayout
    """Of the parameter between steps, and of its states."""
    once: bool
    """Behind all micro-batches of a step, else behind each."""


def late_syncs(plan: Plan, stage: int = 0) -> dict[str, Sync]:
    """Parameters of a stage whose gradients are reduced apart from the graph of a micro-batch, or
    whose states are sharded further than they are.
    """
    sent: dict[tuple[str, str], list[PlannedCollective]] = {}
    for item in plan.collectives:
        if item.cause in _APART and item.group_size > 1 and item.stage == stage:
            sent.setdefault((item.tensor, item.cause), []).append(item)
    found = {
        t.name: _sync(
            t,
            sent.get((t.name, Cause.GRADIENT_SYNC), []),
            sent.get((t.name, Cause.UPDATED_PARAMETERS), []),
            plan.pipeline.micro_batches,
        )
        for t in stage_plan(plan, stage).tensors
        if t.role == "parameter"
    }
    return {name: sync for name, sync in found.items() if sync is not None}


def _sync(
    tensor: PlannedTensor,
    reductions: list[PlannedCollective],
    gathers: list[PlannedCollective],
    micro_batches: int,
) -> Sync | None:
    """None where the graph of a micro-batch does all of it."""
    rest = tensor.states or tensor.layout
    reduce = _path(reductions, end=rest)
    once = bool(reduce) and micro_batches > 1 and reduce[0].count == 1
    if not (once or tensor.states):
        return None
    before = reduce[0].before if reduce else None
    if before is None:  # complete, or reduced for each reader by the passes
        before = rest if reductions else tensor.gradient or tensor.layout
    used = NamedLayout(before.dims)  # autograd gives a gradient the shape of its parameter
    gather = _path(gathers, start=rest) if used != rest else ()
    return Sync(reduce, gather, before, used, rest, once)


def _path(
    items: list[PlannedCollective],
    *,
    start: NamedLayout | None = None,
    end: NamedLayout | None = None,
) -> tuple[PlannedCollective, ...]:
    """The one way that the messages of all readers of a tensor go; empty if there is none."""
    ways: dict[tuple[str, int], list[PlannedCollective]] = {}
    for item in items:
        ways.setdefault((item.operator, item.operand), []).append(item)
    first, *others = list(ways.values()) or [[]]
    ends = [(c.kind, c.before, c.after) for c in first]
    if any([(c.kind, c.before, c.after) for c in other] != ends for other in others):
        return ()
    layouts = [x for c in first for x in (c.before, c.after)]
    joined = all(a == b for a, b in zip(layouts[1::2], layouts[2::2], strict=False))
    if not first or None in layouts or not joined:
        return ()
    fits = start in {None, layouts[0]} and end in {None, layouts[-1]}
    return tuple(first) if fits else ()


def without_syncs(plan: Plan, syncs: Mapping[str, Sync]) -> Plan:
    """A plan whose passes take these parameters as they are used, and leave their gradients."""

    def is_apart(item: PlannedCollective) -> bool:
        sync = syncs.get(item.tensor)
        if sync is None or item.cause not in _APART:
            return False
        return item.cause != Cause.GRADIENT_SYNC or bool(sync.reduce)

    def own(tensor: PlannedTensor) -> PlannedTensor:
        sync = syncs.get(tensor.name) if tensor.role == "parameter" else None
        if sync is None:
            return tensor
        return replace(tensor, layout=sync.used, gradient=sync.before, states=None)

    return replace(
        plan,
        collectives=tuple(c for c in plan.collectives if not is_apart(c)),
        tensors=tuple(map(own, plan.tensors)),
    )
