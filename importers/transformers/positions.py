"""Positions inside attention: rotary embedding and biases by distance."""

from __future__ import annotations

import numpy as np

from importers.transformers.fillings import causal_mask, distance_buckets, rotary
from importers.transformers.writer import Value, Writer


def turned(writer: Writer, value: Value) -> Value:
    """Queries or keys `[batch, heads, rows, width]` turned by position, the two halves of the width
    as the two coordinates.

    Source: Su et al., RoFormer, arXiv 2104.09864, section 3.4.2.
    """
    *_, rows, width = writer.dims(value)
    cosine = writer.constant("rotary/cosine", rotary(np.cos, 2), (1, 1, rows, width))
    sine = writer.constant("rotary/sine", rotary(np.sin, 2), (1, 1, rows, width))
    straight = writer.mul(value, cosine)
    first = writer.cut(value, 3, 0, width // 2)
    second = writer.cut(value, 3, width // 2, None)
    crossed = writer.concat(3, writer.neg(second), first)
    return writer.add(straight, writer.mul(crossed, sine))


def turned_in_pairs(writer: Writer, value: Value) -> Value:
    """The same with neighbours as the two coordinates, as DeepSeek has it; the result has the first
    coordinates in front.
    """
    *_, rows, width = writer.dims(value)
    half = (1, 1, rows, width // 2)
    cosine = writer.constant("rotary/cosine", rotary(np.cos, 1), half)
    sine = writer.constant("rotary/sine", rotary(np.sin, 1), half)
    even, odd = writer.cut(value, 3, 0, None, 2), writer.cut(value, 3, 1, None, 2)
    parts = [(even, cosine), (odd, sine), (odd, cosine), (even, sine)]
    a, b, c, d = (writer.mul(*pair) for pair in parts)
    return writer.concat(3, writer.sub(a, b), writer.add(c, d))


def distance_bias(
    writer: Writer, module: str, buckets: int, heads: int, rows: int, *, causal: bool
) -> Value:
    """What T5 adds to the scores, `[heads, rows, rows]`: a learned number for each head and
    distance, and the causal mask. Without a batch, for scores of one sample would look the same.

    Source: Raffel et al., arXiv 1910.10683, section 2.1.
    """
    with writer.module(module):
        table = writer.parameter(f"{module}.weight", buckets, heads)
        distances = writer.constant(
            f"{module}/distances", distance_buckets(buckets, causal=causal), (rows, rows), "int64"
        )
        bias = writer.transpose(writer.gather(table, distances, 0), 2, 0, 1)
        if not causal:
            return bias
        mask = writer.constant("attention/causal_mask_by_head", causal_mask, (1, rows, rows))
        return writer.add(bias, mask)
