"""The whole network as one piece of a stage, with prices on what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ir.plan_enums import MemoryCause
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.pipeline.chain import FloatArray
from planner.pipeline.prices import kept_pairs, least_updates_s, piece_times
from planner.pipeline.search_state import PipelineSearch
from planner.problem import EdgeTable, NodeTable, Problem, Tables, tables_of
from planner.solvers.bounding_sums import bounding_sums

WHOLE = frozenset({"auto", "full"})
"""Requests by which blocks are computed again."""


class Price(NamedTuple):
    """Seconds per byte."""

    parameters: float
    """With their gradients and states."""
    activations: float
    """Of one micro-batch."""
    limit: float
    """Of all parts together, for a byte of the limit."""


class PieceBytes(NamedTuple):
    """Bytes on a device of a stage that has the whole network."""

    parameters: float
    """With their gradients and states."""
    activations: float
    """Of one micro-batch, as far as they have a price."""


@dataclass(frozen=True, slots=True)
class WholeNetwork:
    """The network as one piece, and if layers repeat with one period less beside it."""

    task: PipelineSearch
    lowered: Lowered
    """The sum that bounds it."""
    spare: int
    """Periods that stand there no more."""
    free_s: float
    """Seconds of a micro-batch at least, memory left aside."""
    held: PieceBytes
    """What is held at that."""
    overlapped: Problem
    """The problem that the sum bounds."""
    edges: Tables[EdgeTable]
    """Of the sum at any price: nothing on them is computed again."""

    @classmethod
    def of(cls, task: PipelineSearch, lowered: Lowered, spare: int, pieces: int) -> WholeNetwork:
        """The sum that bounds most of those that no plan undercuts.

        Args:
            task: what is asked.
            lowered: pieces of the network.
            spare: periods that stand there no more.
            pieces: number of them.
        """
        found: list[WholeNetwork] = []

        def least(sums: Problem) -> tuple[int, ...]:
            own = replace(lowered, problem=sums)
            edges = kept_edges(own)
            free_s, choice = _least(task, own, edges, Price(0.0, 0.0, 0.0), spare)
            by_piece = bytes_of_pieces(own, choice)
            pairs = zip(by_piece[0], by_piece[pieces - 1], strict=True)
            held = PieceBytes(*(a + spare * (a - b) for a, b in pairs))
            found.append(cls(task, own, spare, free_s, held, lowered.problem, edges))
            return choice

        for _ in bounding_sums(lowered.problem, least):
            pass
        return max(found, key=lambda own: own.free_s)

    @property
    def updates_s(self) -> float:
        """Seconds in which all parameters are updated at least, once in a step."""
        pieces = 1 + max(node.stage for node in self.lowered.nodes)
        own = least_updates_s(self.lowered, pieces)
        return float(own[0] + self.spare * (own[0] - own[-1]))

    def least_s(self, price: Price) -> float:
        """Seconds of a micro-batch at least, with what is paid for its memory."""
        return _least(self.task, self.lowered, self.edges, price, self.spare)[0]


def _least(
    task: PipelineSearch, lowered: Lowered, edges: Tables[EdgeTable], price: Price, spare: int
) -> tuple[float, tuple[int, ...]]:
    """Seconds of a micro-batch at a price at least, and the candidates, none that computes again.

    Args:
        task: what is asked.
        lowered: pieces of the network; one with a period less stands last.
        edges: as `kept_edges` gives them.
        price: of memory.
        spare: periods that stand there no more.
    """
    problem = priced_whole(lowered, edges, price, task.request.recompute)
    found = task.solve(problem)
    choice = found.choice or ()
    pieces = 1 + max(node.stage for node in lowered.nodes)
    times = piece_times(replace(lowered, problem=problem), choice, pieces)
    slack_s = max(found.cost_s - found.bound_s, 0.0) * (1 + spare)
    kept = tuple(
        int(node.columns.kept[candidate]) if node.recomputes else candidate
        for node, candidate in zip(lowered.nodes, choice, strict=True)
    )
    return float(times[0] + spare * (times[0] - times[-1])) - slack_s, kept


def priced_whole(
    lowered: Lowered, edges: Tables[EdgeTable], price: Price, recompute: str
) -> Problem:
    """The problem with prices on what is kept, without a limit.

    Args:
        lowered: pieces of the network, each operator offered to be computed again or not.
        edges: as `kept_edges` gives them.
        price: of memory.
        recompute: what may be computed again, as the request says it.
    """
    problem, nodes = lowered.problem, lowered.nodes
    again = [bool(node.recomputes) for node in nodes]

    def node_table(number: int) -> NodeTable:
        own = problem.node_tables[problem.node_table_of[number]]
        return _priced(nodes[number], own, price, recompute)

    own = tables_of(zip(problem.node_table_of, again, strict=True), node_table)
    return problem.without_memory(own, edges)


def kept_edges(lowered: Lowered) -> Tables[EdgeTable]:
    """Tables of the edges between candidates of which none is computed again."""
    problem, nodes = lowered.problem, lowered.nodes

    def edge_table(number: int) -> EdgeTable:
        time_s = problem.edge_tables[problem.edge_table_of[number]].time_s
        source, target = problem.edges[number]
        return EdgeTable(kept_pairs(time_s, nodes[source], nodes[target]))

    ends = ((bool(nodes[u].recomputes), bool(nodes[v].recomputes)) for u, v in problem.edges)
    return tables_of(zip(problem.edge_table_of, ends, strict=True), edge_table)


def bytes_of_pieces(lowered: Lowered, choice: Sequence[int]) -> dict[int, PieceBytes]:
    """What each piece holds that has a price, by its number.

    Args:
        lowered: as for `priced_whole`.
        choice: in which nothing is computed again.
    """
    found: dict[int, PieceBytes] = {}
    tables = (lowered.problem.node_tables[table] for table in lowered.problem.node_table_of)
    for node, own, chosen in zip(lowered.nodes, tables, choice, strict=True):
        piece = node.stage
        parameters, activations = found.get(piece, PieceBytes(0.0, 0.0))
        amount = float(sum(vector[chosen] for vector in _with_price(node, own)))
        if node.kind is NodeKind.PARAMETER:
            parameters += amount
        else:
            activations += amount
        found[piece] = PieceBytes(parameters, activations)
    return found


def _with_price(node: Node, own: NodeTable) -> list[FloatArray]:
    """What stands at the turn: all of a parameter, what an operator saves."""
    if node.kind is NodeKind.PARAMETER:
        return list(own.memory_bytes)
    if node.candidates is None:
        return []
    held = zip(node.memory_causes, own.memory_bytes, strict=True)
    return [nbytes for cause, nbytes in held if cause == MemoryCause.ACTIVATIONS]


def _priced(node: Node, own: NodeTable, price: Price, recompute: str) -> NodeTable:
    cost = own.time_s
    held = _with_price(node, own)
    if held and node.kind is NodeKind.PARAMETER:
        cost = cost + price.parameters * np.sum(held, axis=0)
    elif held:
        paid = price.activations * np.sum(held, axis=0)
        if recompute in WHOLE:
            paid = np.minimum(paid, _forward_s(node))
        cost = cost + paid
    if not node.recomputes:
        return NodeTable(cost, axes=own.axes)
    kept, again = node.columns.kept, node.columns.recomputing
    axes = None if own.axes is None else own.axes[kept]
    return NodeTable(np.minimum(cost[kept], cost[again]), axes=axes)


def _forward_s(node: Node) -> FloatArray:
    """Seconds of the forward pass of an operator for each of its candidates."""
    if node.candidates is None:
        raise TypeError(f"{node.name} is no operator")
    return np.asarray(node.candidates.forward_s[node.columns.assignment], dtype=np.float64)
