"""Another element type on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from executors.checkpoint.boxes_io import Array
from executors.checkpoint.entries import raw_dtype

CONVERTIBLE = ("float16", "bfloat16", "float32", "float64")


def converted(raw: Array, old: str, new: str) -> Array:
    """Elements of one type as those of another, both as raw bits; rounded to nearest, ties to even.

    >>> float_one = np.array([0x3F800000], np.uint32)
    >>> hex(int(converted(float_one, "float32", "bfloat16")[0]))
    '0x3f80'
    """
    if old == new:
        return raw
    with np.errstate(over="ignore", invalid="ignore"):
        values = raw.view(_float(old)).astype(_float(new))
    return values.view(raw_dtype(new))


def _float(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        import ml_dtypes  # noqa: PLC0415

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)
