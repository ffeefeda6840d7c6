"""From a solved pipeline to a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from costmodel.operators import chip_constants
from costmodel.simulation.order_time import in_order_s
from ir.plan import (
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
from planner.stages.solved import Solved, slowest
from planner.stages.stage_record import memory_of, piece_of, sends_of, shared_of, stages_of
from planner.stages.states import StateInParts

BUBBLE = "other stages at work"
"""Cause of the time in which the slowest stage waits."""
HOST = "optimizer state from and to the host"


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
        proof = "optimal" if gap <= 1e-9 else "bounded"
        return Bound(least_s, gap, proof, self.solver, self.truncated)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a plan says of a solved pipeline."""

    solved: Solved
    evidence: Evidence
    operators: tuple[PlannedOperator, ...]
    tensors: tuple[PlannedTensor, ...]
    collectives: tuple[PlannedCollective, ...]
    pipeline: Pipeline
    step_s: float
    """Seconds of a step, with all passes in their order where that is more than the closed form."""


def drafted(solved: Solved) -> Draft:
    """What every stage of a solved pipeline does, and how long a step takes."""
    shape = solved.shape
    evidence = Evidence(solved.lowered, solved.choice)
    collectives = evidence.collectives()
    operators, tensors = _operators(evidence), _tensors(evidence, solved)
    pipeline = Pipeline(
        schedule="1f1b" if shape.chunks == 1 else "interleaved",
        micro_batches=shape.micro_batches,
        micro_batch=shape.micro_batch,
        stages=stages_of(solved, evidence, collectives, operators, tensors),
        sends=tuple(sends_of(solved, evidence)),
        chunks=shape.chunks,
        shared=shared_of(solved, evidence),
    )
    step_s = in_order_s(pipeline, solved.step_s)
    return Draft(solved, evidence, operators, tensors, collectives, pipeline, step_s)


def plan_of(
    draft: Draft, request: SearchRequest, notes: Sequence[str], space: Space, least: Least
) -> Plan:
    """The plan as it is written."""
    solved, evidence, collectives = draft.solved, draft.evidence, draft.collectives
    graph = solved.graph
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=solved.cluster.to_dict(),
        mesh=tuple((a.name, a.size, a.tier) for a in solved.lowered.setting.mesh.axes),
        rank_order=_rank_order(solved),
        request=request.to_dict(),
        operators=tuple(replace(op, name=plain_name(op.name)) for op in draft.operators),
        tensors=tuple(_each_once(draft.tensors)),
        recomputed=tuple(_recomputed(solved, evidence)),
        collectives=tuple(_plain_collective(item) for item in collectives),
        estimate=_estimate(solved, evidence, collectives, draft.step_s),
        memory_bytes=memory_of(solved, evidence, collectives),
        space=space,
        bound=least.bound(draft.step_s),
        notes=(*notes, f"rates of matrix products: {chip_constants(solved.cluster.chip).basis}"),
        pipeline=draft.pipeline,
    )


def _rank_order(solved: Solved) -> tuple[int, ...]:
    own = solved.lowered.setting.mesh.rank_order()
    return tuple(s * len(own) + r for s in range(solved.shape.stages) for r in own)


def _operators(evidence: Evidence) -> tuple[PlannedOperator, ...]:
    """All operators in the order of the network; what is computed again is told apart."""
    liveness = evidence.lowered.liveness
    found = [replace(_apart(op, liveness), stage=piece_of_name(op.name))
             for op in evidence.operators()]  # fmt: skip
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


def _recomputed(solved: Solved, evidence: Evidence) -> Iterator[str]:
    yield from map(plain_name, evidence.recomputed())
    liveness = solved.lowered.liveness
    makers = liveness.graph.producers()
    for name in liveness.saved_by:
        maker = makers.get(name)
        if maker is not None and liveness.remade_in(name, liveness.position[maker.name]):
            yield plain_name(name)


def _tensors(evidence: Evidence, solved: Solved) -> tuple[PlannedTensor, ...]:
    """Without what is received, which the sends tell."""
    states = {node.name: (node, state) for node, state in solved.parameters()}
    found = []
    for tensor in evidence.tensors():
        if tensor.role == "input" and plain_name(tensor.name) not in solved.graph.inputs:
            continue
        own = tensor
        if tensor.name in states:
            own = _parameter(tensor, evidence, *states[tensor.name])
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


def _each_once(tensors: Sequence[PlannedTensor]) -> Iterator[PlannedTensor]:
    """An input or a parameter of several stages once, a tensor with several readers for each."""
    seen: set[tuple[str, str, int]] = set()
    for tensor in sorted(tensors, key=lambda t: t.stage):
        name = plain_name(tensor.name)
        key = (name, tensor.role, tensor.stage if tensor.role == "shared" else 0)
        if key not in seen:
            seen.add(key)
            yield replace(tensor, name=name)


def _plain_collective(item: PlannedCollective) -> PlannedCollective:
    tensor, operator = plain_name(item.tensor), plain_name(item.operator)
    return replace(item, tensor=tensor, operator=operator, stage=piece_of(item))


def _estimate(
    solved: Solved, evidence: Evidence, collectives: Sequence[PlannedCollective], step_s: float
) -> Estimate:
    """Time by what the slowest part of the machine does, and the rest of the step in which it
    waits.
    """
    whole = evidence.estimate(collectives)
    parts = solved.shape.stages
    own_part = slowest(solved.parts_s)
    own = _causes_of(evidence, collectives, own_part, parts)
    _tell_host(own, solved, own_part)
    busy = solved.parts_s[own_part] * solved.shape.micro_batches
    own[f"point_to_point in {send_tier(solved.cluster)}"] = max(busy - sum(own.values()), 0.0)
    own[BUBBLE] = step_s - busy
    return replace(
        whole,
        step_time_s=step_s,
        time_by_cause={cause: spent_s for cause, spent_s in own.items() if spent_s > busy * 1e-12},
        communicators=max(
            communicators_of([c for c in collectives if piece_of(c) % parts == part])
            for part in range(parts)
        ),
    )


def _tell_host(time: dict[str, float], solved: Solved, part: int) -> None:
    """Tell updates and what comes from the host for them apart, in one part of the machine."""
    lowered, parts = solved.lowered, solved.shape.stages
    held = math.fsum(
        host_bytes(lowered, node, state)
        for node, state in solved.parameters()
        if piece_of_name(node.name) % parts == part
    )
    time[HOST] = host_s(lowered, held)
    time["optimizer update"] = max(time["optimizer update"] - time[HOST], 0.0)


def _causes_of(
    evidence: Evidence, collectives: Sequence[PlannedCollective], part: int, parts: int
) -> dict[str, float]:
    """Seconds of one part of the machine in a step by cause, without what it receives."""
    liveness = evidence.lowered.liveness
    time = evidence.compute_by_cause(lambda node: piece_of_name(node.name) % parts == part)
    for op in evidence.operators():
        inside = liveness.block_of(liveness.position[op.name]) is not None
        if inside and piece_of_name(op.name) % parts == part:
            time["compute backward"] -= op.compute_s - op.backward_s
            time["recompute"] += op.compute_s - op.backward_s
    for item in collectives:
        if piece_of(item) % parts == part:
            key = f"{item.kind} in {item.tier}"
            time[key] = time.get(key, 0.0) + item.time_s
    return time
