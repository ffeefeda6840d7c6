"""Prices of several time points at once.

A search that moves one price at a time ends when the answer beside the best price fits, although a
mixture of the answers at that price may still be too much at another time point. The prices that
are best together are the dual of a linear programme: the cheapest mixture of the known choices that
fits on average. Each new choice at those prices is one more column of it (G. B. Dantzig and
P. Wolfe, Operations Research 8(1), 1960).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.problem import FloatArray
from planner.solvers.ledger import Prices
from planner.solvers.memory_prices import PriceSearch

PASSES = 12
"""Columns that are added, per unit of effort."""
CLOSE = 1e-5
"""Relative distance of the bound from the mixture's cost at which no price is better."""


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """The cheapest mixture of choices that fits on average."""

    cost_s: float
    prices: FloatArray
    """Seconds per byte, shape (T,)."""


def raise_jointly(search: PriceSearch) -> None:
    """Improve the prices of all time points together, and with them the bound and the answers."""
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
    lp = importlib.import_module("ortools.linear_solver.pywraplp")
    solver = lp.Solver.CreateSolver("GLOP")
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
