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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.problem import FloatArray
from planner.reduction.restriction import original_choice, restricted
from planner.solvers.contract import Budget, Incumbent, Meter, Solution
from planner.solvers.ledger import Prices
from planner.solvers.memory_prices import PriceSearch, join
from planner.solvers.relaxation import Allowed, ExactRelaxation, RestrictedRelaxation

RARE = 4
"""Nodes that share their numbers with more others are left to the prices."""
SETTLED = 0.5
"""Share of the gap that is wanted below which prices are left as they are."""
BRANCHES = 8
"""Branches that are opened, per unit of effort."""
PASSES = 12
"""Columns that are added, per unit of effort."""
CLOSE = 1e-5
"""Relative distance of the bound from the mixture's cost at which no price is better."""
CROSSOVER_WORK = 0.05
"""CP-SAT's own unit of work, per unit of effort; half a second or a second each."""
MAX_PAIRS = 30_000
"""Pairs of candidates beyond which the last choices alone are joined."""
MIN_CHOICES = 4
"""Choices of which fewer are not worth joining."""


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


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """The cheapest mixture of choices that fits on average."""

    cost_s: float
    prices: FloatArray
    """Seconds per byte, shape (T,)."""


def raise_jointly(search: PriceSearch) -> None:
    """Improve the prices of all time points together, and with them the bound and the answers.

    A search that moves one price at a time ends when the answer at the best price fits, although a
    mixture of the answers at that price may still be too much at another time point. The prices
    that are best together are the dual of a linear programme: the cheapest mixture of the known
    choices that fits on average. Each new choice at those prices is one more column of it.

    Source: G. B. Dantzig and P. Wolfe, Operations Research 8(1), 1960.
    """
    incumbent = search.incumbent
    for _ in range(PASSES * search.meter.effort):
        if incumbent.is_proven or search.meter.is_spent:
            return
        mixture = _best_mixture(search)
        if mixture is None:
            return
        if mixture.cost_s - incumbent.bound_s <= CLOSE * abs(mixture.cost_s):
            return
        known = len(search.found)
        search.solve(Prices(mixture.prices), "prices of several time points")
        search.prices = mixture.prices
        if len(search.found) == known:
            return


def _best_mixture(search: PriceSearch) -> _Mixture | None:
    """The mixture, or None if the limit does not bind or no mixture fits."""
    problem, limits = search.incumbent.problem, search.incumbent.limits
    profiles = np.array(list(search.found.values()))
    points = _tightest(profiles / limits)
    if not points:
        return None
    costs = [problem.cost_s(choice) for choice in search.found]
    solved = _solved(costs, (profiles[:, points] / limits[points]).T.tolist())
    if solved is None:
        return None
    prices = np.zeros_like(limits)
    prices[points] = np.maximum(0.0, -np.array(solved[1])) / limits[points]
    return _Mixture(solved[0], prices)


def _tightest(shares: FloatArray) -> list[int]:
    """Time points that some choice overfills and that are not the like of an earlier one."""
    overfull = np.flatnonzero(shares.max(axis=0) > 1.0)
    first: dict[bytes, int] = {}
    for point in overfull.tolist():
        first.setdefault(shares[:, point].tobytes(), point)
    return list(first.values())


def _solved(
    costs: Sequence[float], rows: Sequence[Sequence[float]]
) -> tuple[float, list[float]] | None:
    """Least cost of weights that sum to 1 with every row at most 1; the dual values of the rows."""
    # Takes a tenth of a second to load, which problems without a binding limit are spared.
    from ortools.linear_solver import pywraplp  # noqa: PLC0415

    solver = pywraplp.Solver.CreateSolver("GLOP")
    weights = [solver.NumVar(0.0, solver.infinity(), "") for _ in costs]
    whole = solver.Constraint(1.0, 1.0)
    for weight, cost in zip(weights, costs, strict=True):
        whole.SetCoefficient(weight, 1.0)
        solver.Objective().SetCoefficient(weight, cost)
    constraints = []
    for row in rows:
        constraints.append(solver.Constraint(-solver.infinity(), 1.0))
        for weight, share in zip(weights, row, strict=True):
            constraints[-1].SetCoefficient(weight, share)
    if solver.Solve() != solver.OPTIMAL:
        return None
    return solver.Objective().Value(), [each.dual_value() for each in constraints]


def cross(incumbent: Incumbent, meter: Meter, enough: float) -> None:
    """Offer the best mixture of the pool's choices and the answer, or one whose gap is enough.

    The choices that were the best under some price differ in few nodes and have few candidates
    there: small enough for integer programming, which shares out what one price gives to all layers
    or to none.

    Source: E. Danna, E. Rothberg and C. Le Pape, Mathematical Programming 102, 2005, for the idea
    of fixing what good answers agree on.
    """
    present = incumbent.choice
    if present is None:
        return
    pool = [*incumbent.pool, present]
    allowed = _allowed(pool)
    while _pairs(incumbent, allowed) > MAX_PAIRS and len(pool) > MIN_CHOICES:
        pool = pool[len(pool) // 2 :]
        allowed = _allowed(pool)
    warm = Solution(
        tuple(int(keep.searchsorted(c)) for keep, c in zip(allowed, present, strict=True)),
        incumbent.cost_s,
        -np.inf,
        "bounded",
        0.0,
        truncated=False,
    )
    budget = Budget(meter.effort, meter.deadline_s, meter.seed)
    # CP-SAT takes as long to load as a small problem to solve.
    from planner.solvers.integer_programming import prove  # noqa: PLC0415

    target_s = incumbent.bound_s * (1 + enough)
    part = restricted(incumbent.problem, allowed)
    found = prove(part, budget, warm, work=CROSSOVER_WORK, target_s=target_s)
    meter.truncated |= found.truncated
    if found.choice is not None:
        incumbent.offer(original_choice(allowed, found.choice), "crossover")


def _allowed(pool: list[tuple[int, ...]]) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Candidates of each node in any of the choices, sorted."""
    return [np.unique(column) for column in np.array(pool, dtype=np.intp).T]


def _pairs(incumbent: Incumbent, allowed: list[np.ndarray[tuple[int], np.dtype[np.intp]]]) -> int:
    sizes = [len(keep) for keep in allowed]
    return sum(sizes[u] * sizes[v] for u, v in incumbent.problem.edges)
