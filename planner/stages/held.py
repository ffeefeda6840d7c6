"""What holds the layouts inside the stages of a pipeline: degrees such as `tp=8`, and pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ir.graph import OpGraph
from planner.degrees import degrees_text, followed, meshes_with
from planner.dialects import Dialect
from planner.fewer import narrowed
from planner.lowered import Lowered
from planner.pinning import kept_candidates, meshes_for
from planner.pins import Pin, listed, pin_text, pins_of
from planner.request import Cuts, RequestError, SearchRequest
from planner.restriction import IndexArray
from planner.stages.pieces import plain_name
from planner.token_cuts import one_of, parts_on
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
        allowed: dict[int, IndexArray] = {}
        for each in followed(lowered, degrees, scope, marked):
            for node, own in each.allowed.items():
                both = np.intersect1d(allowed.get(node, own), own)
                # One candidate may not have all degrees at once; then the first one holds.
                allowed[node] = both if len(both) else allowed[node]
        lowered = narrowed(lowered, allowed)
    return lowered


def with_pins(lowered: Lowered, pins: Sequence[Pin]) -> Lowered:
    """The problem of some pieces with the candidates that keep the pins."""
    if lowered.setting.mesh.size == 1:
        return lowered
    return narrowed(lowered, pinned_candidates(lowered, pins))


def pinned_candidates(lowered: Lowered, pins: Sequence[Pin]) -> dict[int, IndexArray]:
    """The candidates of pinned operators, by the names that they have in the network."""
    wanted = {pin.op.name: pin for pin in pins}
    return {
        number: kept_candidates(wanted[plain_name(node.name)], node, lowered.setting.mesh)
        for number, node in enumerate(lowered.nodes)
        if node.candidates is not None and plain_name(node.name) in wanted
    }


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
    names = lowered.liveness.graph.tensors
    return {name: where[plain_name(name)] for name in names if plain_name(name) in where}


def held_notes(
    lowered: Lowered, request: SearchRequest, where: Mapping[str, int]
) -> tuple[str, ...]:
    """What became of the degrees, for the reader of the plan."""
    if not request.degrees or lowered.setting.mesh.size == 1:
        return ()
    found = followed(lowered, request.degrees, "", marked_places(lowered, where))
    free = {plain_name(name) for each in found for name in each.free}
    text = f"held to {degrees_text(request.degrees)} inside every stage"
    return (text + (f"; {len(free)} that cannot follow are free" if free else ""),)


def _degrees(request: SearchRequest) -> dict[str, tuple[tuple[str, int], ...]]:
    """By part of the network, the whole of it first."""
    every = (("", request.degrees), *request.scoped_degrees)
    return {scope: degrees for scope, degrees in every if degrees}
