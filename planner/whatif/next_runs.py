"""Which runs, once measured, would narrow a ranking of layouts most.

Logarithms of the steps are a Gaussian process: each has its predicted middle and the deviation of
its interval, and two are as alike as `costmodel.training.neighbours` has them. A measured run moves
the others that are like it. What it is worth is the knowledge gradient (Frazier, Powell and
Dayanik, INFORMS Journal on Computing 21(4), 2009): how much shorter the step of the then best
layout is expected to be than that of the best today. Runs are chosen one after another, each with
the uncertainty that the chosen ones leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.training.neighbours import NOISE, covariance
from costmodel.training.predict import Prediction
from costmodel.training.records import TrainingRun
from costmodel.training.table import RunTable

__all__ = ["NextRun", "next_runs"]

FloatArray = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_NINE_TENTHS = 1.645
"""Deviations from the middle of a normal distribution to either end of its 90 % interval."""


@dataclass(frozen=True, slots=True)
class NextRun:
    """A run that is worth measuring."""

    number: int
    """Its place in the ranking, from 0."""
    saves: float
    """By how much the best layout is expected to be faster once this run and those before it are
    measured, as a share of the step: what this run adds."""


def next_runs(
    runs: Sequence[TrainingRun], found: Sequence[Prediction], count: int
) -> tuple[NextRun, ...]:
    """The runs that are worth most, the best first.

    Args:
        runs: N layouts of one job.
        found: what is predicted of each; those without an interval are not compared.
        count: wanted at most.
    """
    numbers = [n for n, each in enumerate(found) if not each.unlike]
    if len(numbers) < 2:
        return ()
    some = [runs[number] for number in numbers]
    like = covariance(RunTable.of(some), np.array([run.machine for run in some]))
    spread = np.array([np.log(found[n].high_s / found[n].low_s) for n in numbers])
    deviations = spread / (2.0 * _NINE_TENTHS) / np.sqrt(np.diag(like))
    left = like * deviations[:, None] * deviations[None, :]
    middle = np.log([found[number].step_s for number in numbers])
    chosen: list[NextRun] = []
    taken = [False] * len(numbers)
    for _ in range(min(count, len(numbers))):
        worth = _worth(middle, left)
        free = [n for n in range(len(numbers)) if not taken[n]]
        best = max(free, key=lambda n: worth[n])
        taken[best] = True
        chosen.append(NextRun(numbers[best], float(worth[best])))
        left = left - np.outer(left[best], left[best]) / (left[best, best] + NOISE**2)
    return tuple(chosen)


def _worth(middle: FloatArray, left: FloatArray) -> FloatArray:
    """What each run is worth if it is measured next, in logarithms of the step; shape (N,).

    Args:
        middle: logarithms of the steps, shape (N,).
        left: their covariance, shape (N, N).
    """
    moves = left / np.sqrt(np.diag(left) + NOISE**2)[:, None]
    least = [(middle + move * _NODES[:, None]).min(axis=1) @ _WEIGHTS for move in moves]
    return np.asarray(np.maximum(middle.min() - np.array(least), 0.0))
