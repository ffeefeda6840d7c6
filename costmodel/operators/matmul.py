"""Time of a matrix product by its shape: tiles, waves, a split inner dimension, traffic, heat.

A kernel cuts the result into tiles, and the chip's units (SMs, cube cores) work them off in waves.
Source of the form: NVIDIA, "Matrix Multiplication Background User's Guide" (tile and wave
quantisation); Osama et al., "Stream-K", arXiv 2301.03598 (splitting the inner dimension, partial
waves). The constants are fitted, see docs/operator-times.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from costmodel.operators.sizes import FloatArray, Sizes, arrays, smooth_maximum

_TILES = (
    (256, 256), (256, 128), (128, 256), (256, 64), (128, 128), (128, 64), (64, 128), (64, 64),
)  # fmt: skip
"""Rows and columns of the tiles of the result that kernels come in."""

_REFERENCE_EDGE = 64.0 / 256 + 64.0 / 128
"""What `tile_penalty` is counted against: the edges of a tile of 256 x 128."""

_SPLITS = np.array([1.0, 2.0, 4.0, 8.0])
"""Parts of the inner dimension that kernels are tried with."""

_PARTIAL_BYTES = 8.0
"""A part of a sum is written and read in float32."""


_PIECE = 4096
"""Products that are priced at once: more leave the cache and take six times as long each."""


@dataclass(frozen=True, slots=True)
class MatmulRates:
    """Constants of matrix products on one chip; each a number, or one per candidate."""

    units: Sizes
    """Cores that share one product: SMs, cube cores."""

    share: Sizes
    """Share of the peak that tiles of 256 x 128 reach inside, on a cool chip."""

    tile_penalty: Sizes
    """How much the edges of a tile cost: a tile of r x c needs 1 + penalty (64/r + 64/c)."""

    start_length: Sizes
    """What filling and draining a unit for a tile costs, as length of the inner dimension."""

    blend: Sizes
    """Share of a partial last wave that is not lost, in [0, 1)."""

    split_cost: Sizes
    """Traffic of partial sums when the inner dimension is split, over its bytes at peak."""

    memory: Sizes
    """Share of the peak memory bandwidth."""

    sharpness: Sizes
    """How far arithmetic and traffic overlap: 1 not at all, large ones wholly."""

    throttle: Sizes
    """Part by which a long kernel is slower than a short one of the same efficiency: the chip
    lowers its clock to keep to its power."""

    throttle_after_s: Sizes
    """Seconds of a kernel after which half of the throttle is felt."""

    start_s: Sizes
    """Seconds from the start of a kernel to its first useful work, with its end."""

    largest_tile: Sizes
    """Elements of the largest tile that kernels of this architecture have."""

    fewest_rows: Sizes
    """Rows of the lowest tile at which its matrix unit runs at the full rate."""

    def sustained(self) -> MatmulRates:
        """The same chip in a long run: every kernel feels the throttle."""
        return replace(self, throttle_after_s=0.0)

    def smooth(self) -> MatmulRates:
        """The same in a long run, without what hangs on the last tile: partial waves cost their
        part, and traffic hides behind arithmetic.

        For comparing splits of one product: which tile a library takes, and so how full its last
        wave is, changes with its release, and a plan should not turn on it.
        """
        return replace(self.sustained(), blend=1.0, sharpness=math.inf)


def matmul_s(
    sizes: tuple[Sizes, Sizes, Sizes, Sizes],
    flops: Sizes,
    bandwidth: Sizes,
    rates: MatmulRates,
    *,
    element_bytes: Sizes = 2.0,
    nbytes: Sizes | None = None,
) -> FloatArray:
    """Seconds of one kernel of matrix products.

    Args:
        sizes: batch, m, n and k of products of m x k by k x n; numbers or one per candidate.
        flops: peak rate of the chip for this type of element.
        bandwidth: peak bandwidth of its memory, bytes per second.
        rates: constants of the chip.
        element_bytes: bytes of one element.
        nbytes: what the kernel reads and writes, if not both operands and the result.

    Returns:
        Seconds, in the broadcast shape of the arguments. Never falls with a size, never rises with
        a rate.
    """
    batch, m, n, k, peak, memory = arrays(*sizes, flops, bandwidth)
    computed = _in_pieces((batch, m, n, k), peak, memory, rates)
    if nbytes is None:
        nbytes = element_bytes * batch * (m * k + k * n + m * n)
    moved = np.asarray(nbytes / (memory * rates.memory))
    time = smooth_maximum(computed, moved, rates.sharpness)
    with np.errstate(divide="ignore"):
        cool = (rates.throttle_after_s / np.asarray(time)) ** 2
    return np.asarray(time * (1.0 + rates.throttle / (1.0 + cool)) + rates.start_s)


def _in_pieces(
    sizes: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    peak: FloatArray,
    bandwidth: FloatArray,
    rates: MatmulRates,
) -> FloatArray:
    """`_computed_s` of so many products at a time as fit into a processor's cache."""
    constants = [np.asarray(getattr(rates, field.name)) for field in fields(MatmulRates)]
    given = [*sizes, peak, bandwidth, *constants]
    shape = np.broadcast_shapes(*(each.shape for each in given))
    if math.prod(shape) <= _PIECE:
        return _computed_s(sizes, peak, bandwidth, rates, len(shape))
    flat = [each if each.ndim == 0 else np.broadcast_to(each, shape).ravel() for each in given]
    out = np.empty(math.prod(shape))
    for start in range(0, len(out), _PIECE):
        cut = slice(start, start + _PIECE)
        batch, m, n, k, rate, memory, *rest = (e if e.ndim == 0 else e[cut] for e in flat)
        out[cut] = _computed_s((batch, m, n, k), rate, memory, MatmulRates(*rest), 1)
    return out.reshape(shape)


def _computed_s(
    sizes: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    peak: FloatArray,
    bandwidth: FloatArray,
    rates: MatmulRates,
    rank: int,
) -> FloatArray:
    """Seconds of the arithmetic with the best tile and the best split of the inner dimension.

    `rank` is that of the broadcast arguments.
    """
    batch, m, n, k = sizes
    splits = _SPLITS.reshape(-1, *(1,) * rank)
    partial = np.where(splits > 1, splits * _PARTIAL_BYTES, 0.0) * rates.split_cost
    reduction = partial * (batch * m * n / bandwidth)
    inner = k / splits + rates.start_length
    unit_rate = peak * rates.share / rates.units
    best = np.full((), np.inf)
    for rows, columns in _TILES:
        usable = np.asarray(rates.largest_tile) >= rows * columns
        usable &= np.asarray(rates.fewest_rows) <= rows
        if not np.any(usable):
            continue
        edges = 1.0 + rates.tile_penalty * (64.0 / rows + 64.0 / columns)
        edges = edges / (1.0 + rates.tile_penalty * _REFERENCE_EDGE)
        step = 2.0 * rows * columns * edges / unit_rate
        waves = np.ceil(m / rows) * np.ceil(n / columns) * batch * splits / rates.units
        waves = np.ceil(waves) * (1.0 - rates.blend) + np.maximum(waves, 1.0) * rates.blend
        time = np.min(waves * step * inner + reduction, axis=0)
        best = np.minimum(best, np.where(usable, time, np.inf))
    return np.asarray(best)
