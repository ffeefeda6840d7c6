"""What the law of matrix products is compared with, fitted on the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.matmul_fit import ELEMENT_BYTES, LOSS_SCALE, Rows, System

FloatArray = NDArray[np.float64]


def flat_rate(systems: Sequence[System], train: Rows, test: Rows) -> FloatArray:
    """Seconds of the rows at one share of the peak per chip."""
    ideal, measured = _arithmetic_s(systems, train), train.time_s
    slower = np.array(
        [np.median((measured / ideal)[train.system == i]) for i in range(len(systems))]
    )
    return np.asarray(_arithmetic_s(systems, test) * slower[test.system])


def plain_roofline(systems: Sequence[System], train: Rows, test: Rows) -> FloatArray:
    """Seconds by the larger of arithmetic and traffic plus a start: three constants per chip."""
    from scipy.optimize import least_squares  # noqa: PLC0415  slow to import

    out = np.empty(len(test.m))
    for i in range(len(systems)):
        part, own = train.where(train.system == i), test.system == i
        compute, traffic = _arithmetic_s(systems, part), _traffic_s(systems, part)
        start = np.log([0.8, 0.8, 3e-6])
        logged = np.log(part.time_s)

        def residuals(
            line: FloatArray,
            compute: FloatArray = compute,
            traffic: FloatArray = traffic,
            logged: FloatArray = logged,
        ) -> FloatArray:
            return np.log(_roofline_s(line, compute, traffic)) - logged

        line = least_squares(residuals, start, loss="soft_l1", f_scale=LOSS_SCALE).x
        mine = test.where(own)
        out[own] = _roofline_s(line, _arithmetic_s(systems, mine), _traffic_s(systems, mine))
    return out


def _roofline_s(line: FloatArray, compute: FloatArray, traffic: FloatArray) -> FloatArray:
    rate, memory, start = np.exp(line)
    return np.asarray(np.maximum(compute / rate, traffic / memory) + start)


def _arithmetic_s(systems: Sequence[System], rows: Rows) -> FloatArray:
    peak = np.array([s.peak for s in systems])[rows.system]
    return np.asarray(2 * rows.m * rows.n * rows.k / peak)


def _traffic_s(systems: Sequence[System], rows: Rows) -> FloatArray:
    bandwidth = np.array([s.bandwidth for s in systems])[rows.system]
    moved = rows.m * rows.k + rows.k * rows.n + rows.m * rows.n
    return np.asarray(ELEMENT_BYTES * moved / bandwidth)
