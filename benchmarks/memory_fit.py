"""What a software profile keeps in memory, fitted to published peaks by least squares of relative
errors with weak priors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.fitting import Prior
from costmodel.training.memory import MemoryConstants, reported_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.families import MemoryFamily
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["fit_memory"]

_NOISE = 0.08
"""Relative error of one row that counts as one."""

_PRIORS: Mapping[str, Prior] = {
    "activations": Prior(1.0, 0.25, 0.1, 3.0),
    "selective_kept": Prior(0.5, 0.4, 0.05, 1.0),
    "logit_bytes": Prior(10.0, 0.35, 2.0, 24.0),
    "context_bytes": Prior(1e9, 0.7, 1e8, 8e9),
    "reserve": Prior(1.06, 0.03, 1.0, 1.3),
}
"""Priors by name; their centres are replaced by what is counted for a profile."""


def fit_memory(
    table: RunTable, measured_bytes: FloatArray, family: MemoryFamily
) -> MemoryConstants:
    """Constants under which the runs of a table take the measured memory best."""
    from scipy.optimize import least_squares  # noqa: PLC0415  half a second to import

    start = replace(MemoryConstants(), **family.counted)
    priors = [_PRIORS[name] for name in family.fitted]
    centre = np.log([getattr(start, name) for name in family.fitted])
    spread = np.array([prior.spread for prior in priors])
    low = np.log([prior.low for prior in priors])
    high = np.log([prior.high for prior in priors])

    def at(point: FloatArray) -> MemoryConstants:
        values = np.exp(point)
        return replace(start, **dict(zip(family.fitted, values.tolist(), strict=True)))

    def residuals(point: FloatArray) -> FloatArray:
        predicted = reported_bytes(table, at(point), family.counter)
        errors = (np.log(predicted) - np.log(measured_bytes)) / _NOISE
        soft = np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0))
        return np.concatenate([soft, (point - centre) / spread])

    begin = np.clip(centre, low + 1e-6, high - 1e-6)
    return at(least_squares(residuals, begin, bounds=(low, high), x_scale=spread).x)
