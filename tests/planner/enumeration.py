"""Exhaustive enumeration of a problem without a memory limit: the judge of exact solvers.

Depth first over all assignments, candidates in order of cost, a branch given up only where its cost
plus a sum of minima cannot beat the best found. Nothing is shared with the solvers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from planner.problem import Problem

FloatArray = NDArray[np.float64]


class Enumeration:
    """Enumerates one problem.

    With `fold`, nodes with one neighbour are chosen best for each choice of it, not enumerated.
    """

    def __init__(self, problem: Problem, *, fold: bool) -> None:
        self.unary = [problem.node_tables[t].time_s.copy() for t in problem.node_table_of]
        self.near: list[dict[int, FloatArray]] = [{} for _ in self.unary]
        for (u, v), t in zip(problem.edges, problem.edge_table_of, strict=True):
            matrix = problem.edge_tables[t].time_s
            self.near[u][v] = self.near[u].get(v, 0.0) + matrix
            self.near[v][u] = self.near[v].get(u, 0.0) + matrix.T
        alive = self._without_leaves() if fold else list(range(len(self.unary)))
        self.order = self._order(alive)
        self.place = {node: i for i, node in enumerate(self.order)}
        self.rest = self._rest()
        self.best = math.inf
        self.visited = 0

    def _without_leaves(self) -> list[int]:
        alive = set(range(len(self.unary)))
        while True:
            leaf = next(
                (n for n in sorted(alive) if len(self.near[n]) == 1 and len(alive) > 1), None
            )
            if leaf is None:
                return sorted(alive)
            ((other, matrix),) = self.near[leaf].items()
            self.unary[other] = self.unary[other] + (matrix + self.unary[leaf][:, None]).min(axis=0)
            del self.near[other][leaf]
            alive.remove(leaf)

    def _order(self, alive: list[int]) -> list[int]:
        order: list[int] = []
        while len(order) < len(alive):
            rest = [n for n in alive if n not in order]
            order.append(max(rest, key=lambda n: (sum(v in order for v in self.near[n]), -n)))
        return order

    def _rest(self) -> list[float]:
        rest = [0.0]
        for i in reversed(range(len(self.order))):
            node = self.order[i]
            cost = self.unary[node]
            for other, matrix in self.near[node].items():
                if self.place[other] < i:
                    cost = cost + matrix.min(axis=1)
            rest.append(rest[-1] + float(cost.min()))
        return rest[::-1]

    def run(self, limit: int = 3_000_000) -> float:
        """Least cost; raises RuntimeError beyond `limit` visited assignments."""
        self._go(0, 0.0, {}, limit)
        return self.best

    def _go(self, depth: int, cost: float, chosen: dict[int, int], limit: int) -> None:
        self.visited += 1
        if self.visited > limit:
            raise RuntimeError("too many assignments to enumerate")
        if depth == len(self.order):
            self.best = min(self.best, cost)
            return
        node = self.order[depth]
        own = self.unary[node]
        for other, matrix in self.near[node].items():
            if self.place[other] < depth:
                own = own + matrix[:, chosen[other]]
        for candidate in np.argsort(own, kind="stable"):
            total = cost + float(own[candidate])
            if total + self.rest[depth + 1] >= self.best:
                break
            chosen[node] = int(candidate)
            self._go(depth + 1, total, chosen, limit)
