"""A plan without some of its operators, whose readers read those that stand for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from executors.shrinking.stages import with_operators
from ir.graph import Op, OpGraph
from ir.plan import Plan, PlannedCollective


def ends_of(graph: OpGraph) -> set[str]:
    """Operators whose results nobody reads: losses and delivered outputs."""
    read = {n for op in graph.ops for n in op.inputs} | set(graph.outputs)
    return {op.name for op in graph.ops if not read & {n for n in op.outputs if n}}


def rewired(plan: Plan, instead: Mapping[str, str]) -> Plan:
    """The plan without operators for which others stand.

    An end of the graph that would stand twice behind one tensor goes, and so does whatever nobody
    reads any more.

    Args:
        plan: the plan.
        instead: for operators that go, by name, the one whose results stand for theirs.
    """
    graph = plan.graph
    ops = {op.name: op for op in graph.ops}
    alias = {
        name: other
        for gone, kept in instead.items()
        for name, other in zip(ops[gone].outputs, ops[kept].outputs, strict=True)
        if name
    }
    ends = ends_of(graph)
    known = {(op.kind, op.inputs) for op in graph.ops if op.name in ends}
    rest: list[Op] = []
    for op in graph.ops:
        if op.name in instead:
            continue
        moved = _renamed(op, alias)
        if moved == op or (op.kind, moved.inputs) not in known or op.name not in ends:
            rest.append(moved)
    outputs = tuple(dict.fromkeys(alias.get(n, n) for n in graph.outputs))
    left = _living(replace(graph, ops=tuple(rest), outputs=outputs), ends)
    return _with_graph(plan, left, alias)


def _renamed(op: Op, alias: Mapping[str, str]) -> Op:
    return replace(
        op,
        inputs=tuple(alias.get(n, n) for n in op.inputs),
        parts=tuple(_renamed(part, alias) for part in op.parts),
    )


def _living(graph: OpGraph, ends: set[str]) -> OpGraph:
    """Without operators and inputs that nobody reads any more."""
    while True:
        dead = ends_of(graph) - ends
        if not dead:
            break
        graph = replace(graph, ops=tuple(op for op in graph.ops if op.name not in dead))
    read = {n for op in graph.ops for n in op.inputs} | set(graph.outputs)
    inputs = tuple(n for n in graph.inputs if n in read)
    return replace(graph, inputs=inputs).with_ops(graph.ops)


def _with_graph(plan: Plan, graph: OpGraph, alias: Mapping[str, str]) -> Plan:
    """What a plan says of the operators and tensors that are left."""
    names = {op.name for op in graph.ops}
    tensors = graph.tensors.keys()
    operators = tuple(op for op in plan.operators if op.name in names)
    return replace(
        plan,
        graph=graph,
        pipeline=with_operators(plan.pipeline, operators, graph, alias),
        operators=operators,
        tensors=tuple(t for t in plan.tensors if t.name in tensors),
        recomputed=tuple(n for n in plan.recomputed if n in tensors),
        collectives=tuple(_left(plan.collectives, names, tensors, alias)),
    )


def _left(
    items: Sequence[PlannedCollective],
    operators: Collection[str],
    tensors: Collection[str],
    alias: Mapping[str, str],
) -> list[PlannedCollective]:
    """Messages of operators and tensors that are left, by the names that these have now."""
    out = []
    for item in items:
        name = alias.get(item.tensor, item.tensor) if item.operator else item.tensor
        if item.operator and item.operator not in operators:
            continue
        if name and name not in tensors:
            continue
        out.append(item if name == item.tensor else replace(item, tensor=name))
    return out
