"""Bounds of shapes that are not priced: what the whole network takes at least on one stage.

Where memory has a price, every part s of the machine keeps, while it turns from forward to
backward, its parameters with their gradients and states, and the activations of at least f_s
micro-batches. For prices z_s >= 0

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
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from costmodel.schedules.closed_form import even_step_s
from costmodel.schedules.in_flight import in_flight_counts
from ir.plan_enums import MemoryCause
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.lowering.pieces import pieces_of
from planner.pipeline.bounds.configurations import entry_s
from planner.pipeline.chain import FloatArray
from planner.pipeline.prices import kept_pairs, piece_times
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration, moments_of
from planner.problem import EdgeTable, NodeTable, Problem, tables_of
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster

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


class PieceBytes(NamedTuple):
    """Bytes on a device of a stage that has the whole network."""

    parameters: float
    """With their gradients and states."""
    activations: float
    """Of one micro-batch, as far as they have a price."""


def kept(shape: Configuration) -> tuple[float, ...]:
    """Micro-batches whose activations each part of the machine keeps at least, however its chunks
    share the network: those of the chunk that has fewest in flight, at the moment when that is
    most. A part that has all its activations in the chunk with the least maximum keeps no more.

    >>> kept(Configuration(4, 1, 3)), kept(Configuration(2, 1, 8, 2))
    ((3.0, 3.0, 2.0, 1.0), (2.0, 1.0))
    """
    parts = (in_flight_counts(moments_of(shape, part)) for part in range(shape.stages))
    return tuple(float(max(map(min, every))) for every in parts)


def least_kept(shapes: Sequence[Configuration]) -> tuple[float, ...]:
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
    held: PieceBytes,
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
    problem, nodes = lowered.problem, lowered.nodes
    again = [bool(node.recomputes) for node in nodes]

    def node_table(number: int) -> NodeTable:
        own = problem.node_tables[problem.node_table_of[number]]
        return _priced(nodes[number], own, price, recompute)

    def edge_table(number: int) -> EdgeTable:
        time_s = problem.edge_tables[problem.edge_table_of[number]].time_s
        source, target = problem.edges[number]
        return EdgeTable(kept_pairs(time_s, nodes[source], nodes[target]))

    ends = ((again[source], again[target]) for source, target in problem.edges)
    return problem.without_memory(
        tables_of(zip(problem.node_table_of, again, strict=True), node_table),
        tables_of(zip(problem.edge_table_of, ends, strict=True), edge_table),
    )


def bytes_of_pieces(lowered: Lowered, choice: Sequence[int]) -> dict[int, PieceBytes]:
    """What each piece holds that has a price, by its number.

    Args:
        lowered: as for `priced_whole`.
        choice: of the problem that it makes; nothing is computed again.
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


class _Total(NamedTuple):
    """Seconds of the whole network in one place, at least."""

    shared_s: float
    """With the share in a micro-batch of what happens once in a step."""
    steady_s: float
    """Without it."""

    def times(self, factor: float) -> _Total:
        return _Total(self.shared_s * factor, self.steady_s * factor)


@dataclass(slots=True)
class NetworkBounds:
    """Bounds that get better the more is known."""

    task: PipelineSearch
    work: int = 0
    """Candidates in the problems solved."""
    _sample_s: _Total | None = None
    _totals: dict[int, dict[int, _Total]] = field(default_factory=dict)
    """By number of stages and size of micro-batch the seconds of the whole network on a stage."""
    _sends: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    """The same of the cheapest cuts together, by how many there are."""
    _tight: dict[tuple[int, int], float] = field(default_factory=dict)
    """By stages and size of micro-batch what the network takes on them within the memory."""

    def of(self, shape: Configuration) -> float:
        """Seconds that a step takes at least: that of all computation divided by all devices, or of
        the whole network with its communication, as far as that is known for this number of stages.

        A sample takes no less in a small micro-batch than in a larger one. Memory is what the
        small one saves, so what it adds to the time holds for one size alone.
        """
        factor = shape.micro_batch * shape.stages / self.task.cluster.devices
        totals = [self._sample().times(factor)]
        for size, known in self._totals.get(shape.stages, {}).items():
            if size >= shape.micro_batch:
                totals.append(known.times(shape.micro_batch / size))
        tight_s = self._tight.get((shape.stages, shape.micro_batch), 0.0)
        sends_s = self._sends_s(shape)
        shared_s = max(tight_s, *(total.shared_s for total in totals))
        steady_s = max(total.steady_s for total in totals)
        return even_step_s(shared_s + sends_s, steady_s + sends_s, shape)

    def of_unequal(self, micro_batch: int, micro_batches: int, largest: int) -> float:
        """The same of stages that differ in their devices, none of which has more than so many."""
        sample, devices = self._sample().times(micro_batch), self.task.cluster.devices
        even_s = micro_batches * sample.shared_s / devices
        # As for equal stages, but of all stages behind the first one as if they were the second.
        behind = (devices - largest) * (1 - 1 / micro_batches)
        return max(even_s, micro_batches * sample.steady_s / (largest + behind))

    def _sends_s(self, shape: Configuration) -> float:
        """Seconds in which a micro-batch crosses as many cuts as there must be."""
        key = shape.stages, shape.micro_batch
        if key not in self._sends:
            mesh = self.task.stage_machine(shape)[1]
            each = entry_s(self.task, self.task.micro(shape.micro_batch), mesh)
            self._sends[key] = np.cumsum([0.0, *np.sort(each[1:])])
        return float(self._sends[key][shape.pieces - 1])

    def is_refined(self, shape: Configuration) -> bool:
        """Whether `refine` can do nothing more for a shape."""
        return shape.micro_batch in self._totals.get(shape.stages, {})

    def refine(self, shapes: Sequence[Configuration]) -> None:
        """Work out the whole network on one stage of shapes that differ in their chunks alone,
        memory left aside and within it.
        """
        shape = shapes[0]
        cluster, mesh = self.task.stage_machine(shape)
        whole, steady = self._wholes(shape, cluster, mesh)
        total_s, held = whole.free()
        total = _Total(total_s, steady.free()[0])
        self._totals.setdefault(shape.stages, {})[shape.micro_batch] = total
        self.work += sum(whole.lowered.problem.sizes)
        limit = self.task.limit_bytes
        if 0 < limit < math.inf and total_s > 0:

            def within_s(price: Price) -> float:
                self.work += sum(whole.lowered.problem.sizes)
                return whole.least_s(price) - price.limit * limit

            unit = total_s / (limit * shape.stages)
            tight_s = best_bound(within_s, least_kept(shapes), unit, held, limit)
            self._tight[shape.stages, shape.micro_batch] = tight_s

    def _sample(self) -> _Total:
        """Seconds of one sample on one device, in the whole batch."""
        if self._sample_s is None:
            one = stage_cluster(self.task.cluster, 1)
            self._sample_s = _Total(0.0, 0.0)
            if one is not None:
                shape, mesh = Configuration(1, self.task.batch, 1), self.task.dialect.meshes(one)[0]
                found = _Total(*(each.free()[0] for each in self._wholes(shape, one, mesh)))
                self._sample_s = found.times(1 / self.task.batch)
        return self._sample_s

    def _wholes(
        self, shape: Configuration, cluster: Cluster, mesh: Mesh
    ) -> tuple[_WholeNetwork, _WholeNetwork]:
        """The whole network as one piece, and without what happens once in a step; on a stage of
        several equal layers stand there once. What they take by the best layouts of few of them
        may be more than with layouts that pay only for many: one stage has all.
        """
        micro = self.task.micro(shape.micro_batch)
        segments = micro.segments
        every = (0, segments.count)
        is_whole = shape.stages == 1 and cluster.devices > 1
        spare = 0 if is_whole else segments.shortened(every)[1]
        taken_out = (spare, spare + 1) if spare else (0,)
        again = is_whole and self.task.request.recompute == "full"
        spans = [segments.span(every, out, again=again) for out in taken_out]
        pieces = pieces_of(micro.liveness, micro.by_position, spans)
        setting = replace(
            self.task.setting(micro, cluster, mesh, shape.micro_batches),
            in_flight=(1,) * len(spans),
            recompute=self.task.request.recompute in SELECTIVE,
        )
        shared = self.task.lowered(pieces, setting, micro)
        steady = self.task.lowered(pieces, replace(setting, steady=True), micro, shared.basis)
        counts = spare, len(spans)
        least = (replace(own, problem=own.problem.with_all_hidden()) for own in (shared, steady))
        first, second = (_WholeNetwork(self.task, own, *counts) for own in least)
        return first, second


@dataclass(frozen=True, slots=True)
class _WholeNetwork:
    """The network as one piece, and if layers repeat with one period less beside it."""

    task: PipelineSearch
    lowered: Lowered
    spare: int
    """Periods that stand there no more."""
    pieces: int

    def free(self) -> tuple[float, PieceBytes]:
        """Seconds of a micro-batch at least, memory left aside, and what then is held."""
        free_s, choice = self._least(Price(0.0, 0.0, 0.0))
        by_piece = bytes_of_pieces(self.lowered, choice)
        longer, shorter = by_piece[0], by_piece[self.pieces - 1]
        pairs = zip(longer, shorter, strict=True)
        return free_s, PieceBytes(*(a + self.spare * (a - b) for a, b in pairs))

    def least_s(self, price: Price) -> float:
        """Seconds of a micro-batch at least, with what is paid for its memory."""
        return self._least(price)[0]

    def _least(self, price: Price) -> tuple[float, tuple[int, ...]]:
        problem = priced_whole(self.lowered, price, self.task.request.recompute)
        found = self.task.solve(problem)
        choice = found.choice or ()
        times = piece_times(replace(self.lowered, problem=problem), choice, self.pieces)
        slack_s = max(found.cost_s - found.bound_s, 0.0) * (1 + self.spare)
        return float(times[0] + self.spare * (times[0] - times[-1])) - slack_s, choice
