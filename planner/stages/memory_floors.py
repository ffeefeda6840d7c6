"""What the whole network takes at least on one stage's mesh where memory has a price.

Every part s of the machine keeps, while it turns from forward to backward, its parameters with
their gradients and states, and the activations of at least f_s micro-batches. For prices z_s >= 0

    sum t_s >= sum (t_s + z_s (memory_s - limit)),

and what is on the right is at least the whole network with every byte of a parameter at the least
z_s and every byte of an activation at the least z_s f_s, less the limit at all prices. The network
is free to be cut anywhere, an operator may be computed again for the time of its forward pass
alone, and copies and buffers are left out: all of that takes less than what a plan may do.

Source: weak duality (Geoffrion, "Lagrangean Relaxation for Integer Programming", 1974).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from costmodel.simulation.on_the_way import on_the_way
from planner.lowered import Lowered, Node, NodeKind
from planner.problem import EdgeTable, NodeTable, Problem
from planner.stages.chain import FloatArray
from planner.stages.menu import Shape, moments_of
from planner.stages.pieces import piece_of_name

FIRST, FACTOR, HIGHEST = 0.1, 3.0, 30.0
"""The first price in units of the time of the whole by the memory of all parts, by how much the
next one differs, and where it ends: what fits at no price has a bound that rises with it."""
SELECTIVE, WHOLE = frozenset({"auto", "selective"}), frozenset({"auto", "full"})
"""Requests by which single operators and blocks are computed again."""


class Price(NamedTuple):
    """Seconds per byte."""

    parameters: float
    """With their gradients and states."""
    activations: float
    """Of one micro-batch."""
    limit: float
    """Of all parts together, for a byte of the limit."""


class Held(NamedTuple):
    """Bytes on a device of a stage that has the whole network."""

    parameters: float
    """With their gradients and states."""
    activations: float
    """Of one micro-batch, as far as they have a price."""


def kept(shape: Shape) -> tuple[float, ...]:
    """Micro-batches whose activations each part of the machine keeps at least, however its chunks
    share the network: those of the chunk that has fewest on the way, at the moment when that is
    most. A part that has all its activations in the chunk with the least maximum keeps no more.

    >>> kept(Shape(4, 1, 3)), kept(Shape(2, 1, 8, 2))
    ((3.0, 3.0, 2.0, 1.0), (2.0, 1.0))
    """
    parts = (on_the_way(moments_of(shape, part)) for part in range(shape.stages))
    return tuple(float(max(map(min, every))) for every in parts)


def least_kept(shapes: Sequence[Shape]) -> tuple[float, ...]:
    """The same of shapes that differ in their chunks alone."""
    return tuple(min(each) for each in zip(*map(kept, shapes), strict=True))


def prices(in_parts: Sequence[float], unit: float) -> tuple[Price, ...]:
    """The same price on every part, and one that falls with the micro-batches that it keeps.

    Args:
        in_parts: micro-batches that each part of the machine keeps.
        unit: the highest price of a part, in seconds per byte.
    """
    least, most = min(in_parts), max(in_parts)
    even = Price(unit, unit * least, unit * len(in_parts))
    falling = Price(
        unit * least / most, unit * least, unit * sum(least / each for each in in_parts)
    )
    return (even,) if most == least else (even, falling)


def best_bound(
    total_s: Callable[[Price], float],
    in_parts: Sequence[float],
    unit: float,
    held: Held,
    limit_bytes: float,
) -> float:
    """The highest bound that some prices give, in seconds; 0 where memory is not short.

    Args:
        total_s: the bound at a price; concave.
        in_parts: micro-batches that each part of the machine keeps.
        unit: of prices, in seconds per byte.
        held: by the fastest layouts of the network. Where the right side of the bound does not rise
            from a price of 0, it never does.
        limit_bytes: memory of a device.
    """
    useful = [
        number
        for number, price in enumerate(prices(in_parts, 1.0))
        if held.parameters * price.parameters + held.activations * price.activations
        > limit_bytes * price.limit
    ]
    if not useful:
        return 0.0

    def at(price: float) -> float:
        offered = prices(in_parts, unit * price)
        return max(total_s(offered[number]) for number in useful)

    best = (at(FIRST), FIRST)
    for factor in (FACTOR, 1 / FACTOR):
        while best[1] < HIGHEST and best[0] < (found := at(best[1] * factor)):
            best = (found, best[1] * factor)
        if best[1] != FIRST:
            break
    return best[0]


def priced_whole(lowered: Lowered, price: Price, recompute: str) -> Problem:
    """The problem with prices on what is kept, without a limit.

    Args:
        lowered: pieces of the network, each operator offered to be computed again or not.
        price: of memory.
        recompute: what may be computed again, as the request says it.
    """
    problem = lowered.problem
    known: dict[tuple[int, bool], int] = {}
    tables: list[NodeTable] = []
    table_of: list[int] = []
    for node, table in zip(lowered.nodes, problem.node_table_of, strict=True):
        key = (table, bool(node.recomputes))
        if known.setdefault(key, len(tables)) == len(tables):
            tables.append(_priced(node, problem.node_tables[table], price, recompute))
        table_of.append(known[key])
    edges, edge_table_of = _cut_edges(problem, [len(t.time_s) for t in tables], table_of)
    return replace(
        problem,
        node_tables=tuple(tables),
        node_table_of=tuple(table_of),
        edge_tables=tuple(edges),
        edge_table_of=tuple(edge_table_of),
        node_intervals=((),) * len(table_of),
        edge_intervals=((),) * len(edge_table_of),
        memory_limit_bytes=math.inf,
    )


def held_by(lowered: Lowered, choice: Sequence[int]) -> dict[int, Held]:
    """What each piece holds that has a price, by its number.

    Args:
        lowered: as for `priced_whole`.
        choice: of the problem that it makes; nothing is computed again.
    """
    found: dict[int, Held] = {}
    tables = (lowered.problem.node_tables[table] for table in lowered.problem.node_table_of)
    for node, own, chosen in zip(lowered.nodes, tables, choice, strict=True):
        piece = piece_of_name(node.name)
        parameters, activations = found.get(piece, Held(0.0, 0.0))
        amount = float(sum(vector[chosen] for vector in _with_price(node, own)))
        if node.kind is NodeKind.PARAMETER:
            parameters += amount
        else:
            activations += amount
        found[piece] = Held(parameters, activations)
    return found


def _with_price(node: Node, own: NodeTable) -> list[FloatArray]:
    """What stands at the turn: all of a parameter, what an operator saves."""
    if node.kind is NodeKind.PARAMETER:
        return list(own.memory_bytes)
    if node.candidates is None:
        return []
    held = zip(node.memory_causes, own.memory_bytes, strict=True)
    return [nbytes for cause, nbytes in held if cause == "activations"]


def _priced(node: Node, own: NodeTable, price: Price, recompute: str) -> NodeTable:
    cost = own.time_s
    held = _with_price(node, own)
    if held and node.kind is NodeKind.PARAMETER:
        cost = cost + price.parameters * np.sum(held, axis=0)
    elif held:
        paid = price.activations * np.sum(held, axis=0)
        if recompute in WHOLE:
            paid = np.minimum(paid, _forward_s(node, len(cost)))
        cost = cost + paid
    if not node.recomputes:
        return NodeTable(cost, axes=own.axes)
    count = len(cost) // 2
    axes = None if own.axes is None else own.axes[:count]
    return NodeTable(np.minimum(cost[:count], cost[count:]), axes=axes)


def _forward_s(node: Node, count: int) -> FloatArray:
    """Seconds of the forward pass of an operator for each of its candidates."""
    if node.candidates is None:
        raise TypeError(f"{node.name} is no operator")
    times = np.asarray(node.candidates.forward_s, dtype=np.float64)
    return np.tile(times, count // len(times))


def _cut_edges(
    problem: Problem, sizes: Sequence[int], table_of: Sequence[int]
) -> tuple[list[EdgeTable], list[int]]:
    """Edges between as many candidates as there are; those computed again differ in nothing."""
    known: dict[tuple[int, int, int], int] = {}
    edges: list[EdgeTable] = []
    edge_table_of: list[int] = []
    for (source, target), table in zip(problem.edges, problem.edge_table_of, strict=True):
        key = (table, sizes[table_of[source]], sizes[table_of[target]])
        if known.setdefault(key, len(edges)) == len(edges):
            edges.append(EdgeTable(problem.edge_tables[table].time_s[: key[1], : key[2]]))
        edge_table_of.append(known[key])
    return edges, edge_table_of
