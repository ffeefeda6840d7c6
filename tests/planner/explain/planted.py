"""Problems with one planted cause: a cost raised, a pin, a memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ir.dialects import TARGETS
from ir.graph import OpGraph
from planner.explain.plan_problem import PlanProblem
from planner.explain.plan_request import pin_holds
from planner.explain.reasons import Subject
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind, Setting
from planner.pipeline.preparation import input_layouts, prepare
from planner.problem import EdgeTable, NodeTable, Problem
from planner.request import Cuts, SearchRequest
from topology.catalogue import named_machine
from topology.mesh import tier_mesh

RAISED = 20.0
"""Steps of the unchanged plan that a raised cost is dearer."""


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A plan that a planted cause forced away from a candidate."""

    case: PlanProblem
    node: int
    """The node that would have the candidate, but for the cause."""
    candidate: int
    kind: str
    """Of the reason."""
    name: str
    """What the reason is about, as it names it."""


def lowered_model(graph: OpGraph, target: str, devices: int = 16) -> Lowered:
    """A model on a machine, with everything offered to be computed again."""
    cluster = named_machine("atlas-800t-a2").cluster(devices)
    request = SearchRequest(target=target)
    ready, _ = prepare(graph, cluster, request)
    dialect = TARGETS[target]
    mesh = dialect.meshes(cluster)[0] if dialect.cut_counts else tier_mesh(cluster)
    liveness = analyse(ready, training=True)
    setting = Setting(
        cluster, mesh, dialect, True, request.optimizer,
        input_layouts(ready, mesh, dialect, request), float(cluster.usable_memory_bytes),
        recompute=True,
    )  # fmt: skip
    return lower(liveness, setting)


def solved(lowered: Lowered, pins: tuple[tuple[str, Cuts], ...] = ()) -> PlanProblem:
    """The best plan of a problem as a case."""
    holds = tuple(pin_holds(lowered.liveness.graph, lowered, pins))
    blank = PlanProblem.of(lowered, (0,) * len(lowered.nodes), holds)
    return PlanProblem.of(lowered, blank.posed.thorough().answer().choice, holds)


def operators(lowered: Lowered) -> Iterator[int]:
    """Operators that have more than one way."""
    for number, node in enumerate(lowered.nodes):
        if node.kind is NodeKind.OPERATOR and lowered.problem.sizes[number] > 4:
            yield number


def raised_nodes(lowered: Lowered) -> Iterator[Planted]:
    """What an operator chooses becomes dear."""
    before = solved(lowered)
    step_s = before.plan_answer.cost_s
    for number in operators(lowered):
        problem, subject = lowered.problem, Subject(before, number)
        alike = subject.alike(before.choice[number])
        table = problem.node_tables[problem.node_table_of[number]]
        time_s = table.time_s.copy()
        time_s[alike] += RAISED * step_s
        changed = with_node(problem, number, replace(table, time_s=time_s))
        after = solved(replace(lowered, problem=changed))
        name = lowered.nodes[number].name
        yield Planted(after, number, before.choice[number], "node", name)


def raised_edges(lowered: Lowered) -> Iterator[Planted]:
    """What an operator chooses becomes dear at one of its edges, whatever the other end does."""
    before = solved(lowered)
    step_s = before.plan_answer.cost_s
    for number in operators(lowered):
        alike = Subject(before, number).alike(before.choice[number])
        for index, edge in enumerate(lowered.edges):
            if edge.source != number or lowered.nodes[edge.target].kind is not NodeKind.OPERATOR:
                continue
            problem = lowered.problem
            table = problem.edge_tables[problem.edge_table_of[index]]
            time_s = table.time_s.copy()
            time_s[alike, :] += RAISED * step_s
            changed = with_edge(problem, index, replace(table, time_s=time_s))
            after = solved(replace(lowered, problem=changed))
            ends = (lowered.nodes[edge.source].name, lowered.nodes[edge.target].name)
            name = f"{edge.tensor} from {ends[0]} to {ends[1]}"
            yield Planted(after, number, before.choice[number], "edge", name)


def raised_entries(lowered: Lowered, raised: float = RAISED) -> Iterator[Planted]:
    """One pair of candidates becomes dear: what two operators choose at the edge between them."""
    before = solved(lowered)
    step_s = before.plan_answer.cost_s
    for index, edge in enumerate(lowered.edges):
        ends = (edge.source, edge.target)
        if {lowered.nodes[end].kind for end in ends} != {NodeKind.OPERATOR}:
            continue
        problem = lowered.problem
        table = problem.edge_tables[problem.edge_table_of[index]]
        time_s = table.time_s.copy()
        pairs = (Subject(before, end).alike(before.choice[end]) for end in ends)
        time_s[np.ix_(*pairs)] += raised * step_s
        changed = with_edge(problem, index, replace(table, time_s=time_s))
        after = solved(replace(lowered, problem=changed))
        names = [lowered.nodes[end].name for end in ends]
        name = f"{edge.tensor} from {names[0]} to {names[1]}"
        for end in ends:
            if lowered.problem.sizes[end] > 4:
                yield Planted(after, end, before.choice[end], "edge", name)


def pinned(lowered: Lowered) -> Iterator[Planted]:
    """An operator is pinned to another way than it would choose, a second one to its own."""
    before = solved(lowered)
    numbers = [*operators(lowered)]
    for number in numbers:
        subject = Subject(before, number)
        own = subject.cuts(before.choice[number])
        others = (subject.cuts(i) for i in range(subject.size))
        cuts = next((c for c in others if c not in {None, own}), None)
        if cuts is None:
            continue
        second = Subject(before, numbers[0] if number != numbers[0] else numbers[-1])
        harmless = second.cuts(before.choice[second.number]) or ()
        pins = ((subject.node.name, cuts), (second.node.name, harmless))
        after = solved(lowered, pins)
        yield Planted(after, number, before.choice[number], "pin", after.posed.holds[0].text)


def limited(lowered: Lowered, share: float) -> Iterator[Planted]:
    """Memory is a share of what the fastest plan needs; everything that it moves is asked about."""
    before = solved(lowered)
    limit = before.plan_answer.peak_bytes * share
    problem = replace(lowered.problem, memory_limit_bytes=limit)
    after = solved(replace(lowered, problem=problem))
    for number in operators(lowered) if after.plan_answer.fits else ():
        if before.choice[number] not in Subject(after, number).alike(after.choice[number]):
            yield Planted(after, number, before.choice[number], "memory limit", "")


def with_node(problem: Problem, index: int, table: NodeTable) -> Problem:
    of = list(problem.node_table_of)
    of[index] = len(problem.node_tables)
    return replace(problem, node_tables=(*problem.node_tables, table), node_table_of=tuple(of))


def with_edge(problem: Problem, index: int, table: EdgeTable) -> Problem:
    of = list(problem.edge_table_of)
    of[index] = len(problem.edge_tables)
    return replace(problem, edge_tables=(*problem.edge_tables, table), edge_table_of=tuple(of))


def moved(planted: Planted) -> bool:
    """Whether the cause changed the choice."""
    alike = Subject(planted.case, planted.node).alike(planted.candidate)
    return not np.isin(planted.case.choice[planted.node], alike)
