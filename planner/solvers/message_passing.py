"""Message passing in program order: a bound and an answer for a graph of any width.

Every node tells its neighbours what each of their candidates would cost it. Backwards the shares
that are left over add up to a bound; forwards each node takes what is best for the nodes before
it, as they are, and for those after it, by what they told. On a chain one pass is exact; on the
graphs of models a few passes mostly are, for their cycles are short.

Source: V. Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", IEEE
PAMI 28(10), 2006, sections 4 and 5, with monotonic chains in the order of the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.problem import FloatArray
from planner.solvers.contract import Meter
from planner.solvers.ledger import Numbers, priced_cost

Choice = tuple[int, ...]
Link = tuple[int, int, bool]
"""Other end, edge, and whether the edge is indexed by the earlier end first."""

SETTLED = 1e-9
"""Relative distance of answer and bound at which nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What some passes have found."""

    choice: Choice
    cost: float
    bound: float
    """No choice costs less."""


class MessagePassing:
    """Messages on one graph; they are kept, so that similar numbers need fewer passes."""

    def __init__(self, nodes: int, edges: Sequence[tuple[int, int]]) -> None:
        self._edges = edges
        self._later: list[list[Link]] = [[] for _ in range(nodes)]
        self._earlier: list[list[Link]] = [[] for _ in range(nodes)]
        for edge, (u, v) in enumerate(edges):
            self._later[min(u, v)].append((max(u, v), edge, u < v))
            self._earlier[max(u, v)].append((min(u, v), edge, u < v))
        self._share = [
            1.0 / max(len(later), len(earlier), 1)
            for later, earlier in zip(self._later, self._earlier, strict=True)
        ]
        self._to_later: list[FloatArray | float] = [0.0] * len(edges)
        self._to_earlier: list[FloatArray | float] = [0.0] * len(edges)

    def run(self, numbers: Numbers, passes: int, meter: Meter) -> Passed:
        """The best answer and bound of at most so many passes.

        Args:
            numbers: vectors and matrices; from call to call of the same shapes.
            passes: 1 or more; it ends before if answer and bound meet.
            meter: what it may use; one pass is made whatever is left.
        """
        work = 2 * sum(numbers.matrices[matrix].size for matrix in numbers.matrix_of)
        best: Choice = ()
        cost, bound = math.inf, -math.inf
        for _ in range(passes):
            bound = max(bound, self._backward(numbers))
            choice = self._forward(numbers)
            found = priced_cost(numbers, self._edges, choice)
            if found < cost:
                best, cost = choice, found
            meter.charge(work, len(choice))
            if cost - bound <= SETTLED * abs(cost) or meter.is_spent:
                break
        return Passed(best, cost, min(bound, cost))

    def bound(self, numbers: Numbers) -> float:
        """The bound of one sweep, without messages before it: no choice costs less.

        Each node hands on all that it has, in equal shares, to the later ones.
        """
        known = [numbers.vectors[vector] for vector in numbers.vector_of]
        left = [0.0]
        for node, later in enumerate(self._later):
            if not later:
                left.append(float(known[node].min()))
                continue
            share = (known[node] / len(later))[:, None]
            for other, edge, first in later:
                matrix = numbers.matrices[numbers.matrix_of[edge]]
                known[other] = known[other] + ((matrix if first else matrix.T) + share).min(axis=0)
        return math.fsum(left)

    def _total(self, numbers: Numbers, node: int) -> FloatArray:
        """What a node's candidates cost with all that it was told, shape (C,)."""
        total = numbers.vectors[numbers.vector_of[node]]
        for _, edge, _ in self._earlier[node]:
            total = total + self._to_later[edge]
        for _, edge, _ in self._later[node]:
            total = total + self._to_earlier[edge]
        return total

    def _backward(self, numbers: Numbers) -> float:
        """Tell all earlier neighbours; the shares that nobody gets are the bound."""
        left = []
        for node in range(len(self._share) - 1, -1, -1):
            earlier, share = self._earlier[node], self._share[node]
            total = self._total(numbers, node)
            left.append(float(total.min()) * (1.0 - share * len(earlier)))
            for _, edge, first in earlier:
                matrix = numbers.matrices[numbers.matrix_of[edge]]
                told = share * total - self._to_later[edge]
                self._to_earlier[edge] = ((matrix if first else matrix.T) + told).min(axis=1)
        return math.fsum(left)

    def _forward(self, numbers: Numbers) -> Choice:
        """Choose in order, and tell all later neighbours."""
        choice = [0] * len(self._share)
        for node, (earlier, later) in enumerate(zip(self._earlier, self._later, strict=True)):
            cost = numbers.vectors[numbers.vector_of[node]]
            for other, edge, first in earlier:
                matrix = numbers.matrices[numbers.matrix_of[edge]]
                cost = cost + (matrix[choice[other]] if first else matrix[:, choice[other]])
            for _, edge, _ in later:
                cost = cost + self._to_earlier[edge]
            choice[node] = int(cost.argmin())
            total = self._share[node] * self._total(numbers, node) if later else cost
            for _, edge, first in later:
                matrix = numbers.matrices[numbers.matrix_of[edge]]
                told = (total - self._to_earlier[edge])[:, None]
                self._to_later[edge] = ((matrix if first else matrix.T) + told).min(axis=0)
        return tuple(choice)
