"""What each stage of a solved pipeline takes and holds, and what goes between stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
from planner.stages.pieces import piece_of_name, plain_name, wire_layout
from planner.stages.solved import Group, Solved
from planner.stages.states import StateInParts

CAUSE_SEND = "between stages"


def piece_of(item: PlannedCollective) -> int:
    """The piece that a collective is part of."""
    return piece_of_name(item.operator or item.tensor)


@dataclass(frozen=True, slots=True)
class Side:
    """Pieces on parts of the machine of one size, read for a plan."""

    group: Group
    evidence: Evidence
    collectives: tuple[PlannedCollective, ...]

    @classmethod
    def of(cls, group: Group) -> Side:
        evidence = Evidence(group.lowered, group.choice)
        return cls(group, evidence, evidence.collectives())

    @property
    def axes(self) -> tuple[tuple[str, int, int], ...]:
        """Axes of the mesh: name, size, tier."""
        return tuple((axis.name, axis.size, axis.tier) for axis in self.group.mesh.axes)

    def memory_of(self) -> Iterator[tuple[int, Sequence[float]]]:
        """Pieces, each with its memory while its operators run, forward and then backward, when
        most is on the way.
        """
        profile = np.array(self.evidence.memory_bytes(self.collectives))
        for piece, own in self.group.moments.items():
            yield piece, np.max([profile[start:end] for start, end in own], axis=0).tolist()


def stages_of(
    solved: Solved,
    sides: Sequence[Side],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[PipelineStage, ...]:
    """Times and memory of every stage. What is neither backward nor once is forward."""
    collectives = [item for side in sides for item in side.collectives]
    backward, ends = _backward_and_ends(solved, collectives, operators, tensors)
    profile = {piece: own for side in sides for piece, own in side.memory_of()}
    flight: dict[int, int] = {}
    meshes: dict[int, tuple[tuple[str, int, int], ...]] = {}
    for side in sides:
        flight |= zip(side.group.ranges, side.group.lowered.setting.in_flight, strict=True)
        meshes |= dict.fromkeys(side.group.ranges, () if side is sides[0] else side.axes)
    times = solved.shape.micro_batches
    return tuple(
        PipelineStage(
            start=start,
            end=end,
            forward_s=float(max(solved.times_s[s] - backward[s] - ends[s].once_s / times, 0.0)),
            backward_s=float(backward[s]),
            once_s=float(ends[s].once_s),
            peak_memory_bytes=max(profile[s], default=0.0),
            in_flight=flight[s],
            blocks=solved.blocks[s] if solved.blocks else (),
            mesh=meshes[s],
            sync_s=float(ends[s].sync_s),
            update_s=float(ends[s].update_s),
        )
        for s, (start, end) in enumerate(solved.spans)
    )


@dataclass(slots=True)
class _End:
    """Seconds of a stage, once in a step."""

    sync_s: float = 0.0
    shared_s: float = 0.0
    update_s: float = 0.0

    @property
    def once_s(self) -> float:
        return self.sync_s + self.shared_s + self.update_s


def _backward_and_ends(
    solved: Solved,
    collectives: Sequence[PlannedCollective],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[list[float], list[_End]]:
    """Seconds of each stage backward in a micro-batch, and what it does once in a step."""
    count, times = solved.shape.pieces, solved.shape.micro_batches
    backward, ends = [0.0] * count, [_End() for _ in range(count)]
    for op in operators:
        backward[op.stage] += (op.backward_s + op.recompute_s) / times
    for tensor in tensors:
        stage = piece_of_name(tensor.name)
        ends[stage].update_s += tensor.update_s + tensor.host_s
        backward[stage] += tensor.recompute_s / times
    for item in collectives:
        ends_step = item.cause == CAUSE_SYNC and (item.count == 1 or times == 1)
        if ends_step:
            ends[piece_of(item)].sync_s += item.time_s
        elif item.cause == CAUSE_UPDATED:
            ends[piece_of(item)].update_s += item.time_s
        elif item.count:
            backward[piece_of(item)] += item.time_s * item.backward / item.count / times
    for stage in range(1, count):
        backward[stage] += solved.sends_s(stage)[1]
    for name, (_, spent_s) in _exchanged(solved).items():
        ends[piece_of_name(name)].shared_s += spent_s
    return backward, ends


def memory_of(sides: Sequence[Side]) -> tuple[float, ...]:
    """While each operator runs: forward in order, then backward in reverse order."""
    forward: list[float] = []
    back: list[float] = []
    for _, own in sorted(pair for side in sides for pair in side.memory_of()):
        forward += own[: len(own) // 2]
        back = [*own[len(own) // 2 :], *back]
    return (*forward, *back)


def sends_of(solved: Solved, sides: Sequence[Side]) -> Iterator[PlannedCollective]:
    """What goes from stage to stage."""
    times, graph = solved.shape.micro_batches, solved.graph
    tier = send_tier(solved.cluster)
    side_of = {piece: side for side in sides for piece in side.group.ranges}
    for stage, cut in enumerate(solved.cuts, start=1):
        start, end = solved.spans[stage]
        for name in (*cut.sent, *cut.beside):
            readers = (op.name for op in graph.ops[start:end] if name in op.inputs)
            nbytes = solved.sent_bytes(stage, name)
            ways = 2 if name in cut.sent else 1
            before, after = (
                side_of[piece].evidence.named(
                    wire_layout(graph.tensors[name], side_of[piece].group.mesh)
                )
                for piece in (stage - 1, stage)
            )
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
                operator=next(readers, graph.ops[start].name),
                before=before,
                after=after,
                backward=(ways - 1) * times,
                stage=stage,
            )


def shared_of(
    solved: Solved, sides: Sequence[Side], tensors: Sequence[PlannedTensor]
) -> tuple[SharedParameter, ...]:
    """Parameters that several stages hold."""
    spent = _exchanged(solved)
    update_s = {tensor.name: tensor.update_s for tensor in tensors}
    at_rest = {
        node.name: side.evidence.named(state.forward)
        for side in sides
        for node, state in side.group.parameters()
    }
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
            updates_s=tuple(update_s[name] for name in names),
        )
        for plain, names in holders.items()
    )


def _exchanged(solved: Solved) -> Mapping[str, tuple[float, float]]:
    """Bytes and seconds in which a stage adds up a gradient with the others that hold it."""
    found = {}
    for group in solved.groups:
        tensors = group.lowered.liveness.graph.tensors
        for node, state in group.parameters():
            if node.name in solved.shared:
                own = on_device(state)
                rest = own.parts if isinstance(own, StateInParts) else own
                tensor = tensors[node.name]
                elements = local_elements(tensor.dims, rest.forward, group.mesh)
                nbytes = float(elements * dtype_bytes(tensor.dtype))
                found[node.name] = (nbytes, solved.exchange_s(nbytes))
    return found
