"""Types that the formulas of operators share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

Sizes: TypeAlias = float | FloatArray
"""One size, or one per candidate; several arguments are broadcast."""


def arrays(*given: Sizes) -> tuple[FloatArray, ...]:
    """Sizes as arrays of numbers."""
    return tuple(np.asarray(each, np.float64) for each in given)


def smooth_maximum(first: FloatArray, second: FloatArray, sharpness: Sizes) -> FloatArray:
    """Larger of two times of work that overlaps in part: both to a power, added, and back.

    A sharpness of 1 is the sum (nothing overlaps), a large one the maximum (all does).
    """
    top = np.maximum(np.maximum(first, second), np.finfo(np.float64).tiny)
    return np.asarray(
        top * ((first / top) ** sharpness + (second / top) ** sharpness) ** (1.0 / sharpness)
    )
