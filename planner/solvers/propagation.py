"""Sharding propagation: what is given stays, and the rest follows at least communication.

MindSpore's search mode of that name. From the operators that the user configured it goes from
neighbour to neighbour and gives each the strategy that costs the least on the edges to those that
have one; then the fastest of these. What was decided is never reconsidered, so the answer comes at
once and is as good as the pins are.

Source: MindSpore 2.7.0, `graph_costmodel.cc` (breadth first from the configured operators) and
`edge_costmodel.cc` (CompareSwcCost: communication, then computation, then the operator's own).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from costmodel.redistribution import UNREACHABLE_S
from planner.problem import FloatArray, Inherited, Problem
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.ledger import Ledger, Numbers, Prices
from planner.solvers.memory_prices import PriceBisection, join, solve_without_limit
from planner.solvers.message_passing import MessagePassing
from planner.solvers.relaxation import Relaxed

TIE = 1e-9
"""Relative distance of two communication times that are the same but for rounding."""

Link = tuple[int, int, bool]
"""An edge, its other end, and whether that comes first in the edge."""

ORIGIN = -1
"""Stands before all nodes at which a search breadth first starts."""

NEVER = 1e15
"""A pair that costs this much or more is forbidden."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node and its edges to those that have a choice by then."""

    node: int
    led_by: tuple[Link, ...]
    """Edges that it follows."""
    beside: tuple[Link, ...] = ()
    """Edges that only forbid."""
    whole: bool = False
    """It is not split: of what is left it takes what costs most by itself."""
    least_cut: bool = False
    """Of what is equal on the edges it takes what costs most by itself."""
    ahead: FloatArray | None = None
    """What its makers will send at least, shape (C,), where it counts as well."""
    as_told: bool = False
    """It takes what costs nothing on its edges and is cut least, or else stays whole."""
    plain: bool = False
    """It takes over no layout that it has no strategy for."""
    last: bool = False
    """Of what costs the same it takes the last."""

    def pick(self, cost: FloatArray) -> int:
        """The candidate of least cost."""
        if self.last:
            return len(cost) - 1 - int(cost[::-1].argmin())
        return int(cost.argmin())


@dataclass(frozen=True, slots=True)
class Route:
    """In which order the nodes are decided."""

    steps: tuple[Step, ...]
    starts: str
    """Where it starts, in words."""


class Propagation:
    """Follows the pins; without any it starts where a choice was made already, as MindSpore does.

    - Pinned nodes (`Problem.pinned`) come first. Several candidates may be left of one: it takes
      the fastest, or what fits to pins beside it.
    - Without pins the start is every node with a single candidate, such as the inputs: MindSpore
      starts from the strategy of the dataset. In a part of the graph without one it is the node
      that takes longest, at its fastest candidate, where MindSpore takes the first strategy.
    - A node regards all neighbours that are decided, not only the one that led to it. MindSpore
      lets an operator with several inputs wait for them instead.
    - If the answer does not fit into memory, a node takes what costs least in all: communication,
      its own time and a price on memory, which rises until the answer fits. If it never does, the
      proof is `none` and the leanest choice seen is given, or `infeasible` where the bound shows
      it.

    The bound is one sweep of messages (`MessagePassing.bound`) under the same prices.
    """

    name: ClassVar[str] = "propagation"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `bounded`, `optimal` where the bound is met, `none`, `infeasible`."""
        meter, incumbent = Meter(budget), Incumbent.of(problem, progress)
        wave = PropagationRelaxation(incumbent.ledger, meter, self._route(problem))
        incumbent.note(f"{len(problem.sizes)} nodes follow from {wave.starts}")
        profile = solve_without_limit(wave, incumbent)
        if incumbent.overfull(profile) is not None:
            PriceBisection(wave, incumbent, meter).run(profile)
            join(incumbent, tuple(wave.found))
        return incumbent.solution(truncated=meter.truncated)

    def _route(self, problem: Problem) -> Route:
        return outwards(problem)


class PropagationRelaxation:
    """Goes over the graph once for each set of prices, always in the same order."""

    def __init__(self, ledger: Ledger, meter: Meter, route: Route | None = None) -> None:
        problem = ledger.problem
        route = route or outwards(problem)
        self._ledger, self._meter = ledger, meter
        self._messages = MessagePassing(len(problem.sizes), problem.edges)
        self._steps, self.starts = route.steps, route.starts
        self._forbidden = _forbidding(problem)
        self._tied = tied_first(problem, [step.node for step in route.steps], self._forbidden)
        self._avoided_s = math.inf
        self.found: dict[tuple[int, ...], None] = {}
        """Answers under all prices so far, each once."""
        areas = [table.time_s.size for table in problem.edge_tables]
        self._work = 2 * sum(areas[table] for table in problem.edge_table_of)

    def solve(self, prices: Prices | None = None) -> Relaxed:
        """What follows under prices, and a bound on the priced cost."""
        numbers = self._ledger.numbers(prices)
        self._meter.charge(self._work, len(self._steps))
        choice = self._follow(numbers, prices, self._steps)
        cost_s = self._ledger.problem.cost_s
        if cost_s(choice) >= self._forbidden:
            # What two starts reach from both sides may have no choice left that fits to both.
            tied = self._follow(numbers, prices, self._tied)
            choice = min(choice, tied, key=cost_s)
        self.found[choice] = None
        if prices is None:
            self._avoided_s = self._ledger.problem.cost_s(choice)
        one_price = prices is None or prices.later_per_byte is None
        return Relaxed(choice, self._messages.bound(numbers) if one_price else -math.inf)

    def _follow(
        self, numbers: Numbers, prices: Prices | None, steps: Sequence[Step]
    ) -> tuple[int, ...]:
        choice = [0] * len(steps)
        for step in steps:
            node = step.node
            own = numbers.vectors[numbers.vector_of[node]]
            if len(own) == 1:
                continue
            sent = _sent(numbers, step.led_by, choice, own)
            beside = _sent(numbers, step.beside, choice, own)
            own, sent = self._own_choices(step, own, sent)
            sent = _with_ahead(step, sent)
            if step.whole or (step.as_told and sent.min() > 0):
                own = np.where((beside >= NEVER) | (own >= NEVER), math.inf, -own)
            elif prices is None:
                sent = np.where(beside >= NEVER, sent + beside, sent)
                least = float(sent.min())
                own = -own if step.least_cut else own
                own = np.where(sent <= least + TIE * abs(least), own, math.inf)
            else:
                avoided = self._is_avoided(node, step.led_by + step.beside, choice)
                own = np.where(avoided, math.inf, own + sent + beside)
            choice[node] = step.pick(own)
        return tuple(choice)

    def _own_choices(
        self, step: Step, own: FloatArray, sent: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Costs without the candidates that a node inherits, but where its neighbour has them."""
        problem = self._ledger.problem
        inherited = problem.node_tables[problem.node_table_of[step.node]].inherited
        if inherited is None:
            return own, sent
        from_maker = all(forward for _, _, forward in step.led_by)
        none = step.plain or not step.led_by
        strange = inherited < (Inherited.FROM_MAKERS if from_maker else Inherited.FROM_ALL)
        barred = (inherited > 0) & ((sent > 0) | strange | none)
        return np.where(barred, NEVER, own), np.where(barred, NEVER, sent)

    def _is_avoided(
        self, node: int, decided: Sequence[Link], choice: Sequence[int]
    ) -> NDArray[np.bool_]:
        """Candidates that no saving of memory is worth; not all of them.

        A target may forbid a pair by a very large time. One that takes longer than the whole
        answer without prices is held to be forbidden.
        """
        problem = self._ledger.problem
        table = problem.node_table_of[node]
        sent = np.zeros_like(problem.node_tables[table].time_s)
        for edge, other, forward in decided:
            matrix = problem.edge_tables[problem.edge_table_of[edge]].time_s
            sent = sent + (matrix[choice[other]] if forward else matrix[:, choice[other]])
        return np.asarray(sent > max(self._avoided_s, float(sent.min())))


def _sent(
    numbers: Numbers, links: Sequence[Link], choice: Sequence[int], own: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Per candidate what goes over edges to nodes that have a choice."""
    sent = np.zeros_like(own)
    for edge, other, forward in links:
        matrix = numbers.matrices[numbers.matrix_of[edge]]
        sent = sent + (matrix[choice[other]] if forward else matrix[:, choice[other]])
    return sent


def _with_ahead(step: Step, sent: FloatArray) -> FloatArray:
    """What is sent, with what the makers of a node will send.

    Of what is the same in all, only what is least on the edges that lead to it is left.
    """
    if step.ahead is None:
        return sent
    total = sent + step.ahead
    least = float(total.min())
    same = total <= least + TIE * abs(least)
    later = same & (sent > sent[same].min() * (1 + TIE))
    return np.where(later, total + NEVER, total)


def outwards(problem: Problem) -> Route:
    """From where it starts; each node follows all that is decided."""
    order, starts = breadth_first(problem)
    return Route(tuple(Step(n, found) for n, found in decided_before(problem, order)), starts)


def _forbidding(problem: Problem) -> float:
    """From which cost on a pair is forbidden: seconds have a ceiling, MindSpore's costs another."""
    highest = max((float(t.time_s.max(initial=0.0)) for t in problem.edge_tables), default=0.0)
    return highest if highest == UNREACHABLE_S else NEVER


def tied_first(problem: Problem, order: Sequence[int], forbidden: float) -> tuple[Step, ...]:
    """As `outwards`, but behind each node come those that some of its candidates are forbidden
    with, and what is tied to these.
    """
    import networkx as nx  # noqa: PLC0415  a quarter of a second that only this solver needs

    ties: nx.Graph[int] = nx.empty_graph(len(problem.sizes))
    for (u, v), table in zip(problem.edges, problem.edge_table_of, strict=True):
        if (problem.edge_tables[table].time_s >= forbidden).any():
            ties.add_edge(u, v)
    given = {*problem.pinned, *(n for n, size in enumerate(problem.sizes) if size == 1)}
    out = dict.fromkeys(node for node in order if node in given)

    def undecided(node: int) -> Iterator[int]:
        return (other for other in ties[node] if other not in out)

    for start in order:
        out.setdefault(start)
        for _, node in nx.generic_bfs_edges(ties, start, undecided):
            out[node] = None
    return tuple(Step(n, found) for n, found in decided_before(problem, list(out)))


def breadth_first(problem: Problem) -> tuple[list[int], str]:
    """All nodes, breadth first from where it starts, and what that is in words."""
    import networkx as nx  # noqa: PLC0415  a quarter of a second that only this solver needs

    sizes = problem.sizes
    # Edges in this order, so that every node has its neighbours ascending.
    graph: nx.Graph[int] = nx.empty_graph(len(sizes))
    graph.add_edges_from(sorted((min(ends), max(ends)) for ends in problem.edges))
    single = [node for node, size in enumerate(sizes) if size == 1]
    starts = list(problem.pinned) or single
    kind = "pinned nodes" if problem.pinned else "nodes without a choice"
    graph.add_edges_from((ORIGIN, start) for start in starts)
    order = dict.fromkeys(node for _, node in nx.bfs_edges(graph, ORIGIN)) if starts else {}
    heaviest = sorted(range(len(sizes)), key=lambda node: (-_least_s(problem, node), node))
    alone = 0
    for node in (*single, *heaviest):
        if node not in order:
            alone += 1
            order[node] = None
            order |= dict.fromkeys(other for _, other in nx.bfs_edges(graph, node))
    rest = f" and {alone} more in parts that these do not reach" if alone and starts else ""
    return list(order), f"{len(starts) or alone} {kind if starts else 'heaviest nodes'}{rest}"


def _least_s(problem: Problem, node: int) -> float:
    return float(problem.node_tables[problem.node_table_of[node]].time_s.min())


def decided_before(problem: Problem, order: Sequence[int]) -> list[tuple[int, tuple[Link, ...]]]:
    """Every node in order with its edges to those that are decided before it."""
    place = {node: position for position, node in enumerate(order)}
    sizes = problem.sizes
    decided: list[list[Link]] = [[] for _ in order]
    for edge, (u, v) in enumerate(problem.edges):
        if sizes[u] == 1 or (place[u] < place[v] and sizes[v] > 1):
            decided[v].append((edge, u, True))
        else:
            decided[u].append((edge, v, False))
    return [(node, tuple(decided[node])) for node in order]
