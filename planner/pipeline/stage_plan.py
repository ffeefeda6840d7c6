"""From solved stages to a plan; a step of one batch on one mesh is one stage, one micro-batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from costmodel.simulation.step_in_order import in_order_s
from costmodel.software import basis_notes
from ir.dtypes import dtype_bytes
from ir.plan import (
    SINGLE,
    Pipeline,
    PipelineStage,
    Plan,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    SharedParameter,
    is_once,
)
from ir.plan_enums import Cause, Schedule
from ir.plan_estimate import Baseline, Bound, Estimate, Space
from planner.candidates.layout_tables import local_elements
from planner.lowering.liveness import Origin
from planner.lowering.lowered import Lowered
from planner.lowering.pieces import wire_layout
from planner.pipeline.mesh_collectives import communicators_of
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.solved import Group, Solved, send_s, send_tier, slowest
from planner.pipeline.space import Configuration
from planner.request import SearchRequest


@dataclass(frozen=True, slots=True)
class Draft:
    """What a plan says of solved stages."""

    solved: Solved
    meshes: tuple[PlanBuilder, ...]
    operators: tuple[PlannedOperator, ...]
    tensors: tuple[PlannedTensor, ...]
    pipeline: Pipeline
    step_s: float
    """Seconds of a step in which nothing overlaps, all passes in their order."""


def drafted(solved: Solved) -> Draft:
    """What every stage of a solved pipeline does, and how long a step takes."""
    shape = solved.shape
    meshes, operators, tensors = _parts(solved)
    pipeline = Pipeline(
        schedule=Schedule.ONE_FORWARD_ONE_BACKWARD if shape.chunks == 1 else Schedule.INTERLEAVED,
        micro_batches=shape.micro_batches,
        micro_batch=shape.micro_batch,
        stages=stages_of(solved, meshes, operators, tensors),
        sends=tuple(sends_of(solved, meshes)),
        chunks=shape.chunks,
        shared=shared_of(solved, meshes, tensors),
    )
    return Draft(solved, meshes, operators, tensors, pipeline, in_order_s(pipeline))


def drafted_batch(lowered: Lowered, choice: Sequence[int]) -> Draft:
    """The same of a step of one batch on one mesh.

    Args:
        lowered: its problem.
        choice: a candidate for every decision.
    """
    graph, step_s = lowered.liveness.graph, lowered.problem.cost_s(choice)
    shape, group = Configuration(1, graph.batch, 1), Group(lowered, choice)
    solved = Solved(
        shape, graph, ((0, len(graph.ops)),), (), lowered.setting.cluster, (group,), (step_s,),
        fits=True,
    )  # fmt: skip
    return Draft(solved, *_parts(solved), SINGLE, step_s)


def _parts(
    solved: Solved,
) -> tuple[tuple[PlanBuilder, ...], tuple[PlannedOperator, ...], tuple[PlannedTensor, ...]]:
    """What is read of each mesh; all operators in the order of the network, and tensors but those
    received, which the sends tell.
    """
    meshes = tuple(PlanBuilder(group.lowered, group.choice) for group in solved.groups)
    operators = sorted((op for own in meshes for op in own.operators()), key=lambda op: op.stage)
    inputs = set(solved.graph.inputs)
    tensors = (tensor for own in meshes for tensor in own.tensors())
    kept = tuple(each for each in tensors if each.role != "input" or each.name in inputs)
    return meshes, tuple(operators), kept


def bound_of(
    step_s: float, least_s: float, solver: str, *, truncated: bool, proof: str = ""
) -> Bound:
    """The proof for a plan.

    Args:
        step_s: seconds of its step.
        least_s: no plan takes less.
        solver: that was asked for.
        truncated: a deadline cut the search short.
        proof: where the solver itself gives one.
    """
    least_s = min(least_s, step_s)
    gap = (step_s - least_s) / least_s if least_s > 0 else 0.0
    met = "optimal" if gap <= 1e-9 and least_s > 0 else "bounded"
    return Bound(least_s, gap, proof or met, solver, truncated)


def with_bound(plan: Plan, bound_s: float, *, truncated: bool) -> Plan:
    """A plan of one batch on one mesh among all shapes."""
    own, step_s = plan.bound, plan.estimate.step_time_s
    truncated |= own.truncated
    if bound_s >= own.bound_s:
        return replace(plan, bound=replace(own, truncated=truncated))
    bound = bound_of(step_s, bound_s, own.solver, truncated=truncated, proof="bounded")
    return replace(plan, bound=bound)


def plan_of(
    draft: Draft,
    request: SearchRequest,
    notes: Sequence[str],
    space: Space,
    bound: Bound,
    baselines: tuple[Baseline, ...] = (),
) -> Plan:
    """The plan as it is written."""
    solved, meshes = draft.solved, draft.meshes
    graph, chip = solved.graph, solved.cluster.chip
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=solved.cluster.to_dict(),
        mesh=meshes[0].mesh.rows,
        rank_order=_rank_order(solved),
        request=request.to_dict(),
        operators=draft.operators,
        tensors=tuple(_each_once(draft.tensors, several=len(meshes) > 1)),
        recomputed=tuple(name for own in meshes for name in own.recomputed()),
        collectives=tuple(item for own in meshes for item in own.collectives()),
        estimate=_estimate(draft),
        memory_bytes=memory_of(meshes),
        space=space,
        bound=bound,
        baselines=baselines,
        notes=(*notes, *basis_notes(chip, request.software_on(chip))),
        pipeline=draft.pipeline,
    )


def _rank_order(solved: Solved) -> tuple[int, ...]:
    """Devices by rank; the largest parts come first, so that all lie in whole tiers."""
    orders = [solved.group_of(part).mesh.rank_order() for part in range(solved.shape.stages)]
    places = sorted(range(len(orders)), key=lambda part: -len(orders[part]))
    first = dict(zip(places, accumulate((len(orders[p]) for p in places), initial=0), strict=False))
    return tuple(first[part] + rank for part, own in enumerate(orders) for rank in own)


def _each_once(tensors: Sequence[PlannedTensor], *, several: bool) -> Iterator[PlannedTensor]:
    """An input or a parameter of several stages once, a tensor with several readers for each; an
    input for each where their meshes differ.
    """
    seen: set[tuple[str, str, int]] = set()
    each = {"shared", "input"} if several else {"shared"}
    for tensor in sorted(tensors, key=lambda t: t.stage):
        key = (tensor.name, tensor.role, tensor.stage if tensor.role in each else 0)
        if key not in seen:
            seen.add(key)
            yield tensor


def _estimate(draft: Draft) -> Estimate:
    """Time by what the slowest part of the machine does, and the rest of the step in which it
    waits; memory by that of the device that holds most.
    """
    solved, meshes, step_s = draft.solved, draft.meshes, draft.step_s
    estimates = (own.estimate() for own in meshes)
    fullest = max(estimates, key=lambda estimate: estimate.peak_memory_bytes)
    parts = solved.shape.stages
    part = slowest(solved.parts_s)
    slow = next(own for own in meshes if part in own.ranges)
    time = slow.time_by_cause(part, parts)
    busy = solved.parts_s[part] * solved.shape.micro_batches
    # What stages receive; operators may exchange slices over the same links.
    sends = f"point_to_point in {send_tier(solved.cluster)}"
    time[sends] = time.get(sends, 0.0) + max(busy - sum(time.values()), 0.0)
    time[Cause.OTHER_STAGES] = step_s - busy
    return replace(
        fullest,
        step_time_s=step_s,
        time_by_cause={cause: own_s for cause, own_s in time.items() if own_s > busy * 1e-12},
        hidden_by_cause=slow.hidden_by_cause(part, parts),
        communicators=max(
            communicators_of([c for c in own.collectives() if c.stage % parts == part])
            for own in meshes
            for part in range(parts)
        ),
    )


def stages_of(
    solved: Solved,
    meshes: Sequence[PlanBuilder],
    operators: Sequence[PlannedOperator],
    tensors: Sequence[PlannedTensor],
) -> tuple[PipelineStage, ...]:
    """Times and memory of every stage. What is neither backward nor once is forward."""
    collectives = [item for own in meshes for item in own.collectives()]
    backward, ends = _backward_and_ends(solved, collectives, operators, tensors)
    profile = {stage: memory for own in meshes for stage, memory in own.memory_of_stages()}
    flight: dict[int, int] = {}
    axes: dict[int, tuple[tuple[str, int, int], ...]] = {}
    for own in meshes:
        each = own.lowered.setting.in_flight or (1,) * len(own.ranges)
        flight |= zip(own.ranges, each, strict=True)
        axes |= dict.fromkeys(own.ranges, () if own is meshes[0] else own.mesh.rows)
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
            mesh=axes[s],
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
        ends[tensor.stage].update_s += tensor.update_s + tensor.host_s
        backward[tensor.stage] += tensor.recompute_s / times
    for item in collectives:
        if item.cause == Cause.UPDATED_PARAMETERS:
            ends[item.stage].update_s += item.exposed_s
        elif is_once(item, times):
            ends[item.stage].sync_s += item.exposed_s
        elif item.count:
            backward[item.stage] += item.exposed_s * item.backward / item.count / times
    for stage in range(1, count):
        backward[stage] += solved.sends_s(stage)[1]
    for origin, (_, spent_s) in _exchanged(solved).items():
        ends[origin.stage].shared_s += spent_s
    return backward, ends


def memory_of(meshes: Sequence[PlanBuilder]) -> tuple[float, ...]:
    """While each operator runs: forward in order, then backward in reverse order."""
    forward: list[float] = []
    back: list[float] = []
    for _, own in sorted(pair for mesh in meshes for pair in mesh.memory_of_stages()):
        forward += own[: len(own) // 2]
        back = [*own[len(own) // 2 :], *back]
    return (*forward, *back)


def sends_of(solved: Solved, meshes: Sequence[PlanBuilder]) -> Iterator[PlannedCollective]:
    """What goes from stage to stage."""
    times, graph = solved.shape.micro_batches, solved.graph
    tier = send_tier(solved.cluster)
    mesh_of = {piece: own for own in meshes for piece in own.ranges}
    for stage, cut in enumerate(solved.cuts, start=1):
        start, end = solved.spans[stage]
        for name in (*cut.sent, *cut.without_gradient):
            readers = (op.name for op in graph.ops[start:end] if name in op.inputs)
            nbytes = solved.sent_bytes(stage, name)
            ways = 2 if name in cut.sent else 1
            before, after = (
                mesh_of[piece].named(wire_layout(graph.tensors[name], mesh_of[piece].mesh))
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
                cause=Cause.BETWEEN_STAGES,
                tensor=name,
                operator=next(readers, graph.ops[start].name),
                before=before,
                after=after,
                backward=(ways - 1) * times,
                stage=stage,
            )


def shared_of(
    solved: Solved, meshes: Sequence[PlanBuilder], tensors: Sequence[PlannedTensor]
) -> tuple[SharedParameter, ...]:
    """Parameters that several stages hold."""
    spent = _exchanged(solved)
    update_s = {(tensor.stage, tensor.name): tensor.update_s for tensor in tensors}
    at_rest = {
        node.origin: mesh.named(node.layout(chosen).forward)
        for mesh in meshes
        for node, chosen in mesh.parameters()
    }
    holders: dict[str, list[Origin]] = {}
    for origin in sorted(spent, key=lambda each: each.stage):
        holders.setdefault(origin.name, []).append(origin)
    return tuple(
        SharedParameter(
            tensor=name,
            stages=tuple(own.stage for own in every),
            layouts=tuple(at_rest[own] for own in every),
            nbytes=max(spent[own][0] for own in every),
            time_s=max(spent[own][1] for own in every),
            tier=send_tier(solved.cluster),
            updates_s=tuple(update_s[own] for own in every),
        )
        for name, every in holders.items()
    )


def _exchanged(solved: Solved) -> Mapping[Origin, tuple[float, float]]:
    """Bytes and seconds in which a stage adds up a gradient with the others that hold it."""
    found = {}
    for group in solved.groups:
        tensors = group.lowered.liveness.graph.tensors
        for node, chosen in group.parameters():
            if node.name in solved.shared:
                tensor = tensors[node.name]
                rest = node.states(chosen).forward
                elements = local_elements(tensor.dims, rest, group.mesh)
                nbytes = float(elements * dtype_bytes(tensor.dtype))
                found[node.origin] = (nbytes, send_s(solved.cluster, nbytes))
    return found


def space_of(searched: Sequence[Lowered]) -> Space:
    """The space that some problems span together, one for each mesh."""
    sizes = [lowered.problem.sizes for lowered in searched]
    plans = [sum(math.log10(s) for s in own) for own in sizes]
    most = max(plans)
    return Space(
        dialect=searched[0].setting.dialect.name,
        meshes=tuple(tuple((a.name, a.size) for a in x.setting.mesh.axes) for x in searched),
        nodes=max(len(own) for own in sizes),
        candidates=sum(sum(own) for own in sizes),
        largest=max(max(own, default=0) for own in sizes),
        log10_plans=most + math.log10(sum(10 ** (p - most) for p in plans)),
        left_out=sum(x.left_out for x in searched),
    )
