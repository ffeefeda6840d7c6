"""Plans of schemes that people know by name, without a memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ir.batch import batch_dims
from ir.dialects import TARGETS
from ir.graph import OpGraph
from ir.plan import Plan
from planner.constraints.schemes import InexpressibleError, Scheme, choice_of
from planner.lowering.lowered import Lowered
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.executors.drawn_plans import plan_of
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.mesh import Mesh, grouped_meshes

DATA, TENSOR, TWO_D, SHARDED, SEARCHED = "data", "tensor", "2-D", "fully sharded", "searched"
STATES = "states in parts"
"""Data parallel, with optimizer state shared out (ZeRO 1)."""
SCHEMES: Sequence[str] = (DATA, TENSOR, TWO_D, SHARDED, STATES, SEARCHED)


def plans(
    graph: OpGraph,
    devices: int,
    request: SearchRequest,
    cluster: str = "atlas-800t-a2",
    wanted: Sequence[str] = SCHEMES,
) -> dict[str, Plan]:
    """A plan of every scheme that can be expressed.

    Data, tensor, fully sharded and searched plans are on the target's usual mesh; 2-D ones on two
    axes, the outer of which splits the batch and the inner the weights. Inputs arrive as the
    scheme splits the batch, unless the request says how.

    Args:
        graph: as imported, not in normal form.
        devices: how many.
        request: training or not, and the target; its solver is not asked.
        cluster: name of a machine.
        wanted: names of schemes.
    """
    machine = named_cluster(cluster, devices)
    out: dict[str, Plan] = {}
    for name in wanted:
        try:
            out[name] = _plan(name, graph, machine, request)
        except InexpressibleError:
            continue
    return out


def _plan(name: str, graph: OpGraph, machine: Cluster, request: SearchRequest) -> Plan:
    usual = TARGETS[request.target].meshes(machine)[0]
    mesh = _two_axes(machine) if name == TWO_D else usual
    if name == SEARCHED:
        lowered = lowered_on(graph, machine, mesh, request)
        return plan_of(lowered, _optimum(lowered), request)
    scheme = _scheme(name, mesh)
    request = replace(request, dataset_strategy=_inputs(graph, scheme, mesh, request))
    zero = "1" if name == STATES and request.training else ""
    lowered = lowered_on(graph, machine, mesh, request, zero=zero)
    choice = choice_of(lowered, scheme, batch_dims(lowered.liveness.graph))
    return plan_of(lowered, choice, request)


def _two_axes(machine: Cluster) -> Mesh:
    return next(mesh for mesh in grouped_meshes(machine, 2) if len(mesh.axes) == 2)


def _scheme(name: str, mesh: Mesh) -> Scheme:
    every = tuple(range(len(mesh.axes)))
    batch: Mapping[str, tuple[int, ...]] = {TENSOR: (), TWO_D: every[:1]}
    model: Mapping[str, tuple[int, ...]] = {TENSOR: every, TWO_D: every[1:]}
    return Scheme(name, batch.get(name, every), model.get(name, ()), shard_weights=name == SHARDED)


def _optimum(lowered: Lowered) -> tuple[int, ...]:
    problem = replace(lowered.problem, memory_limit_bytes=math.inf)
    found = solver_by_name("dynamic_programming").solve(problem, Budget())
    if found.choice is None:
        raise InexpressibleError("nothing was found")
    return found.choice


def _inputs(
    graph: OpGraph, scheme: Scheme, mesh: Mesh, request: SearchRequest
) -> str | tuple[tuple[int, ...], ...]:
    """How the inputs arrive: their first dimension split as the batch is."""
    if request.dataset_strategy is not None:
        return request.dataset_strategy
    pieces = math.prod(mesh.sizes[axis] for axis in scheme.batch_axes)
    return tuple(tuple(_cuts(graph.tensors[name].dims, pieces)) for name in graph.inputs)


def _cuts(dims: Sequence[int], pieces: int) -> Iterator[int]:
    for index, dim in enumerate(dims):
        yield pieces if index == 0 and dim % pieces == 0 else 1
