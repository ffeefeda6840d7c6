"""Time of the shard of an operator: the larger of arithmetic and data movement, plus the launch.

Source: Williams et al., "Roofline", CACM 52(4), 2009. The achievable fractions below are
    assumptions until they are fitted to
measurements; every plan says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ir.ops import Engine
from topology.cluster import Chip

FloatArray = NDArray[np.float64]

ENGINE_FRACTION: Mapping[Engine, float] = MappingProxyType(
    {
        Engine.MATRIX: 1.0,
        Engine.CONVOLUTION: 0.7,  # assumed, not fitted
        Engine.ATTENTION: 0.5,  # assumed; published fused kernels reach 0.35 to 0.53 of peak
    }
)
"""Achievable rate of an engine over that of a large matrix product."""


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """Times on one chip."""

    chip: Chip

    def rate(self, engine: Engine, dtype: str) -> float:
        """Achievable FLOP/s of an engine for operands of a type.

        A type without its own matrix rate runs at the rate of float32, 64-bit types at half of it.
        """
        if engine not in ENGINE_FRACTION:
            return self.chip.vector_flops
        peaks = self.chip.peak_flops
        peak = peaks.get(dtype) or peaks.get("float32") or self.chip.vector_flops
        if dtype == "float64":
            peak /= 2
        return peak * self.chip.matmul_efficiency * ENGINE_FRACTION[engine]

    def time_s(
        self, engine: Engine, dtype: str, flops: FloatArray, nbytes: FloatArray, launches: int = 1
    ) -> FloatArray:
        """Seconds of one pass.

        Args:
            engine: which unit computes.
            dtype: element type of the operands.
            flops: shape (C,), operations of one device.
            nbytes: shape (C,), bytes that one device reads and writes.
            launches: kernels.

        Returns:
            Shape (C,), seconds.
        """
        if engine is Engine.VIEW:
            return np.zeros_like(flops)
        bandwidth = self.chip.memory_bandwidth_bytes_per_s * self.chip.memory_efficiency
        return (
            np.maximum(flops / self.rate(engine, dtype), nbytes / bandwidth)
            + launches * self.chip.launch_latency_s
        )

    def stream_s(self, nbytes: FloatArray) -> FloatArray:
        """Seconds to move bytes through the device's memory, without a launch."""
        return nbytes / (self.chip.memory_bandwidth_bytes_per_s * self.chip.memory_efficiency)
