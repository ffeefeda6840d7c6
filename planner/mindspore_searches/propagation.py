"""MindSpore's sharding propagation on a problem, in its order, for comparison.

It goes from the given operators outwards and follows one edge where it can.

Source: MindSpore 2.7.0, `frontend/parallel/auto_parallel/graph_costmodel.cc`: `StrategyPropagate`,
`BFS`, `BFSNextNode`, `BFSPrevNode`; `edge_costmodel.cc`, CompareSwcCost. What they choose was
compared with the real 2.10.0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from planner.problem import FloatArray, Problem
from planner.solvers.propagation import (
    NEVER,
    ORIGIN,
    Link,
    Propagation,
    Route,
    Step,
    breadth_first,
    decided_before,
)

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
    - What reads a result of a stated layout does not wait for its other operands: it takes that
      layout and else is cut least, or stays whole where it cannot.
    - What works element by element takes over a layout of its neighbour that no strategy says.
    """

    name: ClassVar[str] = "mindspore_propagation"

    def _route(self, problem: Problem) -> Route:
        if not problem.pinned:
            return super()._route(problem)
        order, starts = breadth_first(problem)
        spread = _Spread(problem)
        led = spread.led
        left = [node for node in order if node not in led]
        before = decided_before(problem, [*led, *left])
        whole = {node for node in left if _costs(problem, node)}
        carrying = _Carrying(problem)
        steps = (carrying.told(spread.step(node, links, whole)) for node, links in before)
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
        self._told: set[int] = set()
        """Nodes that have a strategy by their cuts: they hand no layout on."""
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
            inherited = self.problem.node_tables[self.problem.node_table_of[source]].inherited
            given = self.ahead(source)
            if inherited is not None:
                given = np.where(inherited > 0, NEVER, given)
            out = out + (given[:, None] + matrix).min(axis=0)
        return out

    def told(self, step: Step) -> Step:
        """A step with what it has to choose for others."""
        backward = step.node in self.into and any(not forward for _, _, forward in step.led_by)
        behind = any(forward and other in self.reshapes for _, other, forward in step.led_by)
        ahead = self.ahead(step.node) if backward else None
        by_cuts = step.as_told or any(other in self.reshapes for _, other, _ in step.led_by)
        if by_cuts:
            self._told.add(step.node)
        plain = by_cuts or any(other in self._told for _, other, _ in step.led_by)
        least = behind or step.least_cut
        return replace(step, ahead=ahead, least_cut=least, plain=plain, last=True)


def _dataset(problem: Problem, reads: Sequence[Sequence[int]]) -> list[int]:
    """Nodes without a choice, such as the inputs, and what stands for an input of several readers,
    which has no cost of its own.
    """
    given = {node for node, size in enumerate(problem.sizes) if size == 1} - {*problem.pinned}
    for node, own in enumerate(reads):
        if own and given.issuperset(own) and not _costs(problem, node):
            given.add(node)
    return sorted(given)


def _places(problem: Problem) -> dict[int, int]:
    """The place of every node in MindSpore's order: all that a result needs stands before it, the
    first result and the first operand first.
    """
    import networkx as nx  # noqa: PLC0415  a quarter of a second that only this solver needs

    graph: nx.DiGraph[int] = nx.empty_graph(len(problem.sizes), create_using=nx.DiGraph)
    graph.add_edges_from((max(ends), min(ends)) for ends in problem.edges)
    ends = [node for node, readers in graph.in_degree() if not readers]
    graph.add_edges_from((ORIGIN, end) for end in ends)
    return {node: place for place, node in enumerate(nx.dfs_postorder_nodes(graph, ORIGIN))}


class _Spread:
    """Where the choices of the pins, and then of the inputs, spread to."""

    def __init__(self, problem: Problem) -> None:
        sizes = problem.sizes
        self._reads: list[list[int]] = [[] for _ in sizes]
        self._readers: list[list[int]] = [[] for _ in sizes]
        for u, v in sorted(set(problem.edges)):
            self._reads[v].append(u)
            self._readers[u].append(v)
        self._place = _places(problem)
        pinned = sorted(problem.pinned, key=self._place.__getitem__)
        given = _dataset(problem, self._reads)
        self.led = dict.fromkeys([*given, *pinned], GIVEN)
        """Per node what leads to it, in the order in which they are decided."""
        self._waiting: set[int] = set()
        self._problem, self._stated = problem, {*problem.stated}
        for here, following in zip(pinned, [*pinned[1:], None], strict=True):
            self._spread([here], following)
        self._spread(given, None)

    def step(self, node: int, links: tuple[Link, ...], whole: Container[int]) -> Step:
        """What a node follows.

        Args:
            node: to be decided.
            links: its edges to nodes that are decided before it.
            whole: nodes that nothing leads to.
        """
        by = self.led.get(node, GIVEN)
        if node in whole:
            return Step(node, (), links, whole=True)
        if by == GIVEN:
            return Step(node, links)
        ahead = tuple(link for link in links if (link[2] if by == FORWARD else link[1] == by))
        beside = tuple(link for link in links if link not in ahead)
        told = any(link[1] in self._stated and link[2] for link in ahead)
        return Step(node, ahead, beside, least_cut=told, as_told=told)

    def _spread(self, starts: Sequence[int], next_pin: int | None) -> None:
        place = self._place
        end = len(place) if next_pin is None else place[next_pin]
        queue = deque(starts)
        while queue:
            self._visit(queue)
            first = min(self._waiting, key=place.__getitem__, default=None)
            if not queue and first is not None and place[first] < end and first not in self.led:
                self._take(first, FORWARD, queue)

    def _visit(self, queue: deque[int]) -> None:
        here = queue.popleft()
        for node in self._readers[here]:
            if node in self.led:
                continue
            if here in self._stated:
                self._take(node, here, queue)
                self._waiting.discard(node)
                if not _costs(self._problem, node):  # it stands for a result of several readers
                    self._stated.add(node)
            elif self._stated.isdisjoint(self._reads[node]) and all(
                other in self.led for other in self._reads[node]
            ):
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
