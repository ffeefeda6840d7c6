"""From a solved pipeline to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.operators import chip_constants
from ir.dtypes import dtype_bytes
from ir.graph import OpGraph
from ir.plan import (
    Bound,
    Estimate,
    Pipeline,
    PipelineStage,
    Plan,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    Space,
)
from planner.edges import CAUSE_SYNC
from planner.evidence import Evidence, communicators_of
from planner.liveness import Interval
from planner.lowered import Lowered
from planner.ports import local_elements
from planner.request import SearchRequest
from planner.stages.chain import pipeline_time_s
from planner.stages.cuts import Cut
from planner.stages.machine import send_s, send_tier
from planner.stages.menu import Shape
from planner.stages.pieces import name_in, piece_of_name, plain_name, wire_layout
from topology.cluster import Cluster

BUBBLE = "other stages at work"
"""Cause of the time in which the slowest stage waits."""
CAUSE_SEND = "between stages"


@dataclass(frozen=True, slots=True)
class Solved:
    """A pipeline whose layouts are chosen."""

    shape: Shape
    graph: OpGraph
    """Of one micro-batch, whole."""
    spans: tuple[Interval, ...]
    """Operators of each stage."""
    cuts: tuple[Cut, ...]
    """Between the stages."""
    cluster: Cluster
    """All of the machine."""
    lowered: Lowered
    """All stages side by side, each on its part of the machine."""
    choice: tuple[int, ...]
    times_s: tuple[float, ...]
    """Of each stage for one micro-batch, with its share of what happens once in a step."""
    fits: bool
    truncated: bool = False

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return pipeline_time_s(self.times_s, self.shape.micro_batches)


def sends_s(cluster: Cluster, lowered: Lowered, stage: int, cut: Cut) -> tuple[float, float]:
    """Seconds in which a stage receives what crosses the cut before it, and sends the gradient."""
    nbytes = [_wire_bytes(lowered, stage, name) for name in (*cut.sent, *cut.beside)]
    forward = sum(send_s(cluster, n) for n in nbytes)
    return forward, sum(send_s(cluster, n) for n in nbytes[: len(cut.sent)])


def _wire_bytes(lowered: Lowered, stage: int, name: str) -> float:
    tensor = lowered.liveness.graph.tensors[name_in(stage, name)]
    layout = wire_layout(tensor, lowered.setting.mesh)
    elements = local_elements(tensor.dims, layout, lowered.setting.mesh)
    return float(elements * dtype_bytes(tensor.dtype))


def plan_of(
    solved: Solved, request: SearchRequest, notes: Sequence[str], space: Space, bound: Bound
) -> Plan:
    """The plan as it is written."""
    lowered, graph = solved.lowered, solved.graph
    setting = lowered.setting
    evidence = Evidence(lowered, solved.choice)
    collectives = evidence.collectives()
    operators, tensors = _operators(evidence), _tensors(evidence, solved)
    stages = _stages(solved, evidence, collectives, operators, tensors)
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=solved.cluster.to_dict(),
        mesh=tuple((a.name, a.size, a.tier) for a in setting.mesh.axes),
        rank_order=_rank_order(solved),
        request=request.to_dict(),
        operators=tuple(_plain_operator(op) for op in operators),
        tensors=tuple(_plain_tensor(tensor) for tensor in tensors),
        recomputed=tuple(plain_name(name) for name in evidence.recomputed()),
        collectives=tuple(_plain_collective(item) for item in collectives),
        estimate=_estimate(solved, evidence, collectives, stages),
        memory_bytes=_memory(solved, evidence, collectives),
        space=space,
        bound=bound,
        notes=(*notes, f"rates of matrix products: {chip_constants(solved.cluster.chip).basis}"),
        pipeline=Pipeline(
            "1f1b",
            solved.shape.micro_batches,
            solved.shape.micro_batch,
            stages,
            tuple(_sends(solved, evidence)),
        ),
    )


def _rank_order(solved: Solved) -> tuple[int, ...]:
    own = solved.lowered.setting.mesh.rank_order()
    return tuple(s * len(own) + r for s in range(solved.shape.stages) for r in own)


def _operators(evidence: Evidence) -> tuple[PlannedOperator, ...]:
    return tuple(replace(op, stage=piece_of_name(op.name)) for op in evidence.operators())


def _plain_operator(op: PlannedOperator) -> PlannedOperator:
    return replace(op, name=plain_name(op.name))


def _tensors(evidence: Evidence, solved: Solved) -> tuple[PlannedTensor, ...]:
    """Without what is received, which the sends tell; an input of several stages once."""
    found: dict[str, PlannedTensor] = {}
    graph = solved.graph
    for tensor in evidence.tensors():
        name = plain_name(tensor.name)
        if tensor.role == "input" and name not in graph.inputs:
            continue
        found.setdefault(f"{name} {tensor.role}", tensor)
    return tuple(found.values())


def _plain_tensor(tensor: PlannedTensor) -> PlannedTensor:
    return replace(tensor, name=plain_name(tensor.name))


def _plain_collective(item: PlannedCollective) -> PlannedCollective:
    return replace(item, tensor=plain_name(item.tensor), operator=plain_name(item.operator))


def _stage_of(item: PlannedCollective) -> int:
    return piece_of_name(item.operator or item.tensor)


def _stages(
    solved: Solved,
    evidence: Evidence,
    collectives: Sequence[PlannedCollective],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[PipelineStage, ...]:
    """Times of every stage. What is neither backward nor once is forward."""
    count, times = solved.shape.stages, solved.shape.micro_batches
    backward, once = np.zeros(count), np.zeros(count)
    for op in operators:
        backward[op.stage] += (op.backward_s + op.recompute_s) / times
    for tensor in tensors:
        stage = piece_of_name(tensor.name)
        once[stage] += tensor.update_s
        backward[stage] += tensor.recompute_s / times
    for item in collectives:
        if item.cause == CAUSE_SYNC and (item.count == 1 or times == 1):
            once[_stage_of(item)] += item.time_s
        elif item.count:
            backward[_stage_of(item)] += item.time_s * item.backward / item.count / times
    for stage, cut in enumerate(solved.cuts, start=1):
        backward[stage] += sends_s(solved.cluster, solved.lowered, stage, cut)[1]
    peaks = _peaks(solved, evidence, collectives)
    in_flight = evidence.lowered.setting.in_flight
    return tuple(
        PipelineStage(
            start, end,
            float(max(solved.times_s[s] - backward[s] - once[s] / times, 0.0)),
            float(backward[s]), float(once[s]), peaks[s], in_flight[s],
        )
        for s, (start, end) in enumerate(solved.spans)
    )  # fmt: skip


def _peaks(
    solved: Solved, evidence: Evidence, collectives: Sequence[PlannedCollective]
) -> list[float]:
    profile = evidence.memory_bytes(collectives)
    return [max(profile[2 * start : 2 * end], default=0.0) for start, end in solved.spans]


def _memory(
    solved: Solved, evidence: Evidence, collectives: Sequence[PlannedCollective]
) -> tuple[float, ...]:
    """While each operator runs: forward in order, then backward in reverse order."""
    profile = evidence.memory_bytes(collectives)
    forward: list[float] = []
    back: list[float] = []
    for start, end in solved.spans:
        forward += profile[2 * start : start + end]
        back = [*profile[start + end : 2 * end], *back]
    return (*forward, *back)


def _estimate(
    solved: Solved,
    evidence: Evidence,
    collectives: Sequence[PlannedCollective],
    stages: Sequence[PipelineStage],
) -> Estimate:
    """Time by what the slowest stage does, and the rest of the step in which it waits."""
    whole = evidence.estimate(collectives)
    slowest = max(range(len(stages)), key=lambda s: solved.times_s[s])
    own = _causes_of(evidence, collectives, slowest)
    busy = solved.times_s[slowest] * solved.shape.micro_batches
    own[f"point_to_point in {send_tier(solved.cluster)}"] = max(busy - sum(own.values()), 0.0)
    own[BUBBLE] = solved.step_s - busy
    return replace(
        whole,
        step_time_s=solved.step_s,
        time_by_cause={cause: spent_s for cause, spent_s in own.items() if spent_s > busy * 1e-12},
        communicators=max(
            communicators_of([c for c in collectives if _stage_of(c) == s])
            for s in range(len(stages))
        ),
    )


def _causes_of(
    evidence: Evidence, collectives: Sequence[PlannedCollective], stage: int
) -> dict[str, float]:
    """Seconds of one stage in a step by cause, without what it receives."""
    time = evidence.compute_by_cause(lambda node: piece_of_name(node.name) == stage)
    for item in collectives:
        if _stage_of(item) == stage:
            key = f"{item.kind} in {item.tier}"
            time[key] = time.get(key, 0.0) + item.time_s
    return time


def _sends(solved: Solved, evidence: Evidence) -> list[PlannedCollective]:
    lowered, times = solved.lowered, solved.shape.micro_batches
    graph = lowered.liveness.graph
    tier = send_tier(solved.cluster)
    found = []
    for stage, cut in enumerate(solved.cuts, start=1):
        start, end = lowered.liveness.pieces[stage]
        for name in (*cut.sent, *cut.beside):
            own = name_in(stage, name)
            readers = (op.name for op in graph.ops[start:end] if own in op.inputs)
            nbytes = _wire_bytes(lowered, stage, name)
            ways = 2 if name in cut.sent else 1
            layout = evidence.named(wire_layout(graph.tensors[own], lowered.setting.mesh))
            found.append(
                PlannedCollective(
                    kind="point_to_point",
                    axes=(),
                    group_size=2,
                    nbytes=nbytes,
                    count=ways * times,
                    time_s=ways * times * send_s(solved.cluster, nbytes),
                    tier=tier,
                    cause=CAUSE_SEND,
                    tensor=name,
                    operator=plain_name(next(readers, graph.ops[start].name)),
                    before=layout,
                    after=layout,
                    backward=(ways - 1) * times,
                )
            )
    return found
