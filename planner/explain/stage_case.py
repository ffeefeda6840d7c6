"""One part of the machine of a plan with stages, as the problem that it answers.

Between stages a tensor goes in a layout of its own, so parts share no more than parameters that
lie alike in them: what a part does is chosen for it alone, within its memory. Its problem is made
again with the boundaries of its stages, their blocks and micro-batches as planned, and counted for
a whole step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from ir.factor_roles import batch_places
from ir.plan import Plan, PlannedTensor
from ir.plan_stages import (
    has_equal_stages,
    part_times,
    pipeline_of,
    planned_in,
    send_times,
    stage_mesh,
    stage_size,
)
from planner.explain.asked import request_of
from planner.explain.case import (
    Case,
    budget_of,
    check_price,
    degree_holds,
    posed_case,
    ruling_holds,
)
from planner.explain.posed import Hold
from planner.liveness import analyse
from planner.lowered import Lowered, NodeKind
from planner.lowering import lower
from planner.moving import planned_choice, setting_of
from planner.pins import pin_text, pins_of
from planner.problem import EdgeTable, FloatArray, NodeTable, Problem
from planner.restriction import IndexArray
from planner.stages.chain import pipeline_time_s
from planner.stages.cuts import cuts_of
from planner.stages.held import marked_places, pinned_candidates
from planner.stages.machine import send_s
from planner.stages.menu import Shape, moments_of_pieces
from planner.stages.offload import on_device, with_offload
from planner.stages.pieces import Pieces, Span, name_in, pieces_of, plain_name
from planner.stages.prices import setting_of as setting_of_pieces
from planner.stages.ring import with_ring
from planner.stages.states import StateInParts, with_states
from planner.stages.tied import lies_alike
from topology.cluster import Cluster
from topology.part import stage_cluster

SELECTIVE = ("auto", "selective")
"""Values of `--recompute` with which single tensors may be computed again."""


def stage_case(plan: Plan, part: int, *, moved: bool = False) -> Case:
    """The problem of one part of the machine, and what the plan has there.

    Args:
        plan: with a pipeline.
        part: which one; stage s runs on part s mod so many.
        moved: whether the plan was made for another machine and its times follow from that.

    Raises:
        RequestError: this version prices the plan otherwise than its file says.
    """
    lowered = lowered_part(plan, part, Cluster.from_dict(plan.cluster))
    choice = _planned(plan, part, lowered)
    times = pipeline_of(plan).micro_batches
    if not moved:
        found_s = lowered.problem.cost_s(choice) + _received_s(plan, part)
        check_price(found_s, part_times(plan)[part])
    lowered = replace(lowered, problem=_times(lowered.problem, times))
    request = request_of(plan)
    places = marked_places(lowered, batch_places(plan.graph)) if request.degrees else {}
    degrees = degree_holds(lowered, request, places)
    ruled = ruling_holds(lowered, request, plan.graph, plain_name)
    holds = (*_pins(plan, lowered), *_tied(plan, lowered, choice), *degrees, *ruled)
    case = posed_case(lowered, choice, (), holds, budget_of(request))
    return replace(case, plain=plain_name, step_s=lambda work_s: step_s(plan, {part: work_s}))


def _pins(plan: Plan, lowered: Lowered) -> Iterator[Hold]:
    """What each pin leaves to the operators of the part."""
    for name, cuts in request_of(plan).pins:
        found = pinned_candidates(lowered, pins_of(plan.graph, [(name, cuts)]))
        if found:
            yield Hold(pin_text(name, cuts), found)


def _tied(plan: Plan, lowered: Lowered, choice: Sequence[int]) -> Iterator[Hold]:
    """What stages of other parts leave to a parameter that they hold too."""
    numbers = {node.name: number for number, node in enumerate(lowered.nodes)}
    for each in pipeline_of(plan).shared if lies_alike(lowered) else ():
        names = (name_in(stage, each.tensor) for stage in each.stages)
        held = [numbers[name] for name in names if name in numbers]
        if len(held) < len(each.stages):
            places = " and ".join(map(str, each.stages))
            text = f"one layout of {each.tensor} in stages {places}"
            yield Hold(text, {number: np.array([choice[number]]) for number in held})


def stages_of(plan: Plan, part: int) -> range:
    """The stages that a part of the machine runs."""
    pipeline = pipeline_of(plan)
    return range(part, len(pipeline.stages), pipeline.parts)


def lowered_part(plan: Plan, part: int, machine: Cluster) -> Lowered:
    """The problem of one micro-batch on a part of a machine."""
    pipeline, request = pipeline_of(plan), request_of(plan)
    own = stage_cluster(machine, stage_size(plan, part))
    if own is None:
        raise ValueError(f"{machine.name} has no part of {stage_size(plan, part)} devices")
    numbers = stages_of(plan, part)
    pieces = _pieces(plan, numbers)
    setting = replace(
        setting_of(_of_part(plan, part), own),
        recompute=request.recompute in SELECTIVE,
        micro_batches=pipeline.micro_batches,
        in_flight=tuple(pipeline.stages[number].in_flight for number in numbers),
    )
    found = lower(pieces.liveness, setting_of_pieces(setting, pieces))
    exchanges = dict.fromkeys(pieces.shared, _exchange(machine))
    found = with_states(found, request.zero, exchanges)
    found = with_offload(found, request.offload, pieces.shared)
    return with_ring(found, request.ring_attention)


def _of_part(plan: Plan, part: int) -> Plan:
    """The plan with the mesh of a part of the machine, and the inputs as they lie there."""
    if has_equal_stages(plan):
        return plan
    tensors = tuple(t for t in plan.tensors if t.role != "input" or t.stage == part)
    return replace(plan, mesh=stage_mesh(plan, part), tensors=tensors)


def _exchange(machine: Cluster) -> Callable[[FloatArray], FloatArray]:
    return lambda nbytes: np.array([send_s(machine, float(each)) for each in nbytes])


def _pieces(plan: Plan, numbers: range) -> Pieces:
    pipeline = pipeline_of(plan)
    liveness = analyse(plan.graph, training=True)
    ends = {stage.end for stage in pipeline.stages}
    cuts = {cut.position: cut for cut in cuts_of(liveness) if cut.position in ends}
    stages = (pipeline.stages[number] for number in numbers)
    spans = [Span(stage.start, stage.end, None, stage.blocks) for stage in stages]
    shape = Shape(pipeline.parts, 1, pipeline.micro_batches, pipeline.chunks)
    return pieces_of(liveness, cuts, spans, numbers, moments_of_pieces(shape, numbers))


def _planned(plan: Plan, part: int, lowered: Lowered) -> tuple[int, ...]:
    """The planned candidate of every node of a part."""
    numbers = stages_of(plan, part)
    draft = replace(
        _of_part(plan, part),
        operators=tuple(
            replace(op, name=name_in(op.stage, op.name))
            for op in plan.operators
            if op.stage in numbers
        ),
        tensors=tuple(_tensors(plan, numbers)),
        recomputed=tuple(name_in(stage, name) for stage in numbers for name in plan.recomputed),
    )
    return planned_choice(draft, lowered, _levels(draft, lowered))


def _tensors(plan: Plan, numbers: range) -> Iterator[PlannedTensor]:
    """What the plan says of tensors, by their names in each stage."""
    for stage in numbers:
        for tensor in plan.tensors:
            own = planned_in(plan, tensor, stage)
            everywhere = tensor.role == "input" and has_equal_stages(plan)
            if own.stage == stage or everywhere:
                yield replace(own, name=name_in(stage, tensor.name))


def _levels(draft: Plan, lowered: Lowered) -> dict[int, IndexArray]:
    """Candidates of every parameter whose optimizer state lies as planned."""
    axes = [name for name, _, _ in draft.mesh]
    planned = {t.name: t for t in draft.parameters}
    out: dict[int, IndexArray] = {}
    for number, node in enumerate(lowered.nodes):
        if node.kind is not NodeKind.PARAMETER or node.port is None:
            continue
        own, fine = planned[node.name], []
        for candidate, of in enumerate(node.port.of):
            planned_state = node.port.states[of]
            state = on_device(planned_state)
            on_host = planned_state is not state
            parts = state.parts.forward if isinstance(state, StateInParts) else None
            dims = None if parts is None else [tuple(axes[a] for a in dim) for dim in parts.dims]
            asked = None if own.states is None else list(own.states.dims)
            level = state.level if isinstance(state, StateInParts) else 0
            if dims == asked and level == own.zero % 3 and on_host == (own.host_bytes > 0):
                fine.append(candidate)
        out[number] = np.array(fine, dtype=np.intp)
    return out


def _received_s(plan: Plan, part: int) -> float:
    """Seconds of a micro-batch in which a part receives, and sends gradients back."""
    return math.fsum(sum(send_times(plan, stage)) for stage in stages_of(plan, part))


def step_s(plan: Plan, works_s: Mapping[int, float]) -> float:
    """Seconds of the whole step if some parts work otherwise than planned.

    Args:
        plan: with a pipeline.
        works_s: by part what it works in a step, without what it receives.
    """
    pipeline, planned = pipeline_of(plan), part_times(plan)
    shape = (pipeline.micro_batches, pipeline.chunks)
    order_s = plan.estimate.step_time_s - pipeline_time_s(planned, *shape)
    own = list(planned)
    for part, work_s in works_s.items():
        own[part] = work_s / pipeline.micro_batches + _received_s(plan, part)
    return math.fsum((pipeline_time_s(own, *shape), order_s))


def _times(problem: Problem, count: int) -> Problem:
    """A problem of one micro-batch as that of a step; what cannot be stays so."""
    return replace(
        problem,
        node_tables=tuple(
            NodeTable(table.time_s * count, table.memory_bytes, table.axes)
            for table in problem.node_tables
        ),
        edge_tables=tuple(
            EdgeTable(
                np.where(
                    table.time_s >= UNREACHABLE_S,
                    UNREACHABLE_S,
                    np.minimum(table.time_s * count, np.nextafter(UNREACHABLE_S, 0.0)),
                ),
                table.memory_bytes,
            )
            for table in problem.edge_tables
        ),
    )
