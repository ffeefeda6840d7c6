"""Plans of every shape: the optimum under prices that mean nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_estimate import Bound
from planner.constraints.pinning import pinned
from planner.constraints.pins import held_pins
from planner.lowering.lowered import Lowered
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import dialect_for
from planner.pipeline.stage_plan import space_of
from planner.problem import EdgeTable, NodeTable, Problem
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster


def drawn_plan(
    graph: OpGraph,
    devices: int,
    request: SearchRequest,
    seed: int,
    cluster: str = "atlas-800t-a2",
    zero: str = "",
) -> Plan:
    """A valid plan that depends on the seed; operators that are equal are split alike."""
    machine = named_cluster(cluster, devices)
    dialect = dialect_for(request, devices)
    meshes = [m for m in dialect.meshes(machine) if dialect.cut_counts or len(m.axes) < 4]
    lowered = lowered_on(graph, machine, meshes[seed % len(meshes)], request, zero=zero)
    lowered = pinned(lowered, held_pins(lowered.liveness.graph, request, devices))
    problem = priced_at_random(lowered.problem, np.random.default_rng(seed))
    found = solver_by_name("dynamic_programming").solve(problem, Budget())
    assert found.choice is not None
    assert found.cost_s < UNREACHABLE_S
    return plan_of(lowered, found.choice, request)


def priced_at_random(problem: Problem, draw: np.random.Generator) -> Problem:
    """The same problem with prices that are drawn; what cannot be stays out of reach."""
    nodes = tuple(NodeTable(draw.uniform(0, 1, t.time_s.shape)) for t in problem.node_tables)
    edges = tuple(
        EdgeTable(np.where(t.time_s < UNREACHABLE_S, 0.0, UNREACHABLE_S))
        for t in problem.edge_tables
    )
    return replace(
        problem,
        node_tables=nodes,
        edge_tables=edges,
        node_intervals=((),) * len(problem.node_table_of),
        edge_intervals=((),) * len(problem.edges),
    )


def plan_of(lowered: Lowered, choice: tuple[int, ...], request: SearchRequest) -> Plan:
    """The plan that a choice means."""
    graph, setting = lowered.liveness.graph, lowered.setting
    evidence = PlanBuilder(lowered, choice)
    collectives = evidence.collectives()
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=setting.cluster.to_dict(),
        mesh=tuple((a.name, a.size, a.tier) for a in setting.mesh.axes),
        rank_order=tuple(range(setting.mesh.size)),
        request=request.to_dict(),
        operators=evidence.operators(),
        tensors=evidence.tensors(),
        recomputed=evidence.recomputed(),
        collectives=collectives,
        estimate=evidence.estimate(),
        space=space_of([lowered]),
        bound=Bound(0.0, 0.0, "none", request.solver),
    )
