"""Lowered problems for tests."""

from __future__ import annotations

import math
from dataclasses import replace

from ir.dialects import TARGETS, Dialect
from ir.graph import OpGraph
from planner.constraints.pins import held_pins
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Setting
from planner.lowering.optimizer_states import StateOptions
from planner.pipeline.preparation import dialect_for, input_layouts, prepare
from planner.request import SearchRequest
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.mesh import Mesh


def lowered_on(
    graph: OpGraph,
    cluster: Cluster,
    mesh: Mesh,
    request: SearchRequest,
    *,
    recompute: bool = False,
    dialect: Dialect | None = None,
    zero: str = "",
) -> Lowered:
    """The problem of a graph on one mesh, without a memory limit; at a level of ZeRO, if any."""
    dialect = dialect or dialect_for(request, cluster.devices)
    ready, _ = prepare(graph, cluster, request)
    layouts = input_layouts(ready, mesh, dialect, request)
    setting = Setting(
        cluster, mesh, dialect, request.training, request.optimizer, layouts, math.inf
    )
    held = frozenset(pin.op.name for pin in held_pins(ready, request, cluster.devices))
    states = StateOptions(zero) if zero else None
    setting = replace(setting, recompute=recompute, held=held, states=states)
    return lower(analyse(ready, training=request.training), setting)


def all_lowered(
    graph: OpGraph, devices: int, target: str, cluster: str = "atlas-800t-a2"
) -> list[Lowered]:
    """The problems that a search on so many devices solves, one for each mesh.

    For free targets on meshes of at most two axes: finer ones are beyond enumeration.
    """
    machine = named_cluster(cluster, devices)
    request = SearchRequest(target=target)
    dialect = TARGETS[target]
    meshes = [m for m in dialect.meshes(machine) if dialect.cut_counts or len(m.axes) < 3]
    return [lowered_on(graph, machine, mesh, request) for mesh in meshes]
