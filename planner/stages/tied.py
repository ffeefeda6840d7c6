"""Parameters that several stages hold, laid out alike in all of them where the target wants that.

MindSpore keeps one layout of a parameter: it refuses operators that read it in different ones. So
an edge joins the copies of a parameter, and what differs is forbidden along it. It is the only
thing that pieces have in common, and leaving it out, as bounds do, never takes longer.

Source: MindSpore 2.7.0, `step_parallel.cc`, CheckParameterSplit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from costmodel.redistribution import UNREACHABLE_S, Shardable
from planner.edges import EdgeKind
from planner.lowered import Edge, Lowered, NodeKind
from planner.ports import Port
from planner.problem import EdgeTable, FloatArray
from planner.stages.pieces import plain_name

TIED_NOTE = (
    "what several stages hold of the parameters lies alike in all of them, in the whole space"
)
"""For the reader of a plan."""


def lies_alike(lowered: Lowered) -> bool:
    """Whether the target wants a parameter of several stages laid out alike in all of them."""
    return lowered.setting.dialect.cut_counts


def tied_pairs(lowered: Lowered) -> tuple[tuple[int, int], ...]:
    """Nodes of one parameter in two pieces that have to choose the same; none if the target lets
    every stage lay it out as it likes.
    """
    if not lies_alike(lowered):
        return ()
    holders: dict[str, list[int]] = {}
    for number, node in enumerate(lowered.nodes):
        if node.kind is NodeKind.PARAMETER:
            holders.setdefault(plain_name(node.name), []).append(number)
    return tuple(pair for own in holders.values() for pair in pairwise(own))


def with_tied(lowered: Lowered) -> Lowered:
    """The problem of pieces side by side in which each parameter is laid out in one way."""
    pairs = tied_pairs(lowered)
    if not pairs:
        return lowered
    problem, edges = lowered.problem, tuple(_edge(lowered, pair) for pair in pairs)
    tables = tuple(EdgeTable(_unlike_s(edge.source_port, edge.target_port)) for edge in edges)
    first = len(problem.edge_tables)
    problem = replace(
        problem,
        edges=(*problem.edges, *pairs),
        edge_tables=(*problem.edge_tables, *tables),
        edge_table_of=(*problem.edge_table_of, *range(first, first + len(tables))),
        edge_intervals=(*problem.edge_intervals, *((),) * len(pairs)),
    )
    return replace(lowered, problem=problem, edges=(*lowered.edges, *edges))


def common_layouts(lowered: Lowered, choice: Sequence[int]) -> tuple[object, ...]:
    """In what each parameter of several pieces is laid out: choices may be mixed, piece by piece,
    if they agree in these.
    """
    edges = (_edge(lowered, pair) for pair in tied_pairs(lowered))
    return tuple(e.source_port.states[e.source_port.of[choice[e.source]]] for e in edges)


def _edge(lowered: Lowered, pair: tuple[int, int]) -> Edge:
    """Nothing flows along it."""
    source, target = (lowered.nodes[number] for number in pair)
    if source.port is None or target.port is None:
        raise TypeError(f"{source.name} has no layouts")
    tensor = lowered.liveness.graph.tensors[source.name]
    kind = EdgeKind(Shardable(tensor.dims, tensor.dtype), gradient=False)
    return Edge(source.name, *pair, kind, source.port, target.port, -1)


def _unlike_s(source: Port, target: Port) -> FloatArray:
    """0 where two candidates lay a parameter out alike, in what is forbidden otherwise."""
    number = {state: index for index, state in enumerate(source.states)}
    other = np.array([number.get(state, -1) for state in target.states], dtype=np.intp)
    return np.where(source.of[:, None] == other[target.of], 0.0, UNREACHABLE_S)
