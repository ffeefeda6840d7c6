"""Gradients that a plan reduces apart from the backward pass, and states sharded beyond parameters.

Where a step has several micro-batches, gradients may be reduced once, behind all of them; with ZeRO
1 and 2 they are reduced to where the optimizer's state lies, and what it updates is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedTensor
from ir.plan_enums import Cause

__all__ = ["Sync", "late_syncs", "without_syncs"]

_APART = frozenset({Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS})


@dataclass(frozen=True, slots=True)
class Sync:
    """How the gradient of one parameter is reduced."""

    kind: str
    axes: tuple[str, ...]
    before: NamedLayout
    """Of what the backward pass of a micro-batch leaves."""
    after: NamedLayout
    used: NamedLayout
    """Of the parameter, as a step uses it."""
    rest: NamedLayout
    """Of the parameter between steps, and of its states."""
    once: bool
    """Behind all micro-batches of a step, else behind each."""


def late_syncs(plan: Plan) -> dict[str, Sync]:
    """Parameters whose gradients are reduced apart from the graph of a micro-batch."""
    sent: dict[str, list[PlannedCollective]] = {}
    for item in plan.collectives:
        if item.cause == Cause.GRADIENT_SYNC and item.group_size > 1:
            sent.setdefault(item.tensor, []).append(item)
    found = {
        t.name: _sync(t, sent[t.name], plan.pipeline.micro_batches)
        for t in plan.tensors
        if t.role == "parameter" and t.name in sent
    }
    return {name: sync for name, sync in found.items() if sync is not None}


def _sync(tensor: PlannedTensor, items: list[PlannedCollective], micro_batches: int) -> Sync | None:
    """None where the graph of a micro-batch reduces it, or where readers do so differently."""
    first, *others = items
    rest = tensor.states or tensor.layout
    if any((c.kind, c.before, c.after) != (first.kind, first.before, first.after) for c in others):
        return None
    once = micro_batches > 1 and first.count == 1
    ends = first.before, first.after
    if ends[0] is None or ends[1] != rest or not (once or tensor.states):
        return None
    return Sync(first.kind, first.axes, ends[0], rest, tensor.layout, rest, once)


def without_syncs(plan: Plan, syncs: Mapping[str, Sync]) -> Plan:
    """A plan whose gradients of these parameters stay as the backward pass leaves them."""
    return replace(
        plan,
        collectives=tuple(
            c for c in plan.collectives if not (c.tensor in syncs and c.cause in _APART)
        ),
        tensors=tuple(
            replace(t, gradient=syncs[t.name].before)
            if t.role == "parameter" and t.name in syncs
            else t
            for t in plan.tensors
        ),
    )
