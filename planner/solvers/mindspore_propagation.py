"""Sharding propagation in the order of MindSpore's, which follows one edge where it can.

Source: MindSpore 2.7.0, `graph_costmodel.cc` (`StrategyPropagate`, `BFS`, `BFSNextNode`,
`BFSPrevNode`); the order was compared with the log of the real 2.10.0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from typing import ClassVar

from planner.problem import Problem
from planner.solvers.propagation import (
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
        steps = (_step(node, links, led, whole) for node, links in before)
        return Route(tuple(steps), starts)


def _costs(problem: Problem, node: int) -> bool:
    """Whether a node is an operator: parameters and tensors cost nothing of their own."""
    return bool(problem.node_tables[problem.node_table_of[node]].time_s.any())


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


class _Spread:
    """Where the choices of the pins, and then of the inputs, spread to."""

    def __init__(self, problem: Problem) -> None:
        sizes = problem.sizes
        self._reads: list[list[int]] = [[] for _ in sizes]
        self._readers: list[list[int]] = [[] for _ in sizes]
        for u, v in sorted(set(problem.edges)):
            self._reads[v].append(u)
            self._readers[u].append(v)
        single = [node for node, size in enumerate(sizes) if size == 1]
        self.led = dict.fromkeys([*single, *problem.pinned], GIVEN)
        """Per node what leads to it, in the order in which they are decided."""
        self._waiting: set[int] = set()
        for here, following in zip(problem.pinned, [*problem.pinned[1:], len(sizes)], strict=True):
            self._spread([here], following)
        self._spread([node for node in single if node not in problem.pinned], len(sizes))

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
