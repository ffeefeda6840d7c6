"""From a solved pipeline to a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from costmodel.operators import chip_constants
from costmodel.simulation.step_in_order import in_order_s
from ir.plan import (
    CAUSE_HOST,
    Bound,
    Estimate,
    Pipeline,
    Plan,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    Space,
)
from planner.evidence import Evidence, communicators_of
from planner.liveness import Liveness
from planner.lowered import Node
from planner.ports import PortState
from planner.request import SearchRequest
from planner.stages.machine import send_tier
from planner.stages.offload import host_bytes, host_s, on_device
from planner.stages.pieces import piece_of_name, plain_name
from planner.stages.solved import Group, Solved, slowest
from planner.stages.stage_record import Side, memory_of, piece_of, sends_of, shared_of, stages_of
from planner.stages.states import StateInParts

BUBBLE = "other stages at work"
"""Cause of the time in which the slowest stage waits."""


@dataclass(frozen=True, slots=True)
class Least:
    """What was shown of the steps of all plans."""

    step_s: float
    """None takes less."""
    solver: str
    truncated: bool

    def bound(self, step_s: float) -> Bound:
        """The proof for a plan with this step."""
        least_s = min(self.step_s, step_s)
        gap = (step_s - least_s) / least_s if least_s > 0 else 0.0
        proof = "optimal" if gap <= 1e-9 and least_s > 0 else "bounded"
        return Bound(least_s, gap, proof, self.solver, self.truncated)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a plan says of a solved pipeline."""

    solved: Solved
    sides: tuple[Side, ...]
    operators: tuple[PlannedOperator, ...]
    tensors: tuple[PlannedTensor, ...]
    pipeline: Pipeline
    step_s: float
    """Seconds of a step in which nothing overlaps, all passes in their order."""


def drafted(solved: Solved) -> Draft:
    """What every stage of a solved pipeline does, and how long a step takes."""
    shape = solved.shape
    sides = tuple(map(Side.of, solved.groups))
    operators, tensors = _operators(sides), _tensors(sides, solved)
    pipeline = Pipeline(
        schedule="1f1b" if shape.chunks == 1 else "interleaved",
        micro_batches=shape.micro_batches,
        micro_batch=shape.micro_batch,
        stages=stages_of(solved, sides, operators, tensors),
        sends=tuple(sends_of(solved, sides)),
        chunks=shape.chunks,
        shared=shared_of(solved, sides, tensors),
    )
    step_s = in_order_s(pipeline)
    return Draft(solved, sides, operators, tensors, pipeline, step_s)


def plan_of(
    draft: Draft, request: SearchRequest, notes: Sequence[str], space: Space, least: Least
) -> Plan:
    """The plan as it is written."""
    solved, sides = draft.solved, draft.sides
    graph = solved.graph
    collectives = [item for side in sides for item in side.collectives]
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=solved.cluster.to_dict(),
        mesh=sides[0].axes,
        rank_order=_rank_order(solved),
        request=request.to_dict(),
        operators=tuple(replace(op, name=plain_name(op.name)) for op in draft.operators),
        tensors=tuple(_each_once(draft.tensors, several=len(sides) > 1)),
        recomputed=tuple(name for side in sides for name in _recomputed(side)),
        collectives=tuple(_plain_collective(item) for item in collectives),
        estimate=_estimate(draft),
        memory_bytes=memory_of(sides),
        space=space,
        bound=least.bound(draft.step_s),
        notes=(*notes, f"rates of matrix products: {chip_constants(solved.cluster.chip).basis}"),
        pipeline=draft.pipeline,
    )


def _rank_order(solved: Solved) -> tuple[int, ...]:
    """Devices by rank; the largest parts come first, so that all lie in whole tiers."""
    orders = [solved.group_of(part).mesh.rank_order() for part in range(solved.shape.stages)]
    places = sorted(range(len(orders)), key=lambda part: -len(orders[part]))
    first = dict(zip(places, accumulate((len(orders[p]) for p in places), initial=0), strict=False))
    return tuple(first[part] + rank for part, own in enumerate(orders) for rank in own)


def _operators(sides: Sequence[Side]) -> tuple[PlannedOperator, ...]:
    """All operators in the order of the network; what is computed again is told apart."""
    found = [
        replace(_apart(op, side.group.lowered.liveness), stage=piece_of_name(op.name))
        for side in sides
        for op in side.evidence.operators()
    ]
    return tuple(sorted(found, key=lambda op: op.stage))


def _apart(op: PlannedOperator, liveness: Liveness) -> PlannedOperator:
    """An operator of a block that is computed again is priced so."""
    if liveness.block_of(liveness.position[op.name]) is None:
        return op
    forward_s = op.compute_s - op.backward_s
    return replace(
        op,
        compute_s=op.compute_s - forward_s,
        backward_s=op.backward_s - forward_s,
        recompute_s=op.recompute_s + forward_s,
    )


def _recomputed(side: Side) -> Iterator[str]:
    yield from map(plain_name, side.evidence.recomputed())
    liveness = side.group.lowered.liveness
    makers = liveness.graph.producers()
    for name in liveness.saved_by:
        maker = makers.get(name)
        if maker is not None and liveness.remade_in(name, liveness.position[maker.name]):
            yield plain_name(name)


def _tensors(sides: Sequence[Side], solved: Solved) -> tuple[PlannedTensor, ...]:
    """Without what is received, which the sends tell."""
    found = []
    for side in sides:
        states = {node.name: (node, state) for node, state in side.group.parameters()}
        for tensor in side.evidence.tensors():
            if tensor.role == "input" and plain_name(tensor.name) not in solved.graph.inputs:
                continue
            own = tensor
            if tensor.name in states:
                own = _parameter(tensor, side.evidence, *states[tensor.name])
            found.append(replace(own, stage=piece_of_name(own.name)))
    return tuple(found)


def _parameter(
    tensor: PlannedTensor, evidence: Evidence, node: Node, state: PortState
) -> PlannedTensor:
    """With where its optimizer state rests, and the time that the host takes of its update."""
    held = host_bytes(evidence.lowered, node, state)
    if held:
        spent_s = host_s(evidence.lowered, held)
        update_s = max(tensor.update_s - spent_s, 0.0)
        tensor = replace(tensor, update_s=update_s, host_bytes=held, host_s=spent_s)
    own = on_device(state)
    if isinstance(own, StateInParts):
        return replace(tensor, zero=own.level, states=evidence.named(own.parts.forward))
    sharded = tensor.used is not None and tensor.used != tensor.layout
    return replace(tensor, zero=3 if sharded else 0)


def _each_once(tensors: Sequence[PlannedTensor], *, several: bool) -> Iterator[PlannedTensor]:
    """An input or a parameter of several stages once, a tensor with several readers for each; an
    input for each where their meshes differ.
    """
    seen: set[tuple[str, str, int]] = set()
    each = {"shared", "input"} if several else {"shared"}
    for tensor in sorted(tensors, key=lambda t: t.stage):
        name = plain_name(tensor.name)
        key = (name, tensor.role, tensor.stage if tensor.role in each else 0)
        if key not in seen:
            seen.add(key)
            yield replace(tensor, name=name)


def _plain_collective(item: PlannedCollective) -> PlannedCollective:
    tensor, operator = plain_name(item.tensor), plain_name(item.operator)
    return replace(item, tensor=tensor, operator=operator, stage=piece_of(item))


def _estimate(draft: Draft) -> Estimate:
    """Time by what the slowest part of the machine does, and the rest of the step in which it
    waits; memory by that of the device that holds most.
    """
    solved, sides, step_s = draft.solved, draft.sides, draft.step_s
    fullest = max(
        (side.evidence.estimate(side.collectives) for side in sides),
        key=lambda estimate: estimate.peak_memory_bytes,
    )
    parts = solved.shape.stages
    own_part = slowest(solved.parts_s)
    side = next(side for side in sides if own_part in side.group.ranges)
    own = _causes_of(side, own_part, parts)
    _tell_host(own, side.group, own_part, parts)
    busy = solved.parts_s[own_part] * solved.shape.micro_batches
    own[f"point_to_point in {send_tier(solved.cluster)}"] = max(busy - sum(own.values()), 0.0)
    own[BUBBLE] = step_s - busy
    return replace(
        fullest,
        step_time_s=step_s,
        time_by_cause={cause: spent_s for cause, spent_s in own.items() if spent_s > busy * 1e-12},
        communicators=max(
            communicators_of([c for c in side.collectives if piece_of(c) % parts == part])
            for side in sides
            for part in range(parts)
        ),
    )


def _tell_host(time: dict[str, float], group: Group, part: int, parts: int) -> None:
    """Tell updates and what comes from the host for them apart, in one part of the machine."""
    held = math.fsum(
        host_bytes(group.lowered, node, state)
        for node, state in group.parameters()
        if piece_of_name(node.name) % parts == part
    )
    time[CAUSE_HOST] = host_s(group.lowered, held)
    time["optimizer update"] = max(time["optimizer update"] - time[CAUSE_HOST], 0.0)


def _causes_of(side: Side, part: int, parts: int) -> dict[str, float]:
    """Seconds of one part of the machine in a step by cause, without what it receives."""
    liveness, evidence = side.group.lowered.liveness, side.evidence
    time = evidence.compute_by_cause(lambda node: piece_of_name(node.name) % parts == part)
    for op in evidence.operators():
        inside = liveness.block_of(liveness.position[op.name]) is not None
        if inside and piece_of_name(op.name) % parts == part:
            time["compute backward"] -= op.compute_s - op.backward_s
            time["recompute"] += op.compute_s - op.backward_s
    for item in side.collectives:
        if piece_of(item) % parts == part:
            key = f"{item.kind} in {item.tier}"
            time[key] = time.get(key, 0.0) + item.time_s
    return time
