"""What intervals of a network cost as stages on one mesh with one size of micro-batch."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.plan_enums import MemoryCause
from planner.lowering.liveness import Interval, Liveness
from planner.lowering.lowered import Lowered, Node, NodeKind, Setting
from planner.lowering.pieces import Pieces, Span, wire_layout
from planner.pipeline.segments import Segments
from planner.problem import EdgeTable, FloatArray, NodeTable, Problem, tables_of, with_more

FloatTuple: TypeAlias = tuple[float, ...]

PRICES = (0.003, 8.0)
"""Where a price on memory lies, in units of the time of a micro-batch by the bytes of the model."""
PERSISTENT = (
    MemoryCause.WEIGHTS,
    MemoryCause.GRADIENTS,
    MemoryCause.OPTIMIZER_STATE,
    MemoryCause.ACTIVATIONS,
)
"""Causes of memory that stands while a stage turns from forward to backward."""


@dataclass(frozen=True, slots=True)
class PieceCosts:
    """What pieces cost under one choice, shape (pieces,) each."""

    time_s: FloatArray
    """Of one micro-batch, with its share of what happens once in a step."""
    peak_bytes: FloatArray
    """With one micro-batch in flight."""
    kept_bytes: FloatArray
    """More for every other one."""


def setting_of(template: Setting, pieces: Pieces) -> Setting:
    """The setting of some pieces; that of the network has the layouts of its own inputs."""
    graph, mesh = pieces.liveness.graph, template.mesh
    received = set(pieces.received)
    layouts = {
        name: wire_layout(graph.tensors[name], mesh)
        if name in received
        else template.input_layouts[pieces.liveness.origin(name).name]
        for name in graph.inputs
    }
    sent = {name: wire_layout(graph.tensors[name], mesh) for name in pieces.sent}
    return replace(template, input_layouts=layouts, sent=sent)


def piece_ranges(liveness: Liveness) -> dict[int, Interval]:
    """Positions of the operators of every piece by its number; a network as it is is one."""
    ops = liveness.graph.ops
    pieces = liveness.pieces or ((0, len(ops)),)
    return {liveness.origin(ops[start].name).stage: (start, end) for start, end in pieces}


def piece_times(lowered: Lowered, choice: Sequence[int], pieces: int) -> FloatArray:
    """Seconds of a micro-batch of every piece, by its number; shape (pieces,)."""
    problem = lowered.problem
    found = np.zeros(pieces)
    owner = [node.stage for node in lowered.nodes]
    if problem.overlap is not None:
        number = dict(zip(problem.overlap.piece_of_node, owner, strict=True))
        for own, seconds in enumerate(problem.overlap.pieces_s(problem.loads(choice)).tolist()):
            found[number[own]] = seconds
        return found
    for piece, table, chosen in zip(owner, problem.node_table_of, choice, strict=True):
        found[piece] += problem.node_tables[table].time_s[chosen]
    for (source, target), table in zip(problem.edges, problem.edge_table_of, strict=True):
        matrix = problem.edge_tables[table].time_s
        found[owner[source]] += matrix[choice[source], choice[target]]
    return found


def piece_costs(lowered: Lowered, choice: Sequence[int], pieces: int) -> PieceCosts:
    """Time and memory of every piece on devices of its own, by its number."""
    problem = lowered.problem
    kept = np.zeros(pieces)
    ranges = piece_ranges(lowered.liveness)
    owner = [node.stage for node in lowered.nodes]
    in_flight = dict(zip(ranges, lowered.setting.in_flight, strict=True))
    whole = {piece: (2 * start, 2 * end) for piece, (start, end) in ranges.items()}
    for node, (table, chosen) in enumerate(zip(problem.node_table_of, choice, strict=True)):
        own = problem.node_tables[table]
        piece = owner[node]
        if in_flight[piece] > 1:
            held = zip(lowered.nodes[node].memory_causes, own.memory_bytes, strict=True)
            saved = [vector for cause, vector in held if cause == MemoryCause.ACTIVATIONS]
            # Behind each of them stand those of other micro-batches.
            kept[piece] += sum(vector[chosen] for vector in saved[1::2])
    edges = zip(problem.edges, problem.edge_table_of, problem.edge_intervals, strict=True)
    for (source, target), table, spans in edges:
        piece, at = owner[source], (choice[source], choice[target])
        if in_flight[piece] > 1 and whole[piece] in spans[1:]:
            kept[piece] += problem.edge_tables[table].memory_bytes[1][at]
    profile = problem.memory_profile(choice)
    numbers = range(pieces)
    others = np.array([in_flight.get(n, 1) - 1 for n in numbers], dtype=np.float64)
    peak = np.array([profile[slice(*whole.get(n, (0, 0)))].max(initial=0.0) for n in numbers])
    each = np.divide(kept, others, out=np.zeros(pieces), where=others > 0)
    return PieceCosts(piece_times(lowered, choice, pieces), peak - kept, each)


@dataclass(frozen=True, slots=True)
class IntervalCosts:
    """What every interval of segments costs, shape (L, L + 1) each; infinite for j <= i."""

    time_s: FloatArray
    peak_bytes: FloatArray
    kept_bytes: FloatArray

    def most_in_flight(self, limit_bytes: float) -> FloatArray:
        """Micro-batches whose activations fit; below 1 if not even one does."""
        spare = limit_bytes - self.peak_bytes
        with np.errstate(invalid="ignore", divide="ignore"):
            more = np.where(self.kept_bytes > 0, spare / np.maximum(self.kept_bytes, 1.0), np.inf)
        return np.where(spare >= 0, more + 1, 0.0)

    def mixed(self, other: IntervalCosts, share: float) -> IntervalCosts:
        """A share of the layers as another choice has them."""
        with np.errstate(invalid="ignore"):
            pairs = (
                (self.time_s, other.time_s),
                (self.peak_bytes, other.peak_bytes),
                (self.kept_bytes, other.kept_bytes),
            )
            return IntervalCosts(*(a + share * np.where(np.isinf(a), 0.0, b - a) for a, b in pairs))


class IntervalPricer:
    """Prices all intervals of one network that may be stages, equal ones once."""

    def __init__(self, segments: Segments, counts: Sequence[int]) -> None:
        self.segments, self.counts = segments, counts
        self.spans: dict[tuple[tuple[int, int], int], int] = {}
        self.places = self.intervals()
        rows = [self._wanted(i, j) for i, j in self.places]
        self.wanted = np.array(rows, dtype=np.intp).reshape(-1, 3)

    def intervals(self) -> list[tuple[int, int]]:
        """Intervals that can be one of so many pieces."""
        count = self.segments.count
        pairs = itertools.combinations(range(count + 1), 2)
        return [(i, j) for i, j in pairs if self._is_one(i, j)]

    def _is_one(self, start: int, end: int) -> bool:
        others = (start > 0) + (end < self.segments.count)
        most = start + self.segments.count - end + 1
        return any(others < pieces <= most for pieces in self.counts)

    def _wanted(self, start: int, end: int) -> tuple[int, int, int]:
        """Numbers of the piece that stands for an interval, of the same with one period less, and
        how many periods lie between.
        """
        interval, spare = self.segments.shortened((start, end))
        out = spare if interval == (start, end) else 0
        longer = self.spans.setdefault((interval, out), len(self.spans))
        if not spare:
            return longer, longer, 0
        shorter = self.spans.setdefault((interval, out + 1), len(self.spans))
        return longer, shorter, spare

    def priced_spans(self, *, again: bool = False) -> list[Span]:
        """All that are to be priced, side by side; with blocks computed again or not."""
        return [self.segments.span(interval, out, again=again) for interval, out in self.spans]

    def costs(self, lowered: Lowered, choice: Sequence[int]) -> IntervalCosts:
        """Of all intervals, from those priced."""
        own = piece_costs(lowered, choice, len(self.spans))
        every = (own.time_s, own.peak_bytes, own.kept_bytes)
        return IntervalCosts(*map(self.table, every))

    def table(self, values: FloatArray) -> FloatArray:
        """What is known of the pieces priced for all intervals, shape (L, L + 1)."""
        count = self.segments.count
        places = np.array(self.places, dtype=np.intp).reshape(-1, 2)
        longer, shorter, spare = self.wanted.T
        found = np.full((count, count + 1), np.inf)
        found[places[:, 0], places[:, 1]] = values[longer] + spare * (
            values[longer] - values[shorter]
        )
        return found


@dataclass(frozen=True, slots=True)
class Priced:
    """A problem with a price on memory; whether to compute again is decided for each candidate."""

    problem: Problem
    halves: tuple[NDArray[np.intp] | None, ...]
    """By node, for each candidate what it is in the problem without a price; None if the same."""

    def original(self, choice: Sequence[int]) -> tuple[int, ...]:
        """The choice in the problem without a price."""
        pairs = zip(choice, self.halves, strict=True)
        return tuple(c if half is None else int(half[c]) for c, half in pairs)


def priced_memory(lowered: Lowered, prices: Sequence[float]) -> Priced:
    """The problem with a price on bytes that stand while a stage turns, without a limit.

    Args:
        lowered: the problem.
        prices: seconds per byte in each piece.
    """
    problem, shares = lowered.problem, _Shares(lowered.liveness)
    of_node = [prices[node.stage] for node in lowered.nodes]
    node_paid = list(map(shares.paid, of_node, problem.node_intervals))
    of_edge = (of_node[source] for source, _ in problem.edges)
    edge_paid = list(map(shares.paid, of_edge, problem.edge_intervals))
    better: list[NDArray[np.intp] | None] = []

    def node_table(number: int) -> NodeTable:
        own = problem.node_tables[problem.node_table_of[number]]
        made, candidates = _priced_node(lowered.nodes[number], own, node_paid[number])
        better.append(candidates)
        return made

    def edge_table(number: int) -> EdgeTable:
        matrix = problem.edge_tables[problem.edge_table_of[number]]
        held = zip(
            problem.edge_intervals[number], edge_paid[number], matrix.memory_bytes, strict=True
        )
        paid_s = _sum([paid * m for (a, b), paid, m in held if b - a > 1])
        source, target = (lowered.nodes[end] for end in problem.edges[number])
        made = with_more(matrix, paid_s)
        loads = made.loads
        if loads is not None:
            loads = np.stack([kept_pairs(own, source, target) for own in loads])
        return EdgeTable(kept_pairs(made.time_s, source, target), loads=loads)

    nodes = tables_of(zip(problem.node_table_of, node_paid, strict=True), node_table)
    edges = tables_of(zip(problem.edge_table_of, edge_paid, strict=True), edge_table)
    return Priced(problem.without_memory(nodes, edges), tuple(better[table] for table in nodes[1]))


class _Shares:
    """What is paid for memory that stands at some of the moments at which a part's pieces run."""

    def __init__(self, liveness: Liveness) -> None:
        self.liveness = liveness
        self.starts: list[int] = []
        for piece in range(len(liveness.pieces) if liveness.moments else 0):
            self.starts += [first for first, _ in liveness.moments_of(piece)]
        self.known: dict[tuple[float, tuple[Interval, ...]], FloatTuple] = {}

    def paid(self, price: float, spans: tuple[Interval, ...]) -> FloatTuple:
        """The price of each span by its share of the moments; of all if none are said."""
        if not self.starts or not spans:
            return (price,) * len(spans)
        found = self.known.get((price, spans))
        if found is None:
            piece = self._piece_at(spans[0][0])
            every = self._moments_in(*self.liveness.lifetime(self.liveness.pieces[piece][0]))
            found = tuple(price * self._moments_in(*span) / every for span in spans)
            self.known[price, spans] = found
        return found

    def _piece_at(self, point: int) -> int:
        return bisect_right(self.liveness.first_points, point) - 1

    def _moments_in(self, start: int, end: int) -> int:
        return bisect_left(self.starts, end) - bisect_right(self.starts, start) + 1


def _priced_node(
    node: Node, own: NodeTable, prices: FloatTuple
) -> tuple[NodeTable, NDArray[np.intp] | None]:
    """A table with a price on memory, one candidate for both choices of computing again."""
    held = zip(node.memory_causes, prices, own.memory_bytes, strict=True)
    paid = _sum([paid * v for cause, paid, v in held if cause in PERSISTENT])
    priced = with_more(replace(own, memory_bytes=()), paid)
    if not node.recomputes:
        return priced, None
    kept, again, cost = node.columns.kept, node.columns.recomputing, priced.time_s
    axes = None if own.axes is None else own.axes[kept]
    better = np.where(cost[again] < cost[kept], again, kept)
    loads = None if priced.loads is None else priced.loads[:, better]
    return NodeTable(cost[better], axes=axes, loads=loads), better


def least_updates_s(lowered: Lowered, pieces: int) -> FloatArray:
    """Seconds in which every piece updates its parameters at least, once in a step, by its number;
    shape (pieces,).
    """
    problem, found = lowered.problem, np.zeros(pieces)
    least_s = [float(table.time_s.min(initial=np.inf)) for table in problem.node_tables]
    for node, table in zip(lowered.nodes, problem.node_table_of, strict=True):
        if node.kind is NodeKind.PARAMETER:
            found[node.stage] += least_s[table] * lowered.setting.once_per
    return found


def kept_pairs(costs: FloatArray, source: Node, target: Node) -> FloatArray:
    """Of the costs of pairs of candidates those in which nothing is computed again."""
    if not (source.recomputes or target.recomputes):
        return costs
    return costs[np.ix_(source.columns.kept, target.columns.kept)]


def _sum(held: Sequence[FloatArray]) -> FloatArray | float:
    return np.sum(held, axis=0) if held else 0.0


def extrapolated(steady: Problem, shared: Problem, times: float) -> Problem:
    """A problem whose times lie so many times as far from one as those of another do.

    Args:
        steady: the one.
        shared: the other, of the same candidates.
        times: how far.
    """

    def beyond(low: FloatArray, high: FloatArray) -> FloatArray:
        return low + times * np.maximum(high - low, 0.0)

    node_pairs = list(zip(steady.node_table_of, shared.node_table_of, strict=True))
    edge_pairs = list(zip(steady.edge_table_of, shared.edge_table_of, strict=True))

    def node_table(number: int) -> NodeTable:
        low, high = node_pairs[number]
        own = steady.node_tables[low]
        return replace(own, time_s=beyond(own.time_s, shared.node_tables[high].time_s))

    def edge_table(number: int) -> EdgeTable:
        low, high = edge_pairs[number]
        own = steady.edge_tables[low]
        return replace(own, time_s=beyond(own.time_s, shared.edge_tables[high].time_s))

    return steady.with_tables(tables_of(node_pairs, node_table), tables_of(edge_pairs, edge_table))


def memory_unit(lowered: Lowered) -> float:
    """Least that the parameters of all pieces take: a unit for prices on memory, never 0."""
    problem = lowered.problem
    least = [sum(float(v.min()) for v in table.memory_bytes) for table in problem.node_tables]
    return max(sum(least[table] for table in problem.node_table_of), 1.0)
