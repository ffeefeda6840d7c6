"""What each stage of a pipelined plan does, read from the plan alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ir.graph import Op, OpGraph, Role, Tensor
from ir.plan import (
    SINGLE,
    NamedLayout,
    PipelineStage,
    Plan,
    PlannedCollective,
    PlannedTensor,
    SharedParameter,
    is_once,
)
from ir.plan_enums import Cause
from topology.cluster import Cluster
from topology.mesh import rank_groups
from topology.part import stage_cluster
from topology.units import format_memory, format_seconds

MeshAxes: TypeAlias = tuple[tuple[str, int, int], ...]


def stage_mesh(plan: Plan, stage: int) -> MeshAxes:
    """Axes of the mesh of a stage: name, size, tier."""
    return plan.pipeline.stages[stage].mesh or plan.mesh


def axis_sizes(plan: Plan, stage: int) -> dict[str, int]:
    """Sizes of the axes of the mesh that something of a stage is laid out on."""
    return {name: size for name, size, _ in stage_mesh(plan, stage)}


def overlap_text(plan: Plan) -> str:
    """What the step counts of communication, and how much of it computation hides."""
    of = "of the slowest stage, " if len(plan.pipeline.stages) > 1 else ""
    hidden_s = plan.estimate.hidden_s
    if hidden_s:
        more = f"{format_seconds(hidden_s)} more is hidden by computation"
        return f"{of}exposed communication; {more}"
    if plan.request.get("overlap") == "auto":
        return f"{of}exposed communication; none of it can hide"
    return f"{of}without overlap"


def split_text(plan: Plan) -> str:
    """That a batch was split into micro-batches because it does not fit as one; else empty."""
    if plan.whole_batch_bytes is None:
        return ""
    count, size = plan.pipeline.micro_batches, plan.pipeline.micro_batch
    return (
        f"batch {plan.batch} as {count} micro-batches of {size}: "
        f"the whole batch needs {format_memory(plan.whole_batch_bytes)} per device"
    )


def meshes_of(plan: Plan) -> tuple[MeshAxes, ...]:
    """The distinct meshes of a plan, that of the plan first."""
    own = (stage.mesh or plan.mesh for stage in plan.pipeline.stages)
    return tuple(dict.fromkeys((plan.mesh, *own)))


def mesh_text(plan: Plan) -> str:
    """All meshes of a plan in words.

    Each axis with its size, an `x` between them: `server 2 x card 8; card 4`.
    """
    return "; ".join(
        " x ".join(f"{name} {size}" for name, size, _ in mesh) for mesh in meshes_of(plan)
    )


def tier_names(plan: Plan) -> tuple[str, ...]:
    """Names of the levels of the machine, or of the part that a stage has, outermost first."""
    whole = (number for number, stage in enumerate(plan.pipeline.stages) if not stage.mesh)
    return tuple(tier.name for tier in part_cluster(plan, next(whole)).tiers)


def has_equal_stages(plan: Plan) -> bool:
    """Whether all stages have the mesh of the plan."""
    return not any(stage.mesh for stage in plan.pipeline.stages)


def stage_size(plan: Plan, stage: int) -> int:
    """Devices of the part of the machine that runs a stage."""
    return math.prod(size for _, size, _ in stage_mesh(plan, stage))


def part_cluster(plan: Plan, stage: int) -> Cluster:
    """The part of the machine that runs a stage; all of it where there is one part."""
    whole = Cluster.from_dict(plan.cluster)
    if plan.pipeline.parts == 1:
        return whole
    return stage_cluster(whole, stage_size(plan, stage)) or whole


def first_rank(plan: Plan, stage: int) -> int:
    """First of the ranks of the part of the machine that runs a stage."""
    return sum(stage_size(plan, part) for part in range(stage % plan.pipeline.parts))


def stage_ranks(plan: Plan, stage: int) -> tuple[int, ...]:
    """Devices of a stage, in the order of its mesh."""
    first = first_rank(plan, stage)
    return plan.rank_order[first : first + stage_size(plan, stage)]


def axis_groups(plan: Plan, axes: Collection[str]) -> tuple[tuple[int, ...], ...]:
    """Groups of ranks that differ in some mesh axes alone."""
    varied = [place for place, (name, _, _) in enumerate(plan.mesh) if name in axes]
    return rank_groups([size for _, size, _ in plan.mesh], varied)


def received(plan: Plan, stage: int) -> tuple[PlannedCollective, ...]:
    """What a stage gets from the one before it."""
    of_operator = {op.name: op.stage for op in plan.operators}
    return tuple(s for s in plan.pipeline.sends if of_operator[s.operator] == stage)


def leaving(plan: Plan, stage: int) -> tuple[PlannedCollective, ...]:
    """What a stage hands on to the next one."""
    return received(plan, stage + 1)


def stage_plan(plan: Plan, stage: int) -> Plan:
    """What one stage does with one micro-batch, as a plan of a single stage on its mesh.

    What it receives is an input in the layout in which it is sent. Its communication is that of one
    micro-batch: `once_in_step` has the rest.

    Args:
        plan: of any number of stages.
        stage: number of the stage.
    """
    pipeline = plan.pipeline
    if pipeline.is_single:
        return replace(plan, collectives=tuple(_of_one(plan, stage)))
    own, count, size = pipeline.stages[stage], len(plan.operators), stage_size(plan, stage)
    ops = plan.graph.ops[own.start : own.end]
    comes, goes = received(plan, stage), leaving(plan, stage)
    graph = _graph(plan.graph, ops, [s.tensor for s in comes], [s.tensor for s in goes])
    share = 1.0 / pipeline.micro_batches
    memory = plan.memory_bytes
    ranks = stage_ranks(plan, stage)
    back = (2 * count - own.end, 2 * count - own.start)
    machine = stage_cluster(Cluster.from_dict(plan.cluster), size)
    return replace(
        plan,
        graph=graph,
        cluster=plan.cluster if machine is None else machine.to_dict(),
        mesh=stage_mesh(plan, stage),
        rank_order=tuple(device - min(ranks) for device in ranks),
        operators=tuple(
            replace(
                op,
                compute_s=op.compute_s * share,
                backward_s=op.backward_s * share,
                recompute_s=op.recompute_s * share,
                waits_s=(op.waits_s[0] * share, op.waits_s[1] * share),
                stage=0,
            )
            for op in plan.operators[own.start : own.end]
        ),
        tensors=(*_received_tensors(graph, comes), *_own_tensors(plan, graph, stage)),
        recomputed=tuple(n for n in plan.recomputed if n in graph.tensors),
        collectives=tuple(_of_one(plan, stage)),
        memory_bytes=(*memory[own.start : own.end], *memory[back[0] : back[1]]),
        pipeline=SINGLE,
    )


def _of_one(plan: Plan, stage: int) -> Iterator[PlannedCollective]:
    """Communication of one micro-batch."""
    times = plan.pipeline.micro_batches
    for item in plan.collectives:
        if item.stage == stage and not is_once(item, times):
            yield replace(
                item,
                count=item.count // times,
                backward=item.backward // times,
                time_s=item.time_s / times,
                hidden_s=item.hidden_s / times,
                stage=0,
            )


def once_in_step(plan: Plan, stage: int) -> tuple[PlannedCollective, ...]:
    """Communication of a stage that runs once in a step, behind all micro-batches."""
    times = plan.pipeline.micro_batches
    return tuple(i for i in plan.collectives if i.stage == stage and is_once(i, times))


def _received_tensors(
    graph: OpGraph, comes: Sequence[PlannedCollective]
) -> Iterator[PlannedTensor]:
    for send in comes:
        tensor, layout = graph.tensors[send.tensor], send.after
        if layout is not None:
            gradient = layout if send.backward else None
            yield PlannedTensor(
                tensor.name, "input", tensor.dims, tensor.dtype, layout, None, gradient
            )


def _own_tensors(plan: Plan, graph: OpGraph, stage: int) -> Iterator[PlannedTensor]:
    """Parameters, inputs and shared tensors of a stage."""
    pipeline = plan.pipeline
    share = 1.0 / pipeline.micro_batches
    elsewhere = {s.tensor: s for s in pipeline.shared if stage in s.stages}
    for planned in plan.tensors:
        mine = planned.stage == stage or (planned.role == "input" and has_equal_stages(plan))
        if mine and planned.name in graph.tensors:
            yield replace(planned, recompute_s=planned.recompute_s * share, stage=0)
        elif planned.role == "parameter" and planned.name in elsewhere:
            held = _held_too(plan, planned, elsewhere[planned.name], stage)
            yield replace(held, stage=0)


def planned_in(plan: Plan, planned: PlannedTensor, stage: int) -> PlannedTensor:
    """A parameter as one of the stages holds it."""
    for each in plan.pipeline.shared:
        if each.tensor == planned.name and stage in each.stages and stage != planned.stage:
            return _held_too(plan, planned, each, stage)
    return planned


def _held_too(
    plan: Plan, planned: PlannedTensor, shared: SharedParameter, stage: int
) -> PlannedTensor:
    """A parameter as another stage than its first one holds it."""
    place = shared.stages.index(stage)
    layout = shared.layouts[place]
    update_s = shared.updates_s[place] if shared.updates_s else planned.update_s
    gradient = None if planned.gradient is None else NamedLayout(layout.dims)
    updated = [
        i.before
        for i in plan.collectives
        if i.cause == Cause.UPDATED_PARAMETERS and i.tensor == planned.name and i.stage == stage
    ]
    states = next(iter(updated), None)
    return replace(
        planned, layout=layout, gradient=gradient, states=states, stage=stage, update_s=update_s
    )


def _graph(graph: OpGraph, ops: Sequence[Op], comes: Sequence[str], goes: Sequence[str]) -> OpGraph:
    """Some operators of a graph; what comes from before them is an input."""
    table: dict[str, Tensor] = {}
    for name in (*(n for op in ops for n in op.tensor_names()), *comes, *goes):
        table.setdefault(name, graph.tensors[name])
    table.update((name, replace(table[name], role=Role.INPUT)) for name in comes)
    made = {n for op in ops for n in op.outputs if n}
    ends = [n for n in graph.outputs if n in made and n not in goes]
    return replace(
        graph,
        tensors=table,
        ops=tuple(ops),
        inputs=(*comes, *(n for n in graph.inputs if n in table and n not in comes)),
        outputs=(*ends, *goes),
    )


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one stage."""

    forward_s: float
    """Of one micro-batch, with what it receives."""
    backward_s: float
    """The same, with what is computed again and the gradients that it sends back."""
    sync_s: float
    """Reductions of gradients, once in a step."""
    shared_s: float
    """To add up gradients of parameters that other stages hold too."""
    update_s: float
    """Updates of parameters, once in a step."""
    gather_s: float
    """To bring parts of parameters together behind the updates."""
    host_s: float
    """For optimizer state to come from the host and go back."""

    @property
    def last_s(self) -> float:
        """What begins when the gradients of all stages are complete."""
        return self.update_s + self.gather_s + self.host_s

    @property
    def once_s(self) -> float:
        return self.sync_s + self.shared_s + self.last_s


def stage_times(plan: Plan, stage: int) -> StageTimes:
    """The times of a stage, summed from those of its parts."""
    own = stage_plan(plan, stage)
    backward = [*(o.backward_s + o.recompute_s for o in own.operators)]
    backward += [t.recompute_s for t in own.tensors]
    forward = [o.compute_s - o.backward_s for o in own.operators]
    for item in own.collectives:
        back = item.backward / item.count if item.count else 0.0
        backward.append(item.exposed_s * back)
        forward.append(item.exposed_s * (1 - back))
    there, back_s = send_times(plan, stage)
    once = once_in_step(plan, stage)
    return StageTimes(
        math.fsum((*forward, there)),
        math.fsum((*backward, back_s)),
        math.fsum(i.exposed_s for i in once if i.cause == Cause.GRADIENT_SYNC),
        math.fsum(s.time_s for s in plan.pipeline.shared if stage in s.stages),
        math.fsum(t.update_s for t in own.tensors if t.role == "parameter"),
        math.fsum(i.exposed_s for i in once if i.cause == Cause.UPDATED_PARAMETERS),
        math.fsum(t.host_s for t in own.tensors if t.role == "parameter"),
    )


def part_times(plan: Plan) -> list[float]:
    """Seconds of each part of the machine for one micro-batch, with its share of what happens once
    in a step.
    """
    pipeline = plan.pipeline
    own = [s.forward_s + s.backward_s + s.once_s / pipeline.micro_batches for s in pipeline.stages]
    return [math.fsum(own[part :: pipeline.parts]) for part in range(pipeline.parts)]


def slowest_part(plan: Plan) -> int:
    """The part of the machine whose work makes the step: causes of its time are those of it."""
    times = part_times(plan)
    return max(range(len(times)), key=lambda part: times[part])


def messages_of(plan: Plan, part: int) -> tuple[PlannedCollective, ...]:
    """What one part of the machine communicates in a step: within its stages, what they get from
    the stages before them, and gradients of parameters that they share with others.
    """
    own = range(part, len(plan.pipeline.stages), plan.pipeline.parts)
    inside = (item for item in plan.collectives if item.stage in own)
    sent = (send for stage in own for send in received(plan, stage))
    shared = (
        PlannedCollective(
            "point_to_point", (), len(each.stages), each.nbytes, 1, each.time_s, each.tier,
            Cause.GRADIENT_SYNC, each.tensor, "", stage=stage,
        )
        for each in plan.pipeline.shared for stage in own if stage in each.stages
    )  # fmt: skip
    return (*inside, *sent, *shared)


def send_times(plan: Plan, stage: int) -> tuple[float, float]:
    """Seconds in which a stage receives a micro-batch, and in which it sends its gradient back."""
    sends = [s for s in received(plan, stage) if s.count]
    forward = math.fsum(s.time_s / s.count for s in sends)
    return forward, math.fsum(s.time_s / s.count for s in sends if s.backward)


def retimed(plan: Plan) -> Plan:
    """The plan with the times of its stages summed anew from those of its parts."""
    pipeline = plan.pipeline
    found = [stage_times(plan, number) for number in range(len(pipeline.stages))]
    stages: tuple[PipelineStage, ...] = tuple(
        replace(
            stage,
            forward_s=t.forward_s,
            backward_s=t.backward_s,
            once_s=t.once_s,
            sync_s=t.sync_s,
            update_s=t.last_s,
        )
        for stage, t in zip(pipeline.stages, found, strict=True)
    )
    return replace(plan, pipeline=replace(pipeline, stages=stages))
