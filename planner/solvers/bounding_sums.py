"""Sums that bound the time of every choice of an overlapped problem, equal layers priced alike.

Few equal layers of a network stand for many of them: what one more of them takes is the difference
of two pieces. So layers of one kind have the same prices, whatever piece they are in, and Kelley's
cutting planes raise the bound with one price for each kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from planner.problem import FloatArray, IntArray, Overlap, Problem
from planner.solvers.overlap import best_prices

Choice: TypeAlias = tuple[int, ...]

ROUNDS = 3
"""Prices under which a problem is solved at most."""
WORTHWHILE = 5e-3
"""Share of the bound that other prices have to promise."""


def bounding_sums(
    problem: Problem, solve: Callable[[Problem], Choice], known: Iterable[Choice] = ()
) -> Iterator[tuple[Problem, Choice]]:
    """Sums that no choice undercuts, each with its least choice. In the first whatever may hide
    costs nothing; the next ones have the prices at which the choices known so far bound most.

    Args:
        problem: may overlap; else it is the only sum.
        solve: gives the choice of the least sum.
        known: choices to begin with, near the fastest.
    """
    overlap = problem.overlap
    if overlap is None:
        yield problem, solve(problem)
        return
    form, kinds = overlap.form, kinds_of(problem)
    prices = [form.all_on_compute()] * (int(kinds.max(initial=-1)) + 1)
    cuts = [_loads_of_kinds(problem, overlap, kinds, choice) for choice in known]
    least_s = -math.inf
    for _ in range(ROUNDS):
        sums = problem.at_prices([prices[kind] for kind in kinds])
        choice = solve(sums)
        yield sums, choice
        least_s = max(least_s, sums.sum_s(choice))
        cuts.append(_loads_of_kinds(problem, overlap, kinds, choice))
        found = [best_prices(form, np.stack(own)) for own in zip(*cuts, strict=True)]
        if math.fsum(most_s for most_s, _ in found) <= least_s + WORTHWHILE * abs(least_s):
            return
        prices = [own for _, own in found]


def kinds_of(problem: Problem) -> IntArray:
    """The kind of each layer: those are of one that load alike at least, shape (layers,)."""
    known: dict[bytes, int] = {}
    rows = (own.tobytes() for own in problem.least_loads())
    return np.array([known.setdefault(own, len(known)) for own in rows], dtype=np.intp)


def _loads_of_kinds(
    problem: Problem, overlap: Overlap, kinds: IntArray, choice: Choice
) -> FloatArray:
    """What the windows of all layers of a kind load together, shape (kinds, columns)."""
    loads = overlap.layers.windows(overlap.form.loads, problem.loads(choice))
    out = np.zeros((int(kinds.max(initial=-1)) + 1, loads.shape[1]))
    np.add.at(out, kinds, loads)
    return out
