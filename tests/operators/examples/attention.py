"""Examples of attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from executors.placement import Array
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers


def _visible(draw: Draw, *dims: int) -> Array:
    """A boolean mask; some rows may see nothing."""
    return whole_numbers(draw, *dims, below=3) > 0


def _heads_apart(draw: Draw) -> Iterator[Example]:
    """Batch, heads, rows, width: masks of every rank and type."""
    kind, b, s, t, d = "Attention", 2, 4, 6, 4
    query, key, value = floats(draw, b, 4, s, d), floats(draw, b, 4, t, d), floats(draw, b, 4, t, 3)
    out = (b, 4, s, 3)
    yield example(kind, [query, key, value], [out])
    yield example(kind, [query, key, value, floats(draw, s, t)], [out], is_causal=1, scale=0.25)
    yield example(kind, [query, key, value, _visible(draw, 4, 1, t)], [out], softcap=2.0)
    yield example(kind, [query, key, value, _visible(draw, b, 1, s, t)], [out], is_causal=1)
    yield example(kind, [query, key, value, floats(draw, 1, 4, s, t)], [out])
    yield example(kind, [query, key, value, _visible(draw, b, 1, 1, t)], [out], is_causal=1)
    yield example(kind, [query, key, value, floats(draw, b, 4, 1, t)], [out])
    shorter = floats(draw, b, 4, s, t - 2)
    yield example(kind, [query, key, value, shorter], [out], left_window_size=2, is_causal=1)
    lengths = np.array([3, 6])
    data = [query, key, value, None, None, None, lengths]
    yield example(kind, data, [out])
    yield example(kind, [*data[:6], lengths - 1], [out], is_causal=1, length_offset=1)
    mask = floats(draw, 4, s, t)
    yield example(kind, [*data[:3], mask, None, None, lengths], [out], is_causal=1)


def _grouped(draw: Draw) -> Iterator[Example]:
    """Several query heads to each key head; keys and values of earlier rows, handed on."""
    kind, b, s, d = "Attention", 2, 4, 3
    query, key, value = floats(draw, b, 8, s, d), floats(draw, b, 2, s, d), floats(draw, b, 2, s, d)
    yield example(kind, [query, key, value], [(b, 8, s, d)], is_causal=1)
    past = [floats(draw, b, 2, 3, d), floats(draw, b, 2, 3, d)]
    caches = [(b, 2, s + 3, d)] * 2
    data = [query, key, value, None, *past]
    yield example(kind, data, [(b, 8, s, d)], is_causal=1, right_window_size=0, left_window_size=3)
    yield example(kind, data, [(b, 8, s, d), *caches], is_causal=1)
    data = [query, key, value, floats(draw, s, s + 3), *past]
    for mode in range(4):
        results = [(b, 8, s, d), *caches, (b, 8, s, s + 3)]
        yield example(kind, data, results, qk_matmul_output_mode=mode, is_causal=1, softcap=1.5)


def _heads_together(draw: Draw) -> Iterator[Example]:
    """Batch, rows, heads times width."""
    kind, b, s, t = "Attention", 3, 6, 4
    data = [floats(draw, b, s, 8 * 3), floats(draw, b, t, 4 * 3), floats(draw, b, t, 4 * 2)]
    heads: dict[str, Any] = {"q_num_heads": 8, "kv_num_heads": 4}
    yield example(kind, data, [(b, s, 16)], **heads)
    yield example(kind, [*data, _visible(draw, s, t)], [(b, s, 16)], is_causal=1, **heads)
    results = [(b, s, 16), (b, 4, t, 3), (b, 4, t, 2), (b, 8, s, t)]
    yield example(kind, data, results, is_causal=1, qk_matmul_output_mode=3, **heads)


def _attention(draw: Draw) -> Iterator[Example]:
    yield from _heads_apart(draw)
    yield from _grouped(draw)
    yield from _heads_together(draw)


def _packed(draw: Draw) -> Iterator[Example]:
    """Sequences of several lengths, one of them without rows."""
    kind, ends = "PackedMultiHeadAttention", np.array([0, 3, 3, 7], np.int32)
    data = [floats(draw, 7, 8 * 2), floats(draw, 7, 8 * 2), floats(draw, 7, 8 * 3), ends]
    yield example(kind, data, [(7, 24)], num_heads=8)
    yield example(kind, data, [(7, 24)], num_heads=4, scale=0.25)


def _rotary(draw: Draw) -> Iterator[Example]:
    """Positions of every row, of the first row, or in the tables; part of the width."""
    kind = "RotaryEmbedding"
    data, places = floats(draw, 2, 4, 6, 8), whole_numbers(draw, 2, 6, below=9)
    tables = [floats(draw, 9, 4), floats(draw, 9, 4)]
    yield example(kind, [data, *tables, places], [(2, 4, 6, 8)])
    yield example(kind, [data, *tables, np.array([2])], [(2, 4, 6, 8)], interleaved=1)
    first = np.array([2, 0])
    yield example(kind, [data, *tables, first], [(2, 4, 6, 8)], position_offset=1)
    tables = [floats(draw, 9, 2), floats(draw, 9, 2)]
    own: dict[str, Any] = {"rotary_embedding_dim": 4, "position_offset": 2}
    yield example(kind, [data, *tables], [(2, 4, 6, 8)], **own)
    tables = [floats(draw, 4, 6, 2), floats(draw, 4, 6, 2)]
    own = {"num_heads": 6, "rotary_embedding_dim": 4}
    yield example(kind, [floats(draw, 4, 6, 36), *tables], [(4, 6, 36)], **own)
    tables = [floats(draw, 9, 3), floats(draw, 9, 3)]
    operands = [floats(draw, 2, 4, 24), *tables, np.array([3])]
    yield example(kind, operands, [(2, 4, 24)], num_heads=4, interleaved=1)


def _linear_attention(draw: Draw) -> Iterator[Example]:
    """Every rule, with and without a state, grouped heads, decay of a head or of each feature."""
    kind, b, t = "LinearAttention", 4, 3
    heads: dict[str, Any] = {"q_num_heads": 8, "kv_num_heads": 4}
    data = [floats(draw, b, t, 8 * 3), floats(draw, b, t, 4 * 3), floats(draw, b, t, 4 * 2)]
    state, out = floats(draw, b, 4, 3, 2), (b, t, 16)
    yield example(kind, data, [out], update_rule="linear", **heads)
    rate = floats(draw, b, t, 4)
    more = [state, None, rate]
    yield example(kind, [*data, *more], [out, (b, 4, 3, 2)], update_rule="delta", **heads)
    more = [state, floats(draw, b, t, 12)]
    yield example(kind, [*data, *more], [out], update_rule="gated", scale=0.5, **heads)
    more = [None, floats(draw, b, t, 4), floats(draw, b, t, 1)]
    yield example(kind, [*data, *more], [out, (b, 4, 3, 2)], **heads)
    shared: dict[str, Any] = {"q_num_heads": 4, "k_num_heads": 4, "kv_num_heads": 8}
    data = [floats(draw, b, t, 4 * 3), floats(draw, b, t, 4 * 3), floats(draw, b, t, 8 * 2)]
    more = [None, floats(draw, b, t, 8)]
    yield example(kind, [*data, *more], [out], update_rule="gated", scale=1.0, **shared)
    more = [None, floats(draw, 1, 1, 8)]
    yield example(kind, [*data, *more], [out], update_rule="gated", **shared)
    more = [floats(draw, b, 8, 3, 2), floats(draw, b, t, 8 * 3), floats(draw, b, t, 8)]
    yield example(kind, [*data, *more], [out, (b, 8, 3, 2)], **shared)
    one: dict[str, Any] = {"q_num_heads": 1, "k_num_heads": 1, "kv_num_heads": 8}
    data = [floats(draw, b, t, 3), floats(draw, b, t, 3), floats(draw, b, t, 8 * 2)]
    yield example(kind, data, [out], update_rule="linear", **one)


def _selective_scan(draw: Draw) -> Iterator[Example]:
    b, t, c, d = 4, 3, 8, 2
    line = [floats(draw, b, t, c), floats(draw, b, t, c), floats(draw, c, d)]
    shared = [floats(draw, b, t, d), floats(draw, b, t, d)]
    yield example("SelectiveScan", [*line, *shared], [(b, t, c)])


def _causal_conv(draw: Draw) -> Iterator[Example]:
    kind, b, c, k = "CausalConvWithState", 4, 6, 3
    data, weight = floats(draw, b, c, 5), floats(draw, c, 1, k)
    yield example(kind, [data, weight], [(b, c, 5)])
    more = [floats(draw, c), floats(draw, b, c, k - 1)]
    results = [(b, c, 5), (b, c, k - 1)]
    yield example(kind, [data, weight, *more], results, activation="silu")
    data = floats(draw, b, 5, c)
    results = [(b, 5, c), (b, c, k - 1)]
    yield example(kind, [data, weight, *more], results, activation="silu", channels_last=1)
    short = floats(draw, b, c, 1)
    yield example(kind, [short, weight, None, more[1]], [(b, c, 1), (b, c, k - 1)])


ATTENTION: Mapping[str, Maker] = MappingProxyType(
    {
        "Attention": _attention,
        "PackedMultiHeadAttention": _packed,
        "RotaryEmbedding": _rotary,
        "LinearAttention": _linear_attention,
        "SelectiveScan": _selective_scan,
        "CausalConvWithState": _causal_conv,
    }
)
