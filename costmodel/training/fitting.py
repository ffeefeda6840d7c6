"""Fitting of the constants: least squares of relative errors in log space with weak priors.

    minimise  sum_i w_i rho((ln predicted_i - ln measured_i) / 0.06) + sum_c ((x_c - p_c) / s_c)^2

with rho(z) = 4 ln(1 + z^2 / 4), x the logarithm of a rate or a time, or a share
itself, p its prior. A prior weighs as much as one row that is off by 6 %, so that few rows say
little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.training.step import step_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["PRIORS", "Prior", "fit"]

_NOISE = 0.06
"""Relative error of one row that counts as one: repeats of published runs differ by about this
much (0.7 % to 6 % median, by block)."""

_STEP = 1e-3
"""Of a constant for its derivative, in spreads of its prior."""

_TAIL = 2.0
"""Noises beyond which an error counts less and less."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a constant before any row: value, spread and physical limits."""

    value: float
    spread: float
    low: float
    high: float
    linear: bool = False
    """Whether the spread is of the value itself, as for shares; else of its logarithm."""

    def coordinate(self, value: float) -> float:
        """Where a value lies in the space of the fit."""
        return value if self.linear else float(np.log(value))

    def constant(self, coordinate: float) -> float:
        """The value at a coordinate."""
        return float(coordinate if self.linear else np.exp(coordinate))


PRIORS: Mapping[str, Prior] = {
    "matmul": Prior(0.8, 0.15, 0.3, 1.0),
    "matmul8": Prior(0.65, 0.25, 0.2, 1.0),
    "matmul4": Prior(0.5, 0.3, 0.1, 1.0),
    "mx": Prior(0.95, 0.1, 0.5, 1.2),
    "grouped": Prior(0.6, 0.4, 0.1, 1.0),
    "expert_bytes": Prior(0.0, 15.0, 0.0, 200.0, linear=True),
    "memory": Prior(0.75, 0.25, 0.2, 1.0),
    "attention": Prior(0.45, 0.35, 0.05, 1.0),
    "small_heads": Prior(0.3, 0.3, 0.0, 1.0, linear=True),
    "host_s": Prior(4e-4, 0.3, 5e-5, 8e-3),
    "graphed": Prior(0.3, 0.3, 0.05, 1.0),
    "host_tp_s": Prior(1e-4, 1.0, 1e-6, 2e-3),
    "host_micro_s": Prior(2e-3, 1.0, 1e-5, 5e-2),
    "start_s": Prior(3e-5, 1.0, 1e-6, 1e-3),
    "tp_hidden": Prior(0.0, 0.25, 0.0, 0.95, linear=True),
    "fused_hidden": Prior(0.25, 0.2, 0.0, 0.95, linear=True),
    "dp_hidden": Prior(0.3, 0.3, 0.0, 0.95, linear=True),
    "ep_hidden": Prior(0.3, 0.3, 0.0, 0.95, linear=True),
    "cp_hidden": Prior(0.6, 0.3, 0.0, 0.95, linear=True),
    "fetch_shown": Prior(0.1, 0.1, 0.0, 1.0, linear=True),
    "pp_shown": Prior(0.3, 0.3, 0.01, 1.0),
    "swap": Prior(0.75, 0.35, 0.0625, 1.25),
    "logit_bytes": Prior(30.0, 0.5, 4.0, 120.0),
    "old_release": Prior(1.5, 0.3, 1.0, 4.0),
    "step_s": Prior(5e-3, 1.0, 1e-4, 1.0),
}
"""Priors of the constants by name; a family with a parent is centred on the parent's values."""


def fit(
    table: RunTable,
    measured_s: FloatArray,
    names: Sequence[str],
    start: StepConstants,
    *,
    weights: FloatArray | None = None,
    tightness: float = 1.0,
) -> StepConstants:
    """Constants under which the runs of a table take the measured times best.

    Args:
        table: N runs.
        measured_s: their step times, shape (N,).
        names: constants to fit; the others stay as in `start`.
        start: centre of the priors and value of what is not fitted.
        weights: of the rows, shape (N,); 1 each by default.
        tightness: multiplies the spreads of the priors.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415  half a second to import

    sought = _Sought(table, measured_s, names, start, weights, tightness)
    low, high = sought.limits
    solution = least_squares(
        sought.residual,
        np.clip(sought.centre, low + 1e-8, high - 1e-8),
        sought.jacobian,
        bounds=(low, high),
        x_scale=sought.spread,
        max_nfev=60,
    )
    return sought.at(solution.x)


class _Sought:
    """Constants that are sought, as a point, with residuals and their derivatives."""

    def __init__(
        self, table: RunTable, measured_s: FloatArray, names: Sequence[str], start: StepConstants,
        weights: FloatArray | None, tightness: float,
    ) -> None:  # fmt: skip
        self.names, self.start = names, start
        self.priors = priors = [PRIORS[name] for name in names]
        self.centre = np.array(
            [p.coordinate(getattr(start, n)) for n, p in zip(names, priors, strict=True)]
        )
        self.spread = np.array([p.spread for p in priors]) * tightness
        low = np.array([p.coordinate(p.low) for p in priors]) - 1e-9
        high = np.array([p.coordinate(p.high) for p in priors]) + 1e-9
        self.limits = low, high
        self.logs = np.log(measured_s)
        self.scale = (np.ones_like(self.logs) if weights is None else weights) / _NOISE
        count = len(self.logs)
        several = table.take(np.tile(np.arange(count), len(names) + 1))
        self._tables = {1: table, len(names) + 1: several}

    def at(self, point: FloatArray) -> StepConstants:
        """The constants at a point."""
        return _at(self.start, self.names, self.priors, point)

    def residual(self, point: FloatArray) -> FloatArray:
        """Shape (N + names,)."""
        (found,) = self._residuals(point[:, None])
        return np.asarray(found)

    def jacobian(self, point: FloatArray) -> FloatArray:
        """Shape (N + names, names); the points beside are priced in one table."""
        up = point + _STEP * self.spread <= self.limits[1]
        steps = np.where(up, _STEP, -_STEP) * self.spread
        count = len(self.names)
        points = point[:, None] + np.diag(steps) @ np.eye(count, count + 1)
        *moved, here = self._residuals(points)
        slopes: FloatArray = (np.stack(moved) - here) / steps[:, None]
        return slopes.T

    def _residuals(self, points: FloatArray) -> FloatArray:
        """Of points (names, P): shape (P, N + names). A constant is a column of its values."""
        count, rows = points.shape[1], len(self.logs)
        values: dict[str, Any] = {
            name: np.repeat([prior.constant(x) for x in point], rows)
            for name, prior, point in zip(self.names, self.priors, points, strict=True)
        }
        predicted = step_times(self._tables[count], replace(self.start, **values)).total
        errors = np.log(predicted).reshape(count, rows) - self.logs
        beside = (points - self.centre[:, None]) / self.spread[:, None]
        return np.concatenate([_soft(errors * self.scale), beside.T], axis=1)


def _at(
    start: StepConstants, names: Sequence[str], priors: Sequence[Prior], point: FloatArray
) -> StepConstants:
    values = {n: p.constant(x) for n, p, x in zip(names, priors, point, strict=True)}
    return replace(start, **values)


def _soft(errors: FloatArray) -> FloatArray:
    """Residuals whose squares are Cauchy's loss: quadratic near 0, logarithmic far away.

    Rows that are far off have a cause that they do not state, and little to say.
    """
    soft: FloatArray = np.sign(errors) * _TAIL * np.sqrt(np.log1p((errors / _TAIL) ** 2))
    return soft
