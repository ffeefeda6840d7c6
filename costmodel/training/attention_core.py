"""Time of the core of attention in a mean layer: scores, softmax and their product with values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.operators import AttentionShape, fused_attention_s

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["core_s", "rate16"]


_SCORE_FORWARD, _SCORE_BACKWARD = 13.0, 17.0
"""Bytes moved per score of unfused attention: scale, mask, softmax and dropout at 16 bits, with
the mask of the dropout (own count of kernels)."""

_DROPOUT = 5.0
"""Of which dropout reads two and writes two and its mask. Models with gated layers are trained
without it (LLaMA, arXiv 2302.13971, and its successors)."""

_UNFUSED_SOFTMAX = 30.0
"""More bytes per score where scale, mask and softmax are kernels of their own, in 32 bits."""


def rate16(table: RunTable, c: StepConstants) -> FloatArray:
    """FLOP/s that large products of 16-bit operands reach."""
    return table.machine.flops16 * table.machine.products16 * c.matmul


def core_s(table: RunTable, c: StepConstants) -> tuple[FloatArray, FloatArray]:
    """Scores, softmax and their product with the values.

    Fused: 2 s^2 (d_k + d_v) FLOPs per head, half of it where causal, 2.5 times backward, 3.5 - 1
    (Dao, arXiv 2307.08691). Small heads run slower in proportion to the softmax that each score
    needs. Unfused: two batched products over the whole square, and the traffic of the scores.
    """
    heads, sequence = table.heads / table.tp, table.seq_len
    value = table.value_size
    seen = sequence * np.where((table.causal > 0) & (table.whole_square <= 0), 0.5, 1.0)
    local = np.where(table.window > 0, np.minimum(table.window, seen), seen)
    share = np.where(table.window > 0, 1.0 / table.global_every, 1.0)
    mean_seen = share * seen + (1.0 - share) * local
    scores = table.micro_batch * heads * sequence / table.cp * mean_seen
    work = 2.0 * scores * (table.head_size + value)
    wide = np.minimum(table.head_size / 128.0, 1.0)
    rate = table.machine.flops16 * c.attention * wide**c.small_heads
    fused = work / rate
    square = table.micro_batch * heads * sequence / table.cp * sequence
    products = 2.0 * square * (table.head_size + value) / (rate16(table, c) * 0.6)
    # Megatron's fused softmax takes only multiples of four rows of (batch x heads).
    fits = (table.micro_batch * heads) % 4 == 0
    more = np.where(fits, 0.0, _UNFUSED_SOFTMAX) - _DROPOUT * table.gated
    forward_bytes, backward_bytes = _SCORE_FORWARD + more, _SCORE_BACKWARD + more
    plain = products + table.machine.stream_s(forward_bytes * square) / c.memory
    plain_back = 2.0 * products + table.machine.stream_s(backward_bytes * square) / c.memory
    fused_back = 2.5 * fused
    if np.any(table.alone > 0):
        alone, alone_back = _kernel_alone_s(table)
        fused = np.where(table.alone > 0, alone, fused)
        fused_back = np.where(table.alone > 0, alone_back, fused_back)
    forward = np.where(table.unfused > 0, plain, fused)
    return forward, np.where(table.unfused > 0, plain_back, fused_back)


def _kernel_alone_s(table: RunTable) -> tuple[FloatArray, FloatArray]:
    """Seconds of the fused kernel that the chip usually runs, as it was measured alone: forward and
    backward. A window is a whole sequence to it.
    """
    rates = table.machine
    shape = AttentionShape(
        table.micro_batch,
        table.heads / table.tp,
        np.maximum(table.kv_heads / table.tp, 1.0),
        table.seq_len / table.cp,
        table.seq_len,
        table.head_size,
        table.value_size,
    )
    chip = (
        rates.shapes.units, rates.flops16, rates.vector_flops,
        rates.memory_bytes_per_s * rates.memory_share,
    )  # fmt: skip
    times = []
    for backward in (False, True):
        half, whole = (
            fused_attention_s(shape, chip, rates.attention, causal=causal, backward=backward)
            for causal in (True, False)
        )
        seen = (table.causal > 0) & (table.whole_square <= 0)
        times.append(np.where(seen, half, whole) + rates.shapes.start_s)
    return times[0], times[1]
