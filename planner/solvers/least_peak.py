"""The least memory that any choice needs: a bound on it, and a choice near it.

Whatever the weights of the time points, no choice has a lower peak than the least weighted memory.
Where that is found at a choice whose peak lies elsewhere, that time point gets more weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.problem import ROUNDING, FloatArray, Problem
from planner.solvers.conditioning import LARGEST_BUCKET
from planner.solvers.contract import Budget, Meter
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.recursive_bisection import BisectionRelaxation
from planner.solvers.relaxation import Relaxation, exact_relaxation

ROUNDS = 8
"""Weights that are tried at most."""
CLOSE = 1e-4
"""Relative distance of peak and bound at which no more weights are tried."""
LARGEST_WORK = 1 << 26
"""Table entries up to which weights are tried by elimination, a tenth of a second each; else by
halving."""


@dataclass(frozen=True, slots=True)
class LeastPeak:
    """What is known of the least peak."""

    choice: tuple[int, ...]
    """One candidate per node, time disregarded."""
    peak_bytes: float
    """Of that choice."""
    bound_bytes: float
    """No choice has a lower peak."""


def least_peak(problem: Problem, budget: Budget, until_bytes: float | None = None) -> LeastPeak:
    """The least peak as close as it is soon found.

    Args:
        problem: its limit does not matter.
        budget: the effort.
        until_bytes: ends as soon as it is clear whether the least peak is above or below; None
            looks on.
    """
    meter, ledger = Meter(budget), Ledger(problem)
    weights = np.ones(problem.time_points)
    relaxation = _elimination(ledger, meter) or BisectionRelaxation(ledger, meter)
    best = LeastPeak((), math.inf, 0.0)
    for number in range(ROUNDS):
        shares = weights / max(float(weights.sum()), 1.0)
        best, profile = _closer(best, relaxation, ledger, shares)
        if _is_clear(best, until_bytes) or meter.is_spent:
            break
        weights = weights if number else np.zeros(problem.time_points)
        weights[int(profile.argmax())] += 1.0
    return best


def is_narrow(problem: Problem, budget: Budget) -> bool:
    """Whether elimination of a problem is quick."""
    return _elimination(Ledger(problem), Meter(budget)) is not None


def _elimination(ledger: Ledger, meter: Meter) -> Relaxation | None:
    exact = exact_relaxation(ledger, meter, 2 * LARGEST_BUCKET)
    return exact if exact is not None and exact.work <= LARGEST_WORK else None


def _closer(
    best: LeastPeak, relaxation: Relaxation, ledger: Ledger, shares: FloatArray
) -> tuple[LeastPeak, FloatArray]:
    """What is known after the least weighted memory, and the profile of its choice."""
    found = relaxation.solve(Prices(shares, time_weight=0.0))
    profile = ledger.profile(found.choice)
    bound = max(best.bound_bytes, found.bound * (1.0 - ROUNDING))
    peak = float(profile.max(initial=0.0))
    if peak < best.peak_bytes:
        return LeastPeak(found.choice, peak, bound), profile
    return LeastPeak(best.choice, best.peak_bytes, bound), profile


def _is_clear(known: LeastPeak, until_bytes: float | None) -> bool:
    if known.peak_bytes <= known.bound_bytes * (1.0 + CLOSE):
        return True
    if until_bytes is None:
        return False
    return known.peak_bytes <= until_bytes or known.bound_bytes > until_bytes * (1.0 + ROUNDING)
