"""Kernels that ONNX's reference lacks, or has in single precision only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from executors.placement import Array

_ERF = np.vectorize(math.erf, otypes=[np.float64])


class Erf(OpRun):  # type: ignore[misc, unused-ignore]
    """The error function, in double precision: the reference rounds it to single."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (_ERF(x).astype(x.dtype) if x.size else x,)


class Multinomial(OpRun):  # type: ignore[misc, unused-ignore]
    """Draws classes by their unnormalised logarithms of probability."""

    op_domain = ""

    def _run(
        self, x: Array, dtype: Any = None, sample_size: int = 1, seed: float | None = None
    ) -> tuple[Array]:
        generator = np.random.default_rng(int(seed or 0))
        noise = generator.gumbel(size=(x.shape[0], sample_size, x.shape[1]))
        drawn = np.argmax(x[:, None, :] + noise, axis=-1)
        return (drawn.astype(np.int64 if dtype == onnx.TensorProto.INT64 else np.int32),)


KERNELS: tuple[type[OpRun], ...] = (Erf, Multinomial)
