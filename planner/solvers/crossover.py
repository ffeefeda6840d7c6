"""The best choice that takes every node's candidate from some choice that is known.

The choices that were the best under some price differ in few nodes and have few candidates there:
small enough for integer programming, which shares out what one price gives to all layers or to none
(E. Danna, E. Rothberg and C. Le Pape, Mathematical Programming 102, 2005, for the idea of fixing
what good answers agree on).
"""

from __future__ import annotations

import importlib

import numpy as np

from planner.restriction import original_choice, restricted
from planner.solvers.contract import Budget, Solution
from planner.solvers.progress import Incumbent, Meter

WORK = 0.05
"""CP-SAT's own unit of work, per unit of effort; half a second or a second each."""
MAX_PAIRS = 30_000
"""Pairs of candidates beyond which the last choices alone are joined."""
MIN_CHOICES = 4
"""Choices of which fewer are not worth joining."""


def cross(incumbent: Incumbent, meter: Meter, enough: float) -> None:
    """Offer the best mixture of the pool's choices and the answer, or one whose gap is enough."""
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
    prove = importlib.import_module("planner.solvers.ilp").prove
    target_s = incumbent.bound_s * (1 + enough)
    part = restricted(incumbent.problem, allowed)
    found: Solution = prove(part, budget, warm, work=WORK, target_s=target_s)
    meter.truncated |= found.truncated
    if found.choice is not None:
        incumbent.offer(original_choice(allowed, found.choice), "crossover")


def _allowed(pool: list[tuple[int, ...]]) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Candidates of each node in any of the choices, sorted."""
    return [np.unique(column) for column in np.array(pool, dtype=np.intp).T]


def _pairs(incumbent: Incumbent, allowed: list[np.ndarray[tuple[int], np.dtype[np.intp]]]) -> int:
    sizes = [len(keep) for keep in allowed]
    return sum(sizes[u] * sizes[v] for u, v in incumbent.problem.edges)
