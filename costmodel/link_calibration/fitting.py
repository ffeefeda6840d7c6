"""Constants of a machine from measured collectives, by robust least squares.

The residual of a measurement is log(predicted / measured). Its loss is soft-L1: quadratic up to
10 %, linear beyond, so that outliers pull little. Every constant is held near its present value,
by a weight so small that a handful of measurements outweighs it; what no measurement depends on
keeps that value and is said to be untold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.collectives.curves import FloatArray
from costmodel.link_calibration.machines import Bench, constants_of, with_constants
from costmodel.link_calibration.measurements import (
    CalibrationError,
    GroupShape,
    Measurement,
)
from topology.cluster import Cluster

__all__ = ["Constant", "LinkFit", "fit_links", "predicted_s"]

ROBUST_FROM = 0.1
"""Relative error beyond which a measurement counts as an outlier."""
PRIOR_WEIGHT = 0.1
"""Of holding a constant near its start, against 1 for a measurement."""
LARGE_BYTES = 64e6
LARGE_WEIGHT = 3.0
"""Of messages that are large: they scatter less, and decide how long a step takes."""
FEWEST = 4
"""Measurements below which nothing is fitted."""
INTERVAL = 1.96
"""Standard deviations of an interval of 95 %."""
_NUDGE = 1e-3
_STILL = 1e-9


@dataclass(frozen=True, slots=True)
class Constant:
    """One fitted number."""

    name: str
    """As `with_constants` reads it: `card.latency_s`, `library.ll_share`."""

    value: float
    before: float
    """What it was before."""

    low: float
    """Lower end of the interval of 95 %."""
    high: float

    told: int
    """Measurements that depend on it; 0 if it keeps its value."""


@dataclass(frozen=True, slots=True)
class LinkFit:
    """What came out."""

    cluster: Cluster
    """The machine with the fitted constants."""

    constants: tuple[Constant, ...]
    errors: FloatArray
    """Predicted over measured minus 1, shape (measurements,)."""
    outliers: tuple[Measurement, ...]
    """More than three times the typical error away."""
    remarks: tuple[str, ...]
    """What the measurements do not tell."""

    @property
    def values(self) -> dict[str, float]:
        """Fitted values by name."""
        return {each.name: each.value for each in self.constants}


def predicted_s(
    bench: Bench, measurements: Sequence[Measurement], cluster: Cluster | None = None
) -> FloatArray:
    """Predictions for measurements, shape (measurements,)."""
    out = np.empty(len(measurements))
    by_group: dict[GroupShape, list[int]] = {}
    for index, each in enumerate(measurements):
        by_group.setdefault(each.group, []).append(index)
    for group, indices in by_group.items():
        nbytes = np.array([measurements[i].nbytes for i in indices])
        out[indices] = bench.curve(group, cluster).time_s(nbytes)
    return out


def fit_links(bench: Bench, measurements: Sequence[Measurement]) -> LinkFit:
    """The constants that fit best.

    Args:
        bench: the machine that was measured, with constants to start from.
        measurements: of any of its groups.

    Raises:
        CalibrationError: too few measurements, or groups that the machine does not have.
    """
    _check(measurements)
    problem = _Problem(bench, measurements)
    solution, spread = problem.solve()
    errors = np.exp(problem.logs(solution)) - 1
    fitted = {name: float(np.exp(x)) for name, x in zip(problem.names, solution, strict=True)}
    constants = []
    for name, before in problem.start.items():
        if name not in fitted:
            constants.append(Constant(name, before, before, 0.0, np.inf, 0))
            continue
        value, wide = fitted[name], float(np.exp(min(spread[problem.names.index(name)], 50.0)))
        told = problem.told[name]
        constants.append(Constant(name, value, before, value / wide, value * wide, told))
    typical = float(np.median(np.abs(errors)))
    far = np.abs(errors) > max(3 * typical, 2 * ROBUST_FROM)
    return LinkFit(
        with_constants(bench.cluster, fitted),
        tuple(constants),
        errors,
        tuple(m for m, is_far in zip(measurements, far, strict=True) if is_far),
        tuple(_remarks(measurements, constants)),
    )


def _check(measurements: Sequence[Measurement]) -> None:
    sizes = {each.nbytes for each in measurements}
    if len(measurements) < FEWEST or len(sizes) < 2:
        raise CalibrationError(
            f"{len(measurements)} measurements of {len(sizes)} sizes are too few for a fit",
            "the logs",
            f"measure at least {FEWEST} sizes, from few KiB to hundreds of MiB",
        )


def _remarks(measurements: Sequence[Measurement], constants: Sequence[Constant]) -> list[str]:
    """What to say of thin data."""
    out = []
    told = [each for each in constants if each.told]
    if len(measurements) < 3 * len(told):
        out.append(
            f"{len(measurements)} measurements for {len(told)} constants: too few to tell them "
            "apart; they stay near their start where intervals are wide"
        )
    sizes = [each.nbytes for each in measurements]
    if max(sizes) < LARGE_BYTES:
        out.append(f"no message of {LARGE_BYTES / 1e6:.0f} MB or more: bandwidths are guesses")
    if min(sizes) > 2**18:
        out.append("no message of 256 KiB or less: latencies are guesses")
    untold = [each.name for each in constants if not each.told]
    if untold:
        out.append(f"no measurement depends on {', '.join(untold)}: kept as they were")
    return out


class _Problem:
    """The least-squares problem in the logarithms of the constants that data depend on."""

    def __init__(self, bench: Bench, measurements: Sequence[Measurement]) -> None:
        self.bench, self.measurements = bench, measurements
        self.start = constants_of(bench.cluster)
        self.measured = np.log([each.time_s for each in measurements])
        sizes = np.array([each.nbytes for each in measurements])
        self.weights = np.where(sizes >= LARGE_BYTES, LARGE_WEIGHT, 1.0)
        self.told = self._told()
        self.names = [name for name, count in self.told.items() if count]
        self.origin = np.log([self.start[name] for name in self.names])

    def solve(self) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the constants, and half the width of their intervals."""
        from scipy.optimize import least_squares  # noqa: PLC0415  slow to import

        found = least_squares(self._residuals, self.origin, loss="soft_l1", f_scale=ROBUST_FROM)
        raw = np.asarray(found.fun)[: len(self.measurements)]
        scale = float(np.median(np.abs(raw))) / 0.6745
        curvature = np.asarray(found.jac).T @ np.asarray(found.jac)
        covariance = np.linalg.pinv(curvature) * max(scale, 1e-6) ** 2
        return np.asarray(found.x), INTERVAL * np.sqrt(np.maximum(np.diag(covariance), 0.0))

    def logs(self, x: FloatArray) -> FloatArray:
        """log(predicted / measured), shape (measurements,)."""
        values = dict(zip(self.names, np.exp(x).tolist(), strict=True))
        return self._logs(values)

    def _logs(self, values: Mapping[str, float]) -> FloatArray:
        cluster = with_constants(self.bench.cluster, {**self.start, **values})
        times = predicted_s(self.bench, self.measurements, cluster)
        return np.asarray(np.log(times) - self.measured)

    def _residuals(self, x: FloatArray) -> FloatArray:
        held = PRIOR_WEIGHT * (x - self.origin)
        return np.concatenate([self.weights * self.logs(x), held])

    def _told(self) -> dict[str, int]:
        """How many measurements change with each constant, at its start or far from it."""
        out = {}
        here = self._logs({})
        for name, value in self.start.items():
            moved = np.zeros(len(here), dtype=bool)
            for factor in (1 + _NUDGE, 0.5, 2.0):
                moved |= np.abs(self._logs({name: value * factor}) - here) > _STILL
            out[name] = int(moved.sum())
        return out
