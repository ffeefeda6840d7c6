"""MindSpore's `dynamic_programming` and its propagation on a problem, for comparison.

Of `dynamic_programming` the eliminations, in its order. Propagation follows one edge where it can.

Nodes in a chain, parallel edges, and nodes with one edge are eliminated exactly. A first node with
several successors is folded into one of them, the others being set against their own costs at their
best for it: those costs then count twice, and later the others may be chosen differently. So the
answer need not be the optimum even without a memory limit, unlike that of `dynamic_programming`.

Source: MindSpore 2.7.0, `frontend/parallel/auto_parallel/dp_algo_costmodel.cc` (order and recovery)
and `graph_costmodel.cc` (the eliminations). It keeps lists of costs, of computing and of sending;
with one number for both, as here, one is left of each list. Memory is looked at in the end only.
`StrategyPropagate`, `BFS`, `BFSNextNode` and `BFSPrevNode` are in the second file too; their order
was compared with the log of the real 2.10.0.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np

from planner.problem import FloatArray, IntArray, Problem
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.message_passing import MessagePassing
from planner.solvers.propagation import (
    NEVER,
    Link,
    Propagation,
    Route,
    Step,
    breadth_first,
    decided_before,
)

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


GIVEN = -1
"""Led by nothing: it comes first."""
FORWARD = -2
"""Led by all that it reads."""


class MindsporePropagation(Propagation):
    """As `Propagation`, but one pin after the other, each as far as it reaches, then the inputs.

    - From a node that has a choice, those that read its result come first, then those that it
      reads; neither goes beyond another pin.
    - A node that reads several others waits for all of them. When nothing else is left to do, the
      first that waits goes on with what it has, unless the next pin stands before it. If a reader
      has led to that one meanwhile, no other that waits goes on either.
    - A node follows the edges that led to it: all that it reads, or the one edge from a reader.
      Other decided neighbours do not count, but for pairs that are forbidden.
    - A reshape, and what stands for a tensor of several readers, regards its maker when a reader
      leads to it. What reads a reshape is cut as little as that allows.
    - What nothing leads to stays whole.
    """

    name: ClassVar[str] = "mindspore_propagation"

    def _route(self, problem: Problem) -> Route:
        if not problem.pinned:
            return super()._route(problem)
        order, starts = breadth_first(problem)
        led = _Spread(problem).led
        left = [node for node in order if node not in led]
        before = decided_before(problem, [*led, *left])
        whole = {node for node in left if _costs(problem, node)}
        carrying = _Carrying(problem)
        steps = (carrying.told(_step(node, links, led, whole)) for node, links in before)
        return Route(tuple(steps), starts)


def _costs(problem: Problem, node: int) -> bool:
    """Whether a node is an operator: parameters and tensors cost nothing of their own."""
    return bool(problem.node_tables[problem.node_table_of[node]].time_s.any())


class _Carrying:
    """Nodes that carry a layout on: reshapes, and what stands for a tensor of several readers.

    Such a node has the layout of its maker, or one that this is turned into; some pairs are
    forbidden. A node that is led by its reader has to choose for its maker too.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.into: dict[int, list[tuple[int, FloatArray]]] = {}
        self.reshapes: set[int] = set()
        """Reshapes, and the tensors that they make."""
        made = {max(ends) for ends in problem.edges}
        made |= {node for node, size in enumerate(problem.sizes) if size == 1}
        tables = zip(problem.edges, problem.edge_table_of, strict=True)
        for (u, v), table in sorted(tables, key=lambda each: (max(each[0]), min(each[0]))):
            matrix = problem.edge_tables[table].time_s
            source, target = min(u, v), max(u, v)
            if (matrix >= NEVER).any() and source in made:
                self.into.setdefault(target, []).append((source, matrix if u < v else matrix.T))
                if _costs(problem, target) or source in self.reshapes:
                    self.reshapes.add(target)

    def ahead(self, node: int) -> FloatArray:
        """What the makers of a node send at least, for each of its candidates."""
        out = np.zeros(self.problem.sizes[node])
        for source, matrix in self.into.get(node, ()):
            out = out + (self.ahead(source)[:, None] + matrix).min(axis=0)
        return out

    def told(self, step: Step) -> Step:
        """A step with what it has to choose for others."""
        backward = step.node in self.into and any(not forward for _, _, forward in step.led_by)
        behind = any(forward and other in self.reshapes for _, other, forward in step.led_by)
        ahead = self.ahead(step.node) if backward else None
        return replace(step, ahead=ahead, least_cut=behind)


def _step(
    node: int, links: tuple[Link, ...], led: Mapping[int, int], whole: Container[int]
) -> Step:
    by = led.get(node, GIVEN)
    if node in whole:
        return Step(node, (), links, whole=True)
    if by == GIVEN:
        return Step(node, links)
    ahead = tuple(link for link in links if (link[2] if by == FORWARD else link[1] == by))
    return Step(node, ahead, tuple(link for link in links if link not in ahead))


def _dataset(problem: Problem, reads: Sequence[Sequence[int]]) -> list[int]:
    """Nodes without a choice, such as the inputs, and what stands for an input of several readers,
    which has no cost of its own.
    """
    given = {node for node, size in enumerate(problem.sizes) if size == 1} - {*problem.pinned}
    for node, own in enumerate(reads):
        if own and given.issuperset(own) and not _costs(problem, node):
            given.add(node)
    return sorted(given)


class _Spread:
    """Where the choices of the pins, and then of the inputs, spread to."""

    def __init__(self, problem: Problem) -> None:
        sizes = problem.sizes
        self._reads: list[list[int]] = [[] for _ in sizes]
        self._readers: list[list[int]] = [[] for _ in sizes]
        for u, v in sorted(set(problem.edges)):
            self._reads[v].append(u)
            self._readers[u].append(v)
        given = _dataset(problem, self._reads)
        self.led = dict.fromkeys([*given, *problem.pinned], GIVEN)
        """Per node what leads to it, in the order in which they are decided."""
        self._waiting: set[int] = set()
        for here, following in zip(problem.pinned, [*problem.pinned[1:], len(sizes)], strict=True):
            self._spread([here], following)
        self._spread(given, len(sizes))

    def _spread(self, starts: Sequence[int], next_pin: int) -> None:
        queue = deque(starts)
        while queue:
            self._visit(queue)
            first = min(self._waiting, default=next_pin)
            if not queue and first < next_pin and first not in self.led:
                self._take(first, FORWARD, queue)

    def _visit(self, queue: deque[int]) -> None:
        here = queue.popleft()
        for node in self._readers[here]:
            if node in self.led:
                continue
            if all(other in self.led for other in self._reads[node]):
                self._take(node, FORWARD, queue)
            else:
                self._waiting.add(node)
        for node in self._reads[here]:
            if node not in self.led:
                self._take(node, here, queue)

    def _take(self, node: int, by: int, queue: deque[int]) -> None:
        self.led[node] = by
        queue.append(node)
        if by == FORWARD:
            self._waiting.discard(node)
