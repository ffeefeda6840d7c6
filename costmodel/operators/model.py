"""Times of operators on one chip: every formula behind one noun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from costmodel.operators.attention import (
    UNFUSED_BYTES,
    UNFUSED_BYTES_BACKWARD,
    UNFUSED_KERNELS,
    AttentionShape,
    fused_attention_s,
)
from costmodel.operators.constants import Basis, ChipConstants, attention_rates, chip_constants
from costmodel.operators.matmul import matmul_s
from costmodel.operators.sizes import FloatArray, Sizes, arrays
from ir.dtypes import dtype_bytes
from ir.ops import Engine
from topology.cluster import Chip

ENGINE_FRACTION: Mapping[Engine, float] = MappingProxyType(
    {
        Engine.MATRIX: 1.0,
        Engine.CONVOLUTION: 0.7,  # assumed, not fitted
        Engine.ATTENTION: 0.5,  # assumed; published fused kernels reach 0.35 to 0.53 of peak
    }
)
"""Achievable rate of an engine over that of a large matrix product, where only the amount of
arithmetic is known."""


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """Times on one chip.

    Sizes are numbers or arrays over candidates; they are broadcast, and times have that shape.
    Times hold the start of each kernel on the device, not its launch by the host.
    """

    chip: Chip
    smooth: bool = False
    """Products by `MatmulRates.smooth`: for comparing splits."""

    @property
    def constants(self) -> ChipConstants:
        """What is known of the chip beyond its data sheet."""
        return chip_constants(self.chip)

    @property
    def basis(self) -> Basis:
        """Where the constants of matrix products come from."""
        return self.constants.basis

    def peak_flops(self, dtype: str) -> float:
        """Peak FLOP/s of products of a type.

        A type without a rate runs at that of the next wider one, others at that of float32, and
        if the chip lacks that too on the vector units; 64-bit types at half of float32.
        """
        if dtype == "float64":
            return self.peak_flops("float32") / 2
        return self.chip.peak_flops.get(self.chip.product_type(dtype), self.chip.vector_flops)

    def time_s(
        self, engine: Engine, dtype: str, flops: FloatArray, nbytes: FloatArray, launches: int = 1
    ) -> FloatArray:
        """Seconds of one pass of an operator of which only work and traffic are known.

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
        rate = self.chip.vector_flops
        if engine in ENGINE_FRACTION:
            rate = self.peak_flops(dtype) * self.constants.share * ENGINE_FRACTION[engine]
        starts = launches * self.chip.launch_latency_s
        return np.asarray(np.maximum(flops / rate, self.stream_s(nbytes)) + starts)

    def matmul_s(
        self,
        dtype: str,
        m: Sizes,
        n: Sizes,
        k: Sizes,
        batch: Sizes = 1.0,
        *,
        nbytes: Sizes | None = None,
    ) -> FloatArray:
        """Seconds of `batch` products of an m x k by a k x n matrix in one kernel.

        Args:
            dtype: element type of the operands.
            m: rows of the result.
            n: columns of the result.
            k: length of the inner dimension.
            batch: products.
            nbytes: what the kernel reads and writes, if not both operands and the result.
        """
        return self._product_s(dtype, (batch, m, n, k), nbytes, Engine.MATRIX)

    def convolution_s(
        self,
        dtype: str,
        pixels: Sizes,
        channels: Sizes,
        window: Sizes,
        groups: Sizes = 1.0,
        *,
        nbytes: Sizes,
    ) -> FloatArray:
        """Seconds of a convolution, as the product that its windows make.

        Args:
            dtype: element type of the operands.
            pixels: positions of the result times the batch.
            channels: channels of the result, per group.
            window: channels of the input per group times the size of the window.
            groups: groups, each a product of its own.
            nbytes: image, weights and result; windows overlap and are not written out.
        """
        sizes = (groups, pixels, channels, window)
        return self._product_s(dtype, sizes, nbytes, Engine.CONVOLUTION)

    def _product_s(
        self,
        dtype: str,
        sizes: tuple[Sizes, Sizes, Sizes, Sizes],
        nbytes: Sizes | None,
        engine: Engine,
    ) -> FloatArray:
        known, element = self.constants, dtype_bytes(dtype)
        if not known.shaped:
            batch, m, n, k = arrays(*sizes)
            moved = element * batch * (m * k + k * n + m * n) if nbytes is None else nbytes
            return self.time_s(engine, dtype, 2 * batch * m * n * k, np.asarray(moved))
        rates = replace(known.matmul, share=known.share * ENGINE_FRACTION[engine])
        return matmul_s(
            sizes,
            self.peak_flops(dtype),
            self.chip.memory_bandwidth_bytes_per_s,
            rates.smooth() if self.smooth else rates,
            element_bytes=element,
            nbytes=nbytes,
        )

    def attention_s(
        self,
        dtype: str,
        shape: AttentionShape,
        *,
        fused: bool = True,
        causal: bool = False,
        backward: bool = False,
        kernel: str | None = None,
    ) -> FloatArray:
        """Seconds of scores, softmax and weighted values; not of the projections around them.

        Args:
            dtype: element type of the operands.
            shape: sizes on one device.
            fused: one kernel that keeps scores on the chip (FlashAttention), or products and
                softmax apart with the full square in memory.
            causal: each row sees the keys up to its own; only a fused kernel skips the others.
            backward: the gradient pass instead of the forward pass.
            kernel: one of `attention_kernels()`, None for what the chip's generation usually runs.
        """
        if not fused:
            return self._unfused_attention_s(dtype, shape, backward=backward)
        known = self.constants
        peak, vector = self.peak_flops(dtype), self.chip.vector_flops
        bandwidth = self.chip.memory_bandwidth_bytes_per_s * self.chip.memory_efficiency
        busy = fused_attention_s(
            shape,
            (known.units, peak, vector, bandwidth),
            known.attention if kernel is None else attention_rates(kernel),
            causal=causal,
            backward=backward,
        )
        return busy + known.start_s

    def _unfused_attention_s(
        self, dtype: str, shape: AttentionShape, *, backward: bool
    ) -> FloatArray:
        """Two products over the full square (four backward) and passes over the scores."""
        batch, heads, _, query, keys, head, value = shape.as_arrays()
        each = batch * heads
        products = [(query, keys, head), (query, value, keys)]
        if backward:
            products = [(query, keys, value), (keys, value, query)]
            products += [(query, head, keys), (keys, head, query)]
        traffic = each * query * keys * (UNFUSED_BYTES_BACKWARD if backward else UNFUSED_BYTES)
        time = self.elementwise_s(traffic, UNFUSED_KERNELS)
        for m, n, k in products:
            time = time + self.matmul_s(dtype, m, n, k, each)
        return time

    def elementwise_s(self, nbytes: Sizes, kernels: float = 1.0) -> FloatArray:
        """Seconds of element-wise work that reads and writes so many bytes in so many kernels."""
        (moved,) = arrays(nbytes)
        return self.stream_s(moved) + kernels * self.constants.start_s

    def stream_s(self, nbytes: FloatArray) -> FloatArray:
        """Seconds to move bytes through the device's memory, without a launch."""
        return nbytes / (self.chip.memory_bandwidth_bytes_per_s * self.chip.memory_efficiency)
