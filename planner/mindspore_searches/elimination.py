"""MindSpore's `dynamic_programming` on a problem, for comparison: its eliminations, in its order.

Nodes in a chain, parallel edges, and nodes with one edge are eliminated exactly. A first node with
several successors is folded into one of them, the others being set against their own costs at their
best for it: those costs then count twice, and later the others may be chosen differently. So the
answer need not be the optimum even without a memory limit, unlike that of `dynamic_programming`.

Source: MindSpore 2.7.0, `frontend/parallel/auto_parallel/dp_algo_costmodel.cc` (order and recovery)
and `graph_costmodel.cc` (the eliminations). It keeps lists of costs, of computing and of sending;
with one number for both, as here, one is left of each list. Memory is looked at in the end only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from planner.problem import FloatArray, IntArray, Problem
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.message_passing import MessagePassing

MAX_LAST = 4096
"""Choices of the last nodes that are tried one after the other until one fits into memory."""

Choices: TypeAlias = list[int]
Pairs: TypeAlias = list[tuple[int, int]]
Recovery: TypeAlias = Callable[[Choices, Pairs], None]
"""Fills in what was eliminated, given the choice of nodes and of the ends of edges that stayed."""


class MindsporeElimination:
    """Eliminations of MindSpore; edges run from the earlier node to the later one."""

    name: ClassVar[str] = "mindspore_elimination"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `optimal` where no node was folded, `bounded`, or `none`."""
        meter, incumbent = Meter(budget), Incumbent.of(problem, progress)
        graph = _Graph(problem)
        while not meter.is_spent and graph.step():
            pass
        incumbent.note(f"{graph.eliminated} eliminations, {graph.folded} of them not exact")
        if not graph.folded and not graph.has_edges:
            least = math.fsum(float(graph.cost[node].min()) for node in graph.alive)
            incumbent.raise_bound(least, abs(least), "elimination")
        else:
            messages = MessagePassing(len(problem.sizes), problem.edges)
            bound = messages.bound(incumbent.ledger.numbers())
            incumbent.raise_bound(bound, abs(bound), "messages")
        for choice in graph.choices():
            profile = incumbent.offer(choice, "elimination")
            if incumbent.overfull(profile) is None or meter.is_spent:
                break
        return incumbent.solution(truncated=meter.truncated)


class _Graph:
    """What is left of the graph, and how to recover what is not."""

    def __init__(self, problem: Problem) -> None:
        self.cost = [problem.node_tables[t].time_s.copy() for t in problem.node_table_of]
        self.alive = list(range(len(self.cost)))
        self.ends: Pairs = []
        self.tables: list[FloatArray] = []
        self.out: list[list[int]] = [[] for _ in self.cost]
        self.into: list[list[int]] = [[] for _ in self.cost]
        for (u, v), table in zip(problem.edges, problem.edge_table_of, strict=True):
            matrix = problem.edge_tables[table].time_s
            edge = self._new_edge(min(u, v), max(u, v), matrix if u < v else matrix.T)
            self.out[min(u, v)].append(edge)
            self.into[max(u, v)].append(edge)
        self.recoveries: list[Recovery] = []
        self.eliminated = self.folded = 0

    @property
    def has_edges(self) -> bool:
        return any(self.out[node] for node in self.alive)

    def step(self) -> bool:
        """The first elimination, in MindSpore's order, that can be done; whether there was one."""
        rules = (self._chain, self._parallel, self._source, self._sink, self._triangle, self._star)
        done = any(rule(node) for rule in rules for node in self.alive)
        self.eliminated += done
        return done

    def choices(self) -> Iterator[tuple[int, ...]]:
        """Choices of all nodes, those of the last ones at rising cost."""
        orders = [np.argsort(self.cost[node], kind="stable").tolist() for node in self.alive]
        if math.prod(map(len, orders)) > MAX_LAST:
            orders = [order[:1] for order in orders]

        def total(last: Sequence[int]) -> float:
            return math.fsum(self.cost[n][c] for n, c in zip(self.alive, last, strict=True))

        for last in sorted(itertools.product(*orders), key=total):
            choice, pairs = [0] * len(self.cost), [(0, 0)] * len(self.ends)
            for node, candidate in zip(self.alive, last, strict=True):
                choice[node] = candidate
            for edge in itertools.chain.from_iterable(self.out[node] for node in self.alive):
                u, v = self.ends[edge]
                pairs[edge] = (choice[u], choice[v])
            for recover in reversed(self.recoveries):
                recover(choice, pairs)
            yield tuple(choice)

    def _new_edge(self, u: int, v: int, table: FloatArray) -> int:
        self.ends.append((u, v))
        self.tables.append(table)
        return len(self.ends) - 1

    def _chain(self, node: int) -> bool:
        """A node with one edge in and one out becomes an edge."""
        if len(self.into[node]) != 1 or len(self.out[node]) != 1:
            return False
        left, right = self.into[node][0], self.out[node][0]
        u, w = self.ends[left][0], self.ends[right][1]
        least, best = _through(self.tables[left] + self.cost[node], self.tables[right])
        edge = self._new_edge(u, w, least)
        self.out[u][self.out[u].index(left)] = edge
        self.into[w][self.into[w].index(right)] = edge
        self.alive.remove(node)

        def recover(choice: Choices, pairs: Pairs) -> None:
            a, b = pairs[edge]
            choice[node] = int(best[a, b])
            pairs[left], pairs[right] = (a, choice[node]), (choice[node], b)

        self.recoveries.append(recover)
        return True

    def _parallel(self, node: int) -> bool:
        """Edges between the same nodes become one."""
        heads = [self.ends[edge][1] for edge in self.out[node]]
        head = next((head for head in heads if heads.count(head) > 1), None)
        if head is None:
            return False
        old = [edge for edge in self.out[node] if self.ends[edge][1] == head]
        new = self._new_edge(node, head, np.sum([self.tables[edge] for edge in old], axis=0))
        self.out[node] = [*(edge for edge in self.out[node] if edge not in old), new]
        self.into[head] = [*(edge for edge in self.into[head] if edge not in old), new]

        def recover(choice: Choices, pairs: Pairs) -> None:  # noqa: ARG001
            for edge in old:
                pairs[edge] = pairs[new]

        self.recoveries.append(recover)
        return True

    def _source(self, node: int) -> bool:
        """A first node with one successor becomes part of it."""
        if self.into[node] or len(self.out[node]) != 1:
            return False
        return self._fold(node, self.out[node])

    def _sink(self, node: int) -> bool:
        """A last node with one predecessor becomes part of it."""
        if self.out[node] or len(self.into[node]) != 1:
            return False
        (edge,) = self.into[node]
        target = self.ends[edge][0]
        total = self.tables[edge] + self.cost[node]
        best = total.argmin(axis=1)
        self.cost[target] = self.cost[target] + total.min(axis=1)
        self.out[target].remove(edge)
        self.alive.remove(node)

        def recover(choice: Choices, pairs: Pairs) -> None:
            choice[node] = int(best[choice[target]])
            pairs[edge] = (choice[target], choice[node])

        self.recoveries.append(recover)
        return True

    def _triangle(self, node: int) -> bool:
        """A first node whose two successors have an edge becomes part of the earlier of them."""
        if self.into[node] or len(self.out[node]) != 2:
            return False
        edges = sorted(self.out[node], key=lambda edge: self.ends[edge][1])
        left, right = (self.ends[edge][1] for edge in edges)
        if all(self.ends[edge][1] != right for edge in self.out[left]):
            return False
        return self._fold(node, edges)

    def _star(self, node: int) -> bool:
        """A first node with several successors becomes part of the first of them."""
        return not self.into[node] and len(self.out[node]) > 1 and self._fold(node, self.out[node])

    def _fold(self, node: int, edges: Sequence[int]) -> bool:
        """Make a first node part of its successor on the first edge, the others at their best."""
        first, *others = edges
        target = self.ends[first][1]
        total = self.tables[first] + self.cost[node][:, None]
        best_of: list[IntArray] = []
        for edge in others:
            with_head = self.tables[edge] + self.cost[self.ends[edge][1]]
            best_of.append(with_head.argmin(axis=1))
            total = total + with_head.min(axis=1)[:, None]
        best = total.argmin(axis=0)
        self.cost[target] = self.cost[target] + total.min(axis=0)
        for edge in edges:
            self.into[self.ends[edge][1]].remove(edge)
        self.alive.remove(node)
        self.folded += bool(others)

        def recover(choice: Choices, pairs: Pairs) -> None:
            own = choice[node] = int(best[choice[target]])
            pairs[first] = (own, choice[target])
            for edge, heads in zip(others, best_of, strict=True):
                # What the head was thought to choose; its own choice stays as it is.
                pairs[edge] = (own, int(heads[own]))

        self.recoveries.append(recover)
        return True


def _through(left: FloatArray, right: FloatArray) -> tuple[FloatArray, IntArray]:
    """Least of `left[u, v] + right[v, w]` over v, and the first v that has it."""
    least = np.empty((len(left), right.shape[1]))
    best = np.empty(least.shape, dtype=np.intp)
    for u, row in enumerate(left):
        total = row[:, None] + right
        best[u] = total.argmin(axis=0)
        least[u] = total.min(axis=0)
    return least, best
