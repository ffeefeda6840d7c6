"""What each stage of a solved pipeline takes and holds, and what goes between stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ir.dtypes import dtype_bytes
from ir.plan import (
    CAUSE_UPDATED,
    PipelineStage,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    SharedParameter,
)
from planner.edges import CAUSE_SYNC
from planner.evidence import Evidence
from planner.ports import local_elements
from planner.stages.machine import send_s, send_tier
from planner.stages.offload import on_device
from planner.stages.pieces import name_in, piece_of_name, plain_name, wire_layout
from planner.stages.solved import Solved, sends_s, wire_bytes
from planner.stages.states import StateInParts

CAUSE_SEND = "between stages"


def piece_of(item: PlannedCollective) -> int:
    """The piece that a collective is part of."""
    return piece_of_name(item.operator or item.tensor)


def stages_of(
    solved: Solved,
    evidence: Evidence,
    collectives: Sequence[PlannedCollective],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[PipelineStage, ...]:
    """Times and memory of every stage. What is neither backward nor once is forward."""
    backward, once = _backward_and_once(solved, collectives, operators, tensors)
    profile, ranges = evidence.memory_bytes(collectives), solved.ranges
    flight = dict(zip(ranges, evidence.lowered.setting.in_flight, strict=True))
    times = solved.shape.micro_batches
    return tuple(
        PipelineStage(
            start=start,
            end=end,
            forward_s=float(max(solved.times_s[s] - backward[s] - once[s] / times, 0.0)),
            backward_s=float(backward[s]),
            once_s=float(once[s]),
            peak_memory_bytes=max(profile[2 * ranges[s][0] : 2 * ranges[s][1]], default=0.0),
            in_flight=flight[s],
            blocks=solved.blocks[s] if solved.blocks else (),
        )
        for s, (start, end) in enumerate(solved.spans)
    )


def _backward_and_once(
    solved: Solved,
    collectives: Sequence[PlannedCollective],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[list[float], list[float]]:
    """Seconds of each stage backward in a micro-batch, and once in a step."""
    count, times = solved.shape.pieces, solved.shape.micro_batches
    backward, once = [0.0] * count, [0.0] * count
    for op in operators:
        backward[op.stage] += (op.backward_s + op.recompute_s) / times
    for tensor in tensors:
        stage = piece_of_name(tensor.name)
        once[stage] += tensor.update_s + tensor.host_s
        backward[stage] += tensor.recompute_s / times
    for item in collectives:
        ends_step = item.cause == CAUSE_SYNC and (item.count == 1 or times == 1)
        if ends_step or item.cause == CAUSE_UPDATED:
            once[piece_of(item)] += item.time_s
        elif item.count:
            backward[piece_of(item)] += item.time_s * item.backward / item.count / times
    for stage, cut in enumerate(solved.cuts, start=1):
        backward[stage] += sends_s(solved.cluster, solved.lowered, stage, cut)[1]
    for name, (_, spent_s) in _exchanged(solved).items():
        once[piece_of_name(name)] += spent_s
    return backward, once


def memory_of(
    solved: Solved, evidence: Evidence, collectives: Sequence[PlannedCollective]
) -> tuple[float, ...]:
    """While each operator runs: forward in order, then backward in reverse order."""
    profile = evidence.memory_bytes(collectives)
    forward: list[float] = []
    back: list[float] = []
    for _, (start, end) in sorted(solved.ranges.items()):
        forward += profile[2 * start : start + end]
        back = [*profile[start + end : 2 * end], *back]
    return (*forward, *back)


def sends_of(solved: Solved, evidence: Evidence) -> Iterator[PlannedCollective]:
    """What goes from stage to stage."""
    lowered, times = solved.lowered, solved.shape.micro_batches
    graph, ranges = lowered.liveness.graph, solved.ranges
    tier = send_tier(solved.cluster)
    for stage, cut in enumerate(solved.cuts, start=1):
        start, end = ranges[stage]
        for name in (*cut.sent, *cut.beside):
            own = name_in(stage, name)
            readers = (op.name for op in graph.ops[start:end] if own in op.inputs)
            nbytes = wire_bytes(lowered, stage, name)
            ways = 2 if name in cut.sent else 1
            layout = evidence.named(wire_layout(graph.tensors[own], lowered.setting.mesh))
            yield PlannedCollective(
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
                stage=stage,
            )


def shared_of(solved: Solved, evidence: Evidence) -> tuple[SharedParameter, ...]:
    """Parameters that several stages hold."""
    spent = _exchanged(solved)
    at_rest = {node.name: evidence.named(state.forward) for node, state in solved.parameters()}
    holders: dict[str, list[str]] = {}
    for name in sorted(spent, key=piece_of_name):
        holders.setdefault(plain_name(name), []).append(name)
    return tuple(
        SharedParameter(
            tensor=plain,
            stages=tuple(piece_of_name(name) for name in names),
            layouts=tuple(at_rest[name] for name in names),
            nbytes=max(spent[name][0] for name in names),
            time_s=max(spent[name][1] for name in names),
            tier=send_tier(solved.cluster),
        )
        for plain, names in holders.items()
    )


def _exchanged(solved: Solved) -> Mapping[str, tuple[float, float]]:
    """Bytes and seconds in which a stage adds up a gradient with the others that hold it."""
    found = {}
    tensors, mesh = solved.lowered.liveness.graph.tensors, solved.lowered.setting.mesh
    for node, state in solved.parameters():
        if node.name in solved.shared:
            own = on_device(state)
            rest = own.parts if isinstance(own, StateInParts) else own
            tensor = tensors[node.name]
            local = local_elements(tensor.dims, rest.forward, mesh) * dtype_bytes(tensor.dtype)
            found[node.name] = (float(local), solved.exchange_s(float(local)))
    return found
