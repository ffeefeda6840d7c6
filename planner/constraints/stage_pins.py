"""What holds the layouts in the stages of a pipeline: degrees such as `tp=8`, pins, older plans."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from costmodel.collectives import CollectiveModel
from costmodel.operators import OperatorModel
from ir.dialects import Dialect
from ir.graph import OpGraph
from ir.ops import OpView
from ir.signatures import signature
from ir.texts import listed
from planner.candidates.operators import OpPricer, splits_of
from planner.constraints.degrees import degrees_text, followed, following, meshes_with
from planner.constraints.pinning import meshes_for, pinned_candidates
from planner.constraints.pins import Pin, pin_text, pins_of
from planner.constraints.soft import SoftConstraints
from planner.constraints.token_cuts import one_of, parts_on
from planner.lowering.lowered import Lowered, narrowed
from planner.request import Cuts, RequestError, SearchRequest
from topology.cluster import Cluster
from topology.mesh import Mesh


def can_be_had(request: SearchRequest, meshes: Sequence[Mesh], micro_batch: int) -> bool:
    """Whether a stage on one of these meshes can have the degrees that are asked for."""
    every = _degrees(request).values()
    return bool(able(request, meshes)) and all(
        micro_batch % dict(degrees).get("dp", 1) == 0 for degrees in every
    )


def able(request: SearchRequest, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
    """The meshes of a stage on which the degrees can be had, the coarsest first."""
    found = tuple(meshes)
    try:
        for degrees in _degrees(request).values():
            found = meshes_with(degrees, found)
    except RequestError:
        return ()
    return found


def no_stage_has(request: SearchRequest, meshes: Sequence[Mesh]) -> RequestError:
    """The error where no shape of the pipeline, of stages on these meshes, has the degrees."""
    asked = [degrees_text(request.degrees)] if request.degrees else []
    asked += [pin_text(*pin) for pin in request.pins]
    fix = "ask for fewer parts, or leave --pipeline out"
    if request.context_parallel not in {"auto", "off"}:
        if not asked:
            fix = f"use --context-parallel {one_of(parts_on(meshes))}"
        asked.append(f"--context-parallel {request.context_parallel}")
    text = listed(asked, 3) or "the degrees of the layers"
    return RequestError(
        f"no stage of any pipeline on this machine can have {text}\n  at:  {text}\n  fix: {fix}"
    )


def held(lowered: Lowered, request: SearchRequest, where: Mapping[str, int]) -> Lowered:
    """The problem of some pieces with the candidates that follow the degrees.

    Args:
        lowered: with the names that pieces have.
        request: says the degrees, of the whole network and of parts of it.
        where: the dimension of every tensor of the network that is the batch.
    """
    if lowered.setting.mesh.size == 1:
        return lowered
    marked = marked_places(lowered, where)
    for scope, degrees in _degrees(request).items():
        lowered = following(lowered, degrees, scope, marked)
    return lowered


def with_pins(lowered: Lowered, pins: Sequence[Pin]) -> Lowered:
    """The problem of some pieces with the candidates that keep the pins."""
    if lowered.setting.mesh.size == 1:
        return lowered
    return narrowed(lowered, pinned_candidates(lowered, pins))


def keeping(
    graph: OpGraph, pins: Sequence[tuple[str, Cuts]], dialect: Dialect, meshes: Sequence[Mesh]
) -> tuple[Mesh, ...]:
    """The meshes on which a network, of one micro-batch, can be cut as it is pinned."""
    try:
        return meshes_for(graph, pins_of(graph, pins), dialect, meshes)
    except RequestError:
        return ()


def marked_places(lowered: Lowered, where: Mapping[str, int]) -> dict[str, int]:
    """Dimensions of the tensors of a network, by the names that they have in pieces of it."""
    names = {name: lowered.liveness.origin(name).name for name in lowered.liveness.graph.tensors}
    return {name: where[origin] for name, origin in names.items() if origin in where}


def held_notes(
    lowered: Lowered, request: SearchRequest, where: Mapping[str, int]
) -> tuple[str, ...]:
    """What became of the degrees, for the reader of the plan."""
    if not request.degrees or lowered.setting.mesh.size == 1:
        return ()
    found = followed(lowered, request.degrees, "", marked_places(lowered, where))
    free = {lowered.liveness.origin(name).name for each in found for name in each.free}
    text = f"held to {degrees_text(request.degrees)} inside every stage"
    return (text + (f"; {len(free)} that cannot follow are free" if free else ""),)


def _degrees(request: SearchRequest) -> dict[str, tuple[tuple[str, int], ...]]:
    """By part of the network, the whole of it first."""
    every = (("", request.degrees), *request.scoped_degrees)
    return {scope: degrees for scope, degrees in every if degrees}


def marks_of(graph: OpGraph, request: SearchRequest) -> dict[str, Hashable]:
    """What pins and wishes tell apart of operators that are equal otherwise."""
    found: dict[str, Hashable] = dict(request.close_to)
    for pin in pins_of(graph, request.pins):
        found[pin.op.name] = found.get(pin.op.name), pin.cuts
    for number, soft in enumerate(SoftConstraints.of(graph, request).soft):
        for pin in soft.pins:
            found[pin.op.name] = found.get(pin.op.name), number, pin.cuts
    return found


def can_be_as_before(
    graph: OpGraph, old: Mapping[str, Cuts], cluster: Cluster, mesh: Mesh, dialect: Dialect
) -> frozenset[str]:
    """Operators that a stage can split as an older plan did.

    Args:
        graph: the network of one micro-batch.
        old: cuts of operands and results by operator.
        cluster: the machine of a stage.
        mesh: its mesh.
        dialect: of the target.
    """
    models = OperatorModel(cluster.chip, smooth=True), CollectiveModel(cluster, mesh)
    pricer = OpPricer(mesh, dialect, *models)
    known: dict[Hashable, frozenset[Cuts]] = {}
    found = []
    for op in graph.ops:
        if op.name not in old:
            continue
        key = signature(op, graph.tensors)
        if key not in known:
            offered = pricer.candidates(OpView(op, graph), (True,) * len(op.inputs))
            known[key] = frozenset(splits_of(offered, mesh.sizes))
        if old[op.name] in known[key]:
            found.append(op.name)
    return frozenset(found)
