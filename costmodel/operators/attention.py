"""Time of the core of attention: scores, softmax and weighted values, in one kernel or in several.

A fused kernel never writes the scores. Matrix units and vector units work on them side by side,
and where heads are narrow the exponentials, not the products, set the pace.
Sources: Dao, FlashAttention-2, arXiv 2307.08691, section 3 (work per tile, five products backward);
Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.1 (softmax against products).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.operators.sizes import FloatArray, Sizes, arrays, smooth_maximum

ROWS_PER_TILE = 128.0
"""Query rows that one unit works on at a time; key rows of a tile, too."""

_SHARPNESS = 2.0
"""How far products and softmax overlap; 1.5 to 4 fit alike."""

UNFUSED_BYTES = 13.0
UNFUSED_BYTES_BACKWARD = 17.0
"""Bytes that kernels apart move for every score, besides the products' own: scaling, mask, softmax
and dropout of 16-bit scores. Source: operators of Megatron-LM before FlashAttention, counted."""

UNFUSED_KERNELS = 4.0
"""Kernels besides the two products (four backward)."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of attention on one device; each a number or one per candidate."""

    batch: Sizes
    heads: Sizes
    kv_heads: Sizes
    """Heads of keys and values; as many as `heads` without grouping."""

    query: Sizes
    """Rows of queries, per sequence."""

    keys: Sizes
    """Rows of keys, per sequence."""

    head_size: Sizes
    value_size: Sizes | None = None
    """Size of a value head; None if that of a key head."""

    def as_arrays(self) -> tuple[FloatArray, ...]:
        """All sizes, in the order of the fields."""
        value = self.head_size if self.value_size is None else self.value_size
        given = (
            self.batch,
            self.heads,
            self.kv_heads,
            self.query,
            self.keys,
            self.head_size,
            value,
        )
        return arrays(*given)


@dataclass(frozen=True, slots=True)
class AttentionRates:
    """Constants of a fused kernel; each a number, or one per candidate."""

    share: Sizes
    """Share of the matrix peak that its products reach forward."""

    share_backward: Sizes
    softmax: Sizes
    """Operations of the vector units for every score forward."""

    softmax_backward: Sizes
    start_keys: Sizes
    """What starting and ending a tile of queries costs, in rows of keys."""


def fused_attention_s(
    shape: AttentionShape,
    chip: tuple[Sizes, Sizes, Sizes, Sizes],
    rates: AttentionRates,
    *,
    causal: bool,
    backward: bool,
) -> FloatArray:
    """Seconds of one fused kernel, without its start.

    Args:
        shape: sizes on one device.
        chip: its units, matrix FLOP/s for the type, vector FLOP/s and memory bytes per second.
        rates: constants of the kernel.
        causal: the last row sees all keys, each row before it one key less.
        backward: the gradient pass, which computes the scores again.

    The chip is as fast as all units together, but no faster than one unit with the longest tile.
    """
    batch, heads, _, query, keys, head, value = shape.as_arrays()
    units, peak, vector, bandwidth = arrays(*chip)
    tiles = batch * heads * np.ceil(query / ROWS_PER_TILE)
    seen = keys
    if causal:
        seen = keys - np.maximum(np.minimum(query, keys) - ROWS_PER_TILE, 0.0) / 2
    longest = units * (keys + rates.start_keys)
    scores = ROWS_PER_TILE * np.maximum(tiles * (seen + rates.start_keys), longest)
    width = 2 * (3 * head + 2 * value) if backward else 2 * (head + value)
    share = rates.share_backward if backward else rates.share
    softmax = rates.softmax_backward if backward else rates.softmax
    busy = scores * smooth_maximum(width / (peak * share), softmax / vector, _SHARPNESS)
    return np.maximum(busy, moved_bytes(shape, backward=backward) / bandwidth)


def moved_bytes(shape: AttentionShape, *, backward: bool, element_bytes: float = 2.0) -> FloatArray:
    """Bytes of queries, keys, values and results that a kernel reads and writes; backward their
    gradients too.
    """
    batch, heads, kv_heads, query, keys, head, value = shape.as_arrays()
    once = element_bytes * batch * (heads * query + kv_heads * keys) * (head + value)
    return np.asarray(once * (2 if backward else 1))
