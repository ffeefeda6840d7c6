"""What a plan must satisfy beyond the schema of its file: that its parts speak of each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ir.graph import OpGraph, record_digest
from ir.layout import Layout, LayoutError, check_layout
from ir.plan import NamedLayout, Pipeline, Plan, PlannedCollective, PlannedOperator, PlannedTensor
from ir.plan_estimate import Estimate
from ir.published import KINDS

MAX_PIECES = 1 << 20
"""More pieces of one dimension than any mesh makes."""
_ROUNDING = 1e-3
"""Relative distance of a sum of causes from its whole."""

Fault = tuple[str, str]
"""What is wrong, and where in the file."""
Mesh = Sequence[tuple[str, int, int]]


def graph_faults(record: Mapping[str, object], digest: str) -> Iterator[Fault]:
    """A graph, as it stands in the file, that is not the one that was planned.

    The record is hashed and not the graph: a later program may write an equal graph otherwise.
    """
    if record_digest(record) != digest:
        yield "the graph is not the one that was planned", "graph"


def plan_faults(plan: Plan) -> Iterator[Fault]:
    """Everything in a plan that contradicts the rest of it."""
    graph, pipeline = plan.graph, plan.pipeline
    broken = tuple(chunk_faults(pipeline))
    meshes = tuple(stage.mesh or plan.mesh for stage in pipeline.stages) or (plan.mesh,)
    parts = meshes[: len(meshes) // max(pipeline.chunks, 1)]
    broken = broken or tuple(mesh_faults(parts, plan.rank_order))
    broken = broken or tuple(_stage_faults(plan, len(meshes)))
    yield from broken
    if not broken:
        yield from tensor_faults(plan.tensors, graph, meshes)
        yield from operator_faults(plan.operators, graph, meshes)
        yield from collective_faults(plan.collectives, plan.graph, meshes)
        yield from _between_faults(plan, meshes)
    yield from estimate_faults(plan.estimate)
    if not pipeline.is_single:
        yield from pipeline_faults(pipeline, plan.operators)
    if not all(math.isfinite(n) and n >= 0 for n in plan.memory_bytes):
        yield "a number is negative or not finite", "memory_bytes"


def mesh_faults(parts: Sequence[Mesh], rank_order: Sequence[int]) -> Iterator[Fault]:
    """What keeps axes and ranks from being a mesh for each part of the machine."""
    for mesh in parts:
        names = [name for name, _, _ in mesh]
        if not names or len(set(names)) != len(names):
            yield f"the axes {names} have no distinct names", "mesh"
            return
        if min(size for _, size, _ in mesh) < 1 or min(tier for _, _, tier in mesh) < 0:
            yield "an axis has a size below 1 or a tier below 0", "mesh"
            return
    if sum(math.prod(size for _, size, _ in mesh) for mesh in parts) != len(rank_order):
        yield f"the axes do not multiply to {len(rank_order)} ranks", "mesh"
    if sorted(rank_order) != list(range(len(rank_order))):
        yield "the ranks are not the devices from 0, each once", "rank_order"


def _stage_faults(plan: Plan, stages: int) -> Iterator[Fault]:
    """Parts of the plan that name a stage that there is not."""
    named = {
        "tensors": [tensor.stage for tensor in plan.tensors],
        "operators": [op.stage for op in plan.operators],
        "collectives": [item.stage for item in plan.collectives],
        "pipeline.sends": [item.stage for item in plan.pipeline.sends],
    }
    for kind, items in named.items():
        first = 1 if kind == "pipeline.sends" else 0
        for index, stage in enumerate(items):
            if not first <= stage < stages:
                yield f"there is no stage {stage}", f"{kind}.{index}"
                return


def _between_faults(plan: Plan, meshes: Sequence[Mesh]) -> Iterator[Fault]:
    """What goes between stages in layouts that the mesh at its end does not have, and inputs that
    have none where meshes differ.
    """
    for index, send in enumerate(plan.pipeline.sends):
        place = f"pipeline.sends.{index}"
        ends = (replace(send, after=None), replace(send, before=None))
        for end, mesh in zip(ends, meshes[send.stage - 1 : send.stage + 1], strict=True):
            yield from _way_faults(end, plan.graph, mesh, place)
    if len({*meshes}) > 1:
        inputs = {(tensor.name, tensor.stage) for tensor in plan.tensors if tensor.role == "input"}
        named = {name for name, _ in inputs}
        for planned, op in zip(plan.operators, plan.graph.ops, strict=True):
            for name in named.intersection(op.inputs):
                if (name, planned.stage) not in inputs:
                    yield f"stage {planned.stage} has no layout of the input {name!r}", "tensors"


def tensor_faults(
    tensors: Sequence[PlannedTensor], graph: OpGraph, meshes: Sequence[Mesh]
) -> Iterator[Fault]:
    """Tensors that the graph has otherwise, and layouts that they cannot have."""
    for index, planned in enumerate(tensors):
        place, tensor = f"tensors.{index}", graph.tensors.get(planned.name)
        mesh = meshes[planned.stage]
        if tensor is None:
            yield f"the graph has no tensor {planned.name!r}", place
        elif (tensor.dims, tensor.dtype) != (planned.dims, planned.dtype):
            yield f"{planned.name!r} has other dims or another type than in the graph", place
        else:
            for layout in (planned.layout, planned.used, planned.gradient, planned.states):
                yield from _layout_faults(layout, tensor.dims, mesh, place)
            if planned.zero not in range(4):
                yield f"ZeRO has no stage {planned.zero}", place
        yield from _time_faults(place, planned.update_s, planned.recompute_s, planned.host_s)
        held = planned.host_bytes
        if not 0 <= held < math.inf or (held and planned.role != "parameter"):
            yield f"a host cannot hold {held} bytes of its optimizer state", place
        elif planned.host_s and not held:
            yield f"nothing of it is on the host, and that takes {planned.host_s} s", place


def operator_faults(
    operators: Sequence[PlannedOperator], graph: OpGraph, meshes: Sequence[Mesh]
) -> Iterator[Fault]:
    """Operators with other operands or axes than graph and mesh have, and impossible layouts."""
    for index, (planned, op) in enumerate(zip(operators, graph.ops, strict=True)):
        place, mesh = f"operators.{index} ({planned.name})", meshes[planned.stage]
        axes = [name for name, _, _ in mesh]
        if [axis for axis, _ in planned.split if axis not in axes]:
            yield "it splits an axis that the mesh does not have", place
        if (len(planned.inputs), len(planned.outputs)) != (len(op.inputs), len(op.outputs)):
            yield "it has other operands or results than in the graph", place
            continue
        pairs = (*zip(op.inputs, planned.inputs, strict=True),
                 *zip(op.outputs, planned.outputs, strict=True))  # fmt: skip
        for name, layout in pairs:
            if name:
                yield from _layout_faults(layout, graph.tensors[name].dims, mesh, place)
        spent = planned.compute_s, planned.backward_s, planned.recompute_s
        yield from _time_faults(place, *spent, *planned.waits_s)
        if planned.backward_s > planned.compute_s * (1 + _ROUNDING):
            yield "its backward pass is longer than the whole", place
        if min(planned.kernels_s) < -_ROUNDING * planned.compute_s:
            yield "it waits for the host longer than it takes", place


def _time_faults(place: str, *times: float) -> Iterator[Fault]:
    for time_s in times:
        if not time_s >= 0 or math.isinf(time_s):
            yield f"{time_s} is no time", place


def _layout_faults(
    layout: NamedLayout | None, dims: Sequence[int], mesh: Mesh, place: str
) -> Iterator[Fault]:
    if layout is None:
        return
    numbers = {name: i for i, (name, _, _) in enumerate(mesh)}
    used = [axis for dim in (*layout.dims, layout.partial) for axis in dim]
    strange = [axis for axis in used if axis not in numbers]
    if strange:
        yield f"the mesh has no axis {strange[0]!r}, only {', '.join(numbers)}", place
        return
    split = tuple(tuple(numbers[a] for a in dim) for dim in layout.dims)
    try:
        partial = tuple(numbers[a] for a in layout.partial)
        check_layout(Layout(split, partial), dims, [size for _, size, _ in mesh])
    except LayoutError as error:
        yield str(error).partition("\n")[0], place


def _way_faults(item: PlannedCollective, graph: OpGraph, mesh: Mesh, place: str) -> Iterator[Fault]:
    """Layouts between which a collective moves a tensor; in their midst pieces may be skipped."""
    for layout in (item.before, item.after):
        if layout is None:
            continue
        if item.tensor not in graph.tensors:
            yield f"the graph has no tensor {item.tensor!r}", place
            return
        gaps = [axis for dim in layout.dims for axis in dim if axis.startswith("/")]
        if not all(gap[1:].isdecimal() and 1 < int(gap[1:]) <= MAX_PIECES for gap in gaps):
            yield f"{gaps[0]!r} is no number of pieces", place
            return
        axes = tuple(tuple(a for a in dim if not a.startswith("/")) for dim in layout.dims)
        plain = replace(layout, dims=axes)
        yield from _layout_faults(plain, graph.tensors[item.tensor].dims, mesh, place)


_ROUNDED = 1 + 1e-9


def collective_faults(
    collectives: Sequence[PlannedCollective], graph: OpGraph, meshes: Sequence[Mesh]
) -> Iterator[Fault]:
    """Collectives over other axes than the mesh has, or with numbers that cannot be."""
    operators = {op.name for op in graph.ops}
    for index, item in enumerate(collectives):
        mesh = meshes[item.stage]
        axes = [name for name, _, _ in mesh]
        if [axis for axis in item.axes if axis not in axes]:
            yield "it runs over an axis that the mesh does not have", f"collectives.{index}"
        numbers = (item.nbytes, item.time_s, item.count, item.group_size, item.backward)
        if not all(math.isfinite(n) and n >= 0 for n in (*numbers, item.hidden_s)):
            yield "a number is negative or not finite", f"collectives.{index}"
        if item.hidden_s > item.time_s * _ROUNDED:
            yield "more of it is hidden than it takes", f"collectives.{index}"
        if item.backward > item.count:
            yield "more of it are backward than there are", f"collectives.{index}"
        if item.operator and item.operator not in operators:
            yield f"the graph has no operator {item.operator!r}", f"collectives.{index}"
        yield from _way_faults(item, graph, mesh, f"collectives.{index}")


def chunk_faults(pipeline: Pipeline) -> Iterator[Fault]:
    """Stages that do not share the machine evenly."""
    if pipeline.chunks < 1 or not pipeline.stages or len(pipeline.stages) % pipeline.chunks:
        yield f"{len(pipeline.stages)} stages do not make {pipeline.chunks} chunks", "pipeline"
    elif pipeline.chunks > 1 and any(stage.mesh for stage in pipeline.stages):
        yield "chunks need stages of one size", "pipeline.stages"
    elif all(stage.mesh for stage in pipeline.stages):
        yield "no stage has the mesh of the plan", "mesh"


def pipeline_faults(pipeline: Pipeline, operators: Sequence[PlannedOperator]) -> Iterator[Fault]:
    """Stages that do not follow one another, or numbers that cannot be."""
    ends = (0, *(stage.end for stage in pipeline.stages))
    if [stage.start for stage in pipeline.stages] != list(ends[:-1]) or ends[-1] != len(operators):
        yield "the stages do not follow one another through all operators", "pipeline.stages"
        return
    for index, stage in enumerate(pipeline.stages):
        if {op.stage for op in operators[stage.start : stage.end]} != {index}:
            yield "its operators are said to be in another stage", f"pipeline.stages.{index}"
        yield from _time_faults(
            f"pipeline.stages.{index}", stage.forward_s, stage.backward_s, stage.once_s,
            stage.peak_memory_bytes, stage.sync_s, stage.update_s,
        )  # fmt: skip
        ends = (stage.start, *(place for block in stage.blocks for place in block), stage.end)
        if list(ends) != sorted(ends):
            yield "it has no such blocks", f"pipeline.stages.{index}"
        if not 1 <= stage.in_flight <= pipeline.micro_batches:
            yield "it keeps no such number of micro-batches", f"pipeline.stages.{index}"
    if min(pipeline.micro_batches, pipeline.micro_batch) < 1:
        yield "there is no micro-batch", "pipeline"
    names = {op.name: op.stage for op in operators}
    for index, item in enumerate(pipeline.sends):
        if names.get(item.operator, 0) == 0:
            yield "it goes to no operator behind the first stage", f"pipeline.sends.{index}"
    yield from _shared_faults(pipeline)


def _shared_faults(pipeline: Pipeline) -> Iterator[Fault]:
    for index, shared in enumerate(pipeline.shared):
        place = f"pipeline.shared.{index}"
        known = all(0 <= stage < len(pipeline.stages) for stage in shared.stages)
        if len(shared.stages) != len(shared.layouts) or len(shared.stages) < 2 or not known:
            yield "it is not held by two or more stages, each with a layout", place
        if len(shared.updates_s) not in {0, len(shared.stages)}:
            yield "it is not updated in each of its stages", place
        yield from _time_faults(place, shared.time_s, shared.nbytes, *shared.updates_s)


def estimate_faults(estimate: Estimate) -> Iterator[Fault]:
    """Causes that do not sum to the whole, ends that are no interval."""
    ends = estimate.published
    if ends is not None:
        ratios = (ends.low, ends.middle, ends.high)
        if not all(math.isfinite(r) and r > 0 for r in ratios) or list(ratios) != sorted(ratios):
            yield "low, middle and high are not in order", "estimate.published"
        if ends.kind not in KINDS:
            yield f"the kind is none of {', '.join(KINDS)}", "estimate.published"
    wholes: Mapping[str, tuple[float, Mapping[str, float]]] = {
        "time_by_cause": (estimate.step_time_s, estimate.time_by_cause),
        "memory_by_cause": (estimate.peak_memory_bytes, estimate.memory_by_cause),
    }
    for name, (whole, parts) in wholes.items():
        numbers = (whole, *parts.values())
        if not all(math.isfinite(n) and n >= 0 for n in numbers):
            yield "a number is negative or not finite", f"estimate.{name}"
        elif not math.isclose(sum(parts.values()), whole, rel_tol=_ROUNDING, abs_tol=1e-9):
            yield f"the causes sum to {sum(parts.values()):g}, not to {whole:g}", f"estimate.{name}"
