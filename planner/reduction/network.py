"""A decision in flat arrays: the form in which very large problems are reduced and solved.

It says what `planner.problem.Problem` says, with one table per node and edge, one after the other
in a few long arrays, and memory in spans of time. Public instances of the problem load into it
unchanged (`planner.requests.instances`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.problem import profile_bytes

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

FORBIDDEN = 1e17
"""A cost from here on means that the pair, or the candidate, must not be chosen."""


def _nothing() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Choose one candidate per node: least cost, usage within the limit at every time point."""

    first: IntArray
    """Where the candidates of each node start in `cost`, shape (N + 1,)."""
    cost: FloatArray
    """Cost of every candidate, node by node."""
    edges: IntArray
    """Pairs of different nodes, shape (M, 2)."""
    edge_first: IntArray
    """Where the matrix of each edge starts in `edge_cost`, and the end, shape (M + 1,). Edges may
    share a matrix."""
    edge_cost: FloatArray
    """Cost of every pair, edge by edge, row-major: candidates of the first node are rows."""
    span_node: IntArray
    """Node that holds memory in each span, shape (S,)."""
    span_time: IntArray
    """Time points `[start, end)` of each span, shape (S, 2)."""
    span_first: IntArray
    """Where the usage of each span starts in `usage`, shape (S + 1,)."""
    usage: FloatArray
    """Memory of every candidate of the node during the span."""
    base: FloatArray
    """Memory in use at each time point whatever is chosen, shape (T,)."""
    limit: float
    """What no time point may exceed."""
    pair_edge: IntArray = field(default_factory=_nothing)
    """Edge whose pair of candidates holds memory in each span of pairs, shape (P,)."""
    pair_time: IntArray = field(default_factory=lambda: _nothing().reshape(0, 2))
    """Time points `[start, end)` of each span of pairs, shape (P, 2)."""
    pair_first: IntArray = field(default_factory=_nothing)
    """Where the matrix of each span of pairs starts in `pair_usage`; spans may share one."""
    pair_usage: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Memory of the pairs, row-major like the costs of the edge."""

    @property
    def nodes(self) -> int:
        return len(self.first) - 1

    @property
    def sizes(self) -> IntArray:
        """Candidates of each node, shape (N,)."""
        return np.diff(self.first)

    @property
    def pairs(self) -> int:
        """Pairs of candidates of all edges."""
        return int((self.sizes[self.edges[:, 0]] * self.sizes[self.edges[:, 1]]).sum())

    @property
    def time_points(self) -> int:
        return len(self.base)

    @property
    def is_whole(self) -> bool:
        """Whether all costs and usages are whole numbers, so that a bound may be rounded up."""
        arrays = (self.cost, self.edge_cost, self.usage, self.base)
        return all(bool((x == np.floor(x)).all()) for x in arrays)

    def chosen_costs(self, choice: Sequence[int] | IntArray) -> FloatArray:
        """Every cost of a choice: of the nodes, then of the edges."""
        picked = np.asarray(choice, dtype=np.int64)
        u, v = self.edges[:, 0], self.edges[:, 1]
        pairs = self.edge_first[:-1] + picked[u] * self.sizes[v] + picked[v]
        return np.concatenate([self.cost[self.first[:-1] + picked], self.edge_cost[pairs]])

    def evaluate(self, choice: Sequence[int] | IntArray) -> float:
        """Cost of a choice: the judge of every solver.

        The sum is exactly rounded; whole numbers below 2**53 are exact, forbidden pairs apart.
        """
        return math.fsum(self.chosen_costs(choice).tolist())

    def profile(self, choice: Sequence[int] | IntArray) -> FloatArray:
        """Memory in use at each time point, shape (T,); exact for whole numbers below 2**53."""
        picked = np.asarray(choice, dtype=np.int64)[self.span_node]
        amounts = self.usage[self.span_first[:-1] + picked]
        times = self.span_time
        if len(self.pair_edge):
            amounts = np.concatenate([amounts, self._pairs_held(choice)])
            times = np.concatenate([times, self.pair_time])
        return self.base + profile_bytes(times[:, 0], times[:, 1], amounts, self.time_points)

    def _pairs_held(self, choice: Sequence[int] | IntArray) -> FloatArray:
        picked = np.asarray(choice, dtype=np.int64)
        u, v = self.edges[self.pair_edge].T
        found: FloatArray = self.pair_usage[self.pair_first + picked[u] * self.sizes[v] + picked[v]]
        return found

    def peak(self, choice: Sequence[int] | IntArray) -> float:
        """Largest memory in use."""
        return float(self.profile(choice).max(initial=0.0))

    def is_feasible(self, choice: Sequence[int] | IntArray) -> bool:
        """Whether memory fits and nothing forbidden is chosen."""
        fine = bool((self.chosen_costs(choice) < FORBIDDEN).all())
        return fine and self.peak(choice) <= self.limit


def highest_cost(net: Network) -> float:
    """What no choice costs more than, forbidden candidates and pairs apart."""
    never = net.edge_cost >= FORBIDDEN
    edge_cost = np.where(never, -np.inf, net.edge_cost)
    nodes = np.maximum.reduceat(net.cost, net.first[:-1]) if net.nodes else np.zeros(0)
    starts, edge_of = np.unique(net.edge_first[:-1], return_inverse=True)
    edges = np.maximum.reduceat(edge_cost, starts)[edge_of] if len(starts) else np.zeros(0)
    return math.fsum(nodes.tolist()) + math.fsum(edges.tolist())


def offsets(sizes: IntArray | Sequence[int]) -> IntArray:
    """Where each of several runs of these lengths starts, and where the last one ends."""
    out = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def summed(places: IntArray, amounts: FloatArray, length: int) -> FloatArray:
    """Sums of the amounts that go to each place, shape (length,)."""
    return np.asarray(np.bincount(places, weights=amounts, minlength=length), dtype=np.float64)


def runs(starts: IntArray, lengths: IntArray) -> IntArray:
    """The numbers `starts[i], starts[i] + 1, …` of every run, one run after the other."""
    first = offsets(lengths)
    out = np.arange(first[-1], dtype=np.int64)
    out += np.repeat(starts - first[:-1], lengths)
    return out
