"""Branch and bound over the few nodes that prices on memory cannot share out.

Under one price a group of nodes that occurs once is either lean or fast as a whole, and the bound
mixes both. Of eighty equal layers the mixture is nearly a choice, as forty may be lean and forty
fast; of a group that occurs once it is none, and that is where the gap comes from (J.-P. Aubin and
I. Ekeland, Mathematics of Operations Research 1(3), 1976). Such a node is made to take little
memory in one branch and much in the other; the least bound of the open branches is that of all.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.problem import FloatArray
from planner.solvers.crossover import cross
from planner.solvers.joint_prices import raise_jointly
from planner.solvers.ledger import Prices
from planner.solvers.memory_prices import PriceSearch
from planner.solvers.price_ladder import join
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import Allowed, ExactRelaxation, RestrictedRelaxation

RARE = 4
"""Nodes that share their numbers with more others are left to the prices."""
SETTLED = 0.5
"""Share of the gap that is wanted below which prices are left as they are."""
BRANCHES = 8
"""Branches that are opened, per unit of effort."""


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """A part of the choices, its bound, and the choices that are mixed in that bound."""

    allowed: Allowed
    bound_s: float
    search: PriceSearch


class Branching:
    """Opens the branch with the least bound until the gap is small."""

    def __init__(
        self, exact: ExactRelaxation, incumbent: Incumbent, meter: Meter, enough: float
    ) -> None:
        """Set what is branched on, and the relative gap at which no more branches are opened."""
        self._exact = exact
        self._incumbent = incumbent
        self._meter = meter
        table_of = incumbent.problem.node_table_of
        alike = Counter(table_of)
        self._rare = [node for node, table in enumerate(table_of) if alike[table] <= RARE]
        self._open: list[tuple[float, int, _Branch]] = []
        self._opened = self._crossed = 0
        self._enough = enough

    def run(self, root: PriceSearch) -> None:
        """Improve what the search for prices over the whole has found."""
        join(self._incumbent, list(root.found))
        if self._incumbent.gap > SETTLED * self._enough:
            raise_jointly(root)
            join(self._incumbent, list(root.found))
        self._cross()
        self._push(_Branch({}, self._incumbent.bound_s, root))
        for _ in range(BRANCHES * self._meter.effort):
            if not self._open or self._is_over:
                break
            branch = self._open[0][-1]
            parts = self._parts(branch)
            if parts is None:
                break
            heapq.heappop(self._open)
            for allowed in parts:
                self._enter(allowed, branch)
            self._note_bound()
        self._cross()

    @property
    def _is_over(self) -> bool:
        found = self._incumbent
        return found.is_proven or found.gap <= self._enough or self._meter.is_spent

    def _cross(self) -> None:
        """Mix the answers that are known, if there are new ones since the last time."""
        known = len(self._incumbent.pool)
        if not self._is_over and known > self._crossed:
            self._crossed = known
            cross(self._incumbent, self._meter, self._enough)

    def _push(self, branch: _Branch) -> None:
        heapq.heappush(self._open, (branch.bound_s, self._opened, branch))
        self._opened += 1

    def _note_bound(self) -> None:
        if self._open:
            bound_s = self._open[0][0]
            self._incumbent.raise_bound(bound_s, abs(bound_s), "branches")
        elif self._incumbent.choice is not None:
            self._incumbent.raise_bound(self._incumbent.cost_s, 0.0, "branches")
        else:
            self._incumbent.infeasible = True
            self._incumbent.note("branches: no choice fits in any of them")

    def _enter(self, allowed: Allowed, parent: _Branch) -> None:
        """Solve a branch; keep it open unless nothing better can be in it."""
        whole = self._incumbent
        inner = Incumbent(whole.ledger, whole.limits)
        inner.choice, inner.cost_s = whole.choice, whole.cost_s
        search = PriceSearch(RestrictedRelaxation(self._exact, allowed), inner, self._meter)
        search.prices = parent.search.prices.copy()
        profile, choice = search.solve(Prices(search.prices), "branch")
        if math.isinf(whole.problem.cost_s(choice)):
            return
        if inner.overfull(profile) is None:
            profile, _ = search.solve(Prices(np.zeros_like(search.prices)), "branch")
        search.run(profile)
        raise_jointly(search)
        join(inner, list(search.found))
        whole.pool.update(inner.pool)
        if inner.choice is not None and inner.cost_s < whole.cost_s:
            whole.offer(inner.choice, "branch")
        bound_s = max(parent.bound_s, inner.bound_s)
        if not inner.infeasible and bound_s < whole.cost_s:
            self._push(_Branch(allowed, bound_s, search))

    def _parts(self, branch: _Branch) -> tuple[Allowed, Allowed] | None:
        """Two parts of a branch: one node with little and with much priced memory."""
        search = branch.search
        mixed = self._mixed(search)
        best: tuple[float, int, NDArray[np.bool_]] | None = None
        numbers = self._incumbent.ledger.numbers(Prices(search.prices))
        for node in self._rare:
            candidates = {choice[node] for choice in mixed}
            if len(candidates) < 2:
                continue
            time_s = self._time_s(node)
            held_s = numbers.vectors[numbers.vector_of[node]] - time_s
            known = held_s[list(candidates)]
            spread_s = float(known.max() - known.min())
            if spread_s > 0 and (best is None or spread_s > best[0]):
                middle = (known.max() + known.min()) / 2
                best = spread_s, node, np.asarray(held_s <= middle)
        if best is None:
            return None
        _, node, lean = best
        before = branch.allowed.get(node, np.ones_like(lean))
        return {**branch.allowed, node: before & lean}, {**branch.allowed, node: before & ~lean}

    def _time_s(self, node: int) -> FloatArray:
        problem = self._incumbent.problem
        time_s: FloatArray = problem.node_tables[problem.node_table_of[node]].time_s
        return time_s

    def _mixed(self, search: PriceSearch) -> list[tuple[int, ...]]:
        """Choices that at the best prices cost less than the best answer."""
        problem, limits = self._incumbent.problem, self._incumbent.limits
        return [
            choice
            for choice, profile in search.found.items()
            if problem.cost_s(choice) + float(search.prices @ (profile - limits))
            < self._incumbent.cost_s
        ]
