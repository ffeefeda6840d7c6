"""Solves a case exactly, on one mesh, with some of the candidates barred if need be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.memory import Optimizer
from ir.dialects import FREE
from ir.graph import OpGraph
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.plan import PlannedCollective, PlannedOperator, PlannedTensor
from ir.plan_enums import Cause
from ir.rule import ShardingRule
from planner.candidates.offers import Assignment
from planner.lowering.lowered import Lowered
from planner.pipeline.plan_builder import PlanBuilder
from planner.reduction.restriction import IndexArray, original_choice, restricted
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.planner.enumeration import Enumeration
from tests.planner.lowering_of import lowered_on
from topology.cluster import Cluster
from topology.mesh import tier_mesh

Bar = Callable[[str, ShardingRule, Assignment], bool]
"""Whether an assignment of the operator of this name and rule is barred."""


@dataclass(frozen=True)
class Answer:
    """A solved case."""

    lowered: Lowered
    choice: tuple[int, ...]
    operators: Mapping[str, PlannedOperator]
    tensors: Mapping[str, PlannedTensor]
    collectives: tuple[PlannedCollective, ...]
    """Without those of single numbers, such as the loss."""

    @property
    def units(self) -> float:
        """Communication of a step in the cost of the cases."""
        return sum(c.time_s for c in self.collectives) * 1e9

    def kinds(self, *, gradients: bool = False) -> list[str]:
        """Kinds of the collectives, without or with those that sync gradients."""
        return sorted(
            c.kind for c in self.collectives if gradients or c.cause != Cause.GRADIENT_SYNC
        )

    def gathered_twice(self) -> set[str]:
        """Parameters that the backward pass reads: sharded at rest they cost a gather more than
        whole ones, the others, biases and weights of a first layer, the same.
        """
        liveness = self.lowered.liveness
        return {
            t.name
            for t in liveness.graph.parameters
            for op in liveness.graph.ops
            if t.name in op.inputs and liveness.is_read_back(op, t.name)
        }

    def at_rest(self, name: str) -> str:
        return str(self.tensors[name].layout)

    def operands(self, name: str) -> list[str]:
        return [str(layout) for layout in self.operators[f"op_{name}"].inputs]


EVEN = replace(FREE, max_waste=0.0)


def solved(
    graph: OpGraph,
    cluster: Cluster,
    bar: Bar | None = None,
    *,
    inputs: str | tuple[tuple[int, ...], ...] = "full_batch",
    training: bool = True,
    optimizer: Optimizer = Optimizer.SGD,
    limit_bytes: float = float("inf"),
    rest: Mapping[str, Layout] | None = None,
) -> Answer:
    """The optimum on the mesh of the machine's tiers, uneven shards barred."""
    request = SearchRequest(
        training=training, optimizer=optimizer, dataset_strategy=inputs, target="generic"
    )
    lowered = lowered_on(graph, cluster, tier_mesh(cluster), request, dialect=EVEN)
    allowed = _allowed(lowered, {**_unbarred(lowered, bar), **_resting(lowered, rest or {})})
    problem = replace(restricted(lowered.problem, allowed), memory_limit_bytes=limit_bytes)
    name = "dynamic_programming" if limit_bytes == float("inf") else "portfolio"
    found = solver_by_name(name).solve(problem, Budget())
    assert found.choice is not None
    assert found.is_answer
    choice = original_choice(allowed, found.choice)
    evidence = PlanBuilder(lowered, choice)
    return Answer(
        lowered,
        choice,
        {op.name: op for op in evidence.operators()},
        {t.name: t for t in evidence.tensors()},
        tuple(c for c in evidence.collectives() if c.nbytes > 8 and c.group_size > 1),
    )


def _allowed(lowered: Lowered, some: Mapping[int, Sequence[int]]) -> list[IndexArray]:
    sizes = enumerate(lowered.problem.sizes)
    return [np.array(some.get(i, range(size)), dtype=np.intp) for i, size in sizes]


def pinned_costs(
    lowered: Lowered, names: Sequence[str]
) -> list[tuple[float, tuple[tuple[int, ...], ...]]]:
    """For all assignments of some operators together: the least cost, and the pieces of operands.

    The best of everything else is found by enumeration. Cheapest first.
    """
    nodes = [next(i for i, n in enumerate(lowered.nodes) if n.name == name) for name in names]
    sizes = [range(lowered.problem.sizes[i]) for i in nodes]
    out: list[tuple[float, tuple[tuple[int, ...], ...]]] = []
    for choice in itertools.product(*sizes):
        allowed = _allowed(lowered, {i: [c] for i, c in zip(nodes, choice, strict=True)})
        cost = Enumeration(restricted(lowered.problem, allowed), fold=True).run()
        cuts = [pieces(lowered, i, c) for i, c in zip(nodes, choice, strict=True)]
        out.append((cost, tuple(c for each in cuts for c in each)))
    return sorted(out)


def pieces(lowered: Lowered, node: int, candidate: int) -> tuple[tuple[int, ...], ...]:
    """Cut counts of every operand, MindSpore's notation of a strategy."""
    found = lowered.nodes[node].candidates
    assert found is not None
    ports = (p for p in found.operands if p is not None)
    sizes = lowered.setting.mesh.sizes
    return tuple(p.states[p.of[candidate]].forward.shards(sizes) for p in ports)


def _unbarred(lowered: Lowered, bar: Bar | None) -> dict[int, list[int]]:
    if bar is None:
        return {}
    graph = lowered.liveness.graph
    ops = {op.name: op for op in graph.ops}
    out: dict[int, list[int]] = {}
    for index, node in enumerate(lowered.nodes):
        if node.candidates is None:
            continue
        rule = lookup(ops[node.name].kind).rule(OpView(ops[node.name], graph))
        found = enumerate(node.candidates.assignments)
        out[index] = [i for i, a in found if not bar(node.name, rule, a)]
        assert out[index], f"nothing is left of {node.name}"
    return out


def _resting(lowered: Lowered, rest: Mapping[str, Layout]) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for index, node in enumerate(lowered.nodes):
        if node.layouts is not None and node.name in rest:
            wanted = rest[node.name]
            found = enumerate(node.layouts.of)
            out[index] = [i for i, s in found if node.layouts.states[s].forward == wanted]
    return out


def axis_of_one_dimension(_: str, rule: ShardingRule, assignment: Assignment) -> bool:
    """Bars a dimension split over two axes, which XLA does not offer on a mesh of two."""
    split = [f for f in assignment if f >= 0]
    return len(set(split)) < len(split)


def batch_on(axis: int) -> Bar:
    """Bars what does not split the first dimension over this axis alone, as Alpa does in 2-D."""

    def bar(_: str, rule: ShardingRule, assignment: Assignment) -> bool:
        maps = [m for m in (*rule.results, *rule.operands) if m]
        batch = maps[0][0][0] if maps and maps[0][0] else None
        splits = enumerate(assignment) if batch is not None else ()
        return any((f == batch) != (a == axis) for a, f in splits)

    return bar


def whole(*sizes: int) -> Bar:
    """Bars a split of factors of these sizes."""
    return lambda _, rule, assignment: any(f >= 0 and rule.sizes[f] in sizes for f in assignment)
