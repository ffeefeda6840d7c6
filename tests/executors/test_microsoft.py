"""Attention and experts of ONNX Runtime, taken apart at import, compute what their kernels do.

The numbers wanted are written out here in numpy by the text of ONNX Runtime's operator schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from executors.placement import Array
from ir.graph import OpGraph
from tests.executors.test_experts import BALANCED, run
from tests.importers.onnx_models import graph, imported, node, value

pytestmark = pytest.mark.fast

BATCH, ROWS, HEADS, WIDTH = 2, 5, 4, 6
HIDDEN = HEADS * WIDTH
RNG = np.random.default_rng(7)


def real(*dims: int) -> Array:
    return RNG.normal(size=dims)


def import_node(
    folder: Path,
    kind: str,
    operands: Sequence[Array | None],
    results: Sequence[Sequence[int] | None],
    **attributes: object,
) -> tuple[OpGraph, dict[str, Array]]:
    """A model of one node whose operands are inputs, and their numbers."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(operands)]
    outputs = [f"y{i}" for i in range(len(results))]
    given = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
    made = node(kind, names, outputs, domain="com.microsoft", **attributes)
    inputs = [value(n, a.shape, _code(a)) for n, a in given.items()]
    noted = [value(n, d) for n, d in zip(outputs, results, strict=True)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph([made], inputs, noted), opset_imports=opsets)
    model.ir_version = 10
    return imported(folder, model), given


def _code(array: Array) -> int:
    dtype = np.dtype(np.float32) if array.dtype == np.float64 else array.dtype
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def apart(array: Array, heads: int) -> Array:
    return array.reshape(*array.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(query: Array, key: Array, value: Array, bias: Array | float = 0.0) -> Array:
    """Heads apart, the bias added to the scores."""
    repeats = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, repeats, axis=1), np.repeat(value, repeats, axis=1)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]) + bias
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = powers / powers.sum(axis=-1, keepdims=True) @ value
    return np.asarray(out.transpose(0, 2, 1, 3).reshape(out.shape[0], out.shape[2], -1))


def hidden(seen: Array) -> Array:
    return np.where(seen, 0.0, -1e9)


def below(rows: int, keys: int) -> Array:
    """What a causal row sees, the last row everything."""
    return hidden(np.arange(keys) <= np.arange(rows)[:, None] + keys - rows)


def same(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


PADDED = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


def test_heads_with_bias_cache_and_causal_rows(tmp_path: Path) -> None:
    query, key, value = (
        real(BATCH, ROWS, HIDDEN),
        real(BATCH, ROWS, HIDDEN),
        real(BATCH, ROWS, HIDDEN),
    )
    bias, past = real(3 * HIDDEN), [real(BATCH, HEADS, 3, WIDTH), real(BATCH, HEADS, 3, WIDTH)]
    operands = [query, key, value, bias, None, None, *past]
    found, given = import_node(
        tmp_path, "MultiHeadAttention", operands, [None] * 3, num_heads=HEADS, unidirectional=1
    )
    parts = [x + b for x, b in zip((query, key, value), np.split(bias, 3), strict=True)]
    q, k, v = (apart(p, HEADS) for p in parts)
    k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    same(run(found, given), [attention(q, k, v, below(ROWS, ROWS + 3)), k, v])


@pytest.mark.parametrize("mask", [PADDED, np.array([3, 5], np.int32)], ids=["flags", "lengths"])
@pytest.mark.parametrize("biased", [True, False])
def test_padded_keys_are_not_seen(tmp_path: Path, mask: Array, biased: bool) -> None:
    data = [real(BATCH, ROWS, HIDDEN) for _ in range(3)]
    added = real(1, HEADS, ROWS, ROWS) if biased else None
    operands = [*data, None, mask, added]
    found, given = import_node(tmp_path, "MultiHeadAttention", operands, [None], num_heads=HEADS)
    with np.errstate(divide="ignore"):
        result = run(found, given)
    bias = hidden(PADDED[:, None, None] > 0) + (0 if added is None else added)
    q, k, v = (apart(x, HEADS) for x in data)
    same(result, [attention(q, k, v, bias)])


def test_keys_that_lie_apart_are_read_as_they_are(tmp_path: Path) -> None:
    query, key = real(BATCH, ROWS, HIDDEN), real(BATCH, HEADS, 7, WIDTH)
    value = real(BATCH, HEADS, 7, WIDTH)
    kind = "MultiHeadAttention"
    found, given = import_node(tmp_path, kind, [query, key, value], [None], num_heads=HEADS)
    same(run(found, given), [attention(apart(query, HEADS), key, value)])


def test_packed_parts_are_taken_apart(tmp_path: Path) -> None:
    packed = real(BATCH, ROWS, HEADS, 3, WIDTH)
    found, given = import_node(tmp_path, "MultiHeadAttention", [packed], [None], num_heads=HEADS)
    q, k, v = (packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))
    same(run(found, given), [attention(q, k, v)])


def test_merged_weights_and_a_stacked_cache(tmp_path: Path) -> None:
    data, weights, bias = real(BATCH, ROWS, 8), real(8, 3 * HIDDEN), real(3 * HIDDEN)
    past = real(2, BATCH, HEADS, 3, WIDTH)
    mask = np.concatenate([np.ones((BATCH, 3), np.int32), PADDED], axis=1)
    found, given = import_node(
        tmp_path, "Attention", [data, weights, bias, mask, past], [None] * 2, num_heads=HEADS,
        unidirectional=1,
    )  # fmt: skip
    q, k, v = (apart(x, HEADS) for x in np.split(data @ weights + bias, 3, axis=2))
    k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    seen = hidden(mask[:, None, None] > 0) + below(ROWS, ROWS + 3)
    same(run(found, given), [attention(q, k, v, seen), np.stack([k, v])])


TABLES = [real(16, WIDTH // 2), real(16, WIDTH // 2)]


def turned(data: Array, rows: Array) -> Array:
    """Batch, heads, rows, width; positions of every row."""
    first, second = np.split(data, 2, axis=-1)
    c, s = (table[rows][:, None] for table in TABLES)
    return np.concatenate([c * first - s * second, s * first + c * second], axis=-1)


def test_grouped_heads_turned_behind_a_cache(tmp_path: Path) -> None:
    """The cache grows by the new row."""
    query, new = real(BATCH, 1, HIDDEN), [real(BATCH, 1, 2 * WIDTH) for _ in range(2)]
    past = [real(BATCH, 2, 6, WIDTH) for _ in range(2)]
    last, total = np.array([6, 6], np.int32), np.array(7, np.int32)
    found, given = import_node(
        tmp_path, "GroupQueryAttention", [query, *new, *past, last, total, *TABLES], [None] * 3,
        num_heads=HEADS, kv_num_heads=2, do_rotary=1,
    )  # fmt: skip
    places = np.full((BATCH, 1), 6)
    q, k = (turned(apart(x, n), places) for x, n in ((query, HEADS), (new[0], 2)))
    k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], apart(new[1], 2)], axis=2)
    same(run(found, given), [attention(q, k, v), k, v])


@pytest.mark.parametrize("window", [-1, 3])
def test_grouped_heads_write_into_a_buffer(tmp_path: Path, window: int) -> None:
    """The exporter noted that the cache keeps its size: sequences may be of any length."""
    query, new = real(BATCH, 1, HIDDEN), [real(BATCH, 1, 2 * WIDTH) for _ in range(2)]
    past = [real(BATCH, 2, 9, WIDTH) for _ in range(2)]
    last = np.array([6, 4], np.int32)
    shapes = [(BATCH, 1, HIDDEN), *[(BATCH, 2, 9, WIDTH)] * 2]
    found, given = import_node(
        tmp_path, "GroupQueryAttention",
        [query, *new, *past, last, np.array(7, np.int32), *TABLES], shapes,
        num_heads=HEADS, kv_num_heads=2, do_rotary=1, local_window_size=window,
    )  # fmt: skip
    q, k = (turned(apart(x, n), last[:, None]) for x, n in ((query, HEADS), (new[0], 2)))
    held = [x.copy() for x in past]
    for batch, place in enumerate(last):
        held[0][batch, :, place], held[1][batch, :, place] = (
            k[batch, :, 0],
            apart(new[1], 2)[batch, :, 0],
        )
    ahead = last[:, None] - np.arange(9)
    seen = (ahead >= 0) & ((ahead < window) | (window < 0))
    same(run(found, given), [attention(q, held[0], held[1], hidden(seen[:, None, None])), *held])


def test_rows_of_several_sequences_see_their_own(tmp_path: Path) -> None:
    data, bias = [real(7, HIDDEN) for _ in range(3)], real(3 * HIDDEN)
    offsets, ends = np.array([[0, 1, 2, 3], [4, 5, 6, 7]], np.int32), np.array([0, 3, 7], np.int32)
    kind = "PackedMultiHeadAttention"
    operands = [*data, bias, offsets, ends]
    found, given = import_node(tmp_path, kind, operands, [None], num_heads=HEADS)
    parts = [x + b for x, b in zip(data, np.split(bias, 3), strict=True)]
    pieces = [
        attention(*(apart(p[None, first:end], HEADS) for p in parts))[0]
        for first, end in ((0, 3), (3, 7))
    ]
    same(run(found, given), [np.concatenate(pieces)])


def test_what_has_no_equal_stays_what_it_is(tmp_path: Path) -> None:
    """A cache that beams share is no operand of attention."""
    data = [real(BATCH, 1, HIDDEN) for _ in range(3)]
    past = [real(BATCH, HEADS, 8, WIDTH) for _ in range(2)]
    found, _ = import_node(
        tmp_path, "DecoderMaskedMultiHeadAttention",
        [*data, None, None, *past, np.array([3], np.int32)], [None] * 3,
        num_heads=HEADS, past_present_share_buffer=1,
    )  # fmt: skip
    assert [op.kind for op in found.ops] == ["com.microsoft::DecoderMaskedMultiHeadAttention"]
    assert found.tensors["y1"].dims == past[0].shape


EXPERTS, INNER, FEATURES = 4, 16, 8


def routes() -> Array:
    """Scores that send equally many tokens to every expert."""
    scores = real(len(BALANCED), EXPERTS) * 0.1
    for token, chosen in enumerate(BALANCED):
        scores[token, chosen] += np.array([3.0, 2.0])
    return scores


def mixed(data: Array, scores: Array, layers: Mapping[str, Array]) -> Array:
    """Two experts for every token, gates and linear parts alternate, shares add up to one."""
    out = np.zeros_like(data)
    for token, row in enumerate(scores):
        chosen = np.argsort(-row)[:2]
        share = np.exp(row[chosen]) / np.exp(row[chosen]).sum()
        for expert, weight in zip(chosen, share, strict=True):
            both = layers["first"][expert] @ data[token] + layers["bias"][expert]
            gate, linear = np.minimum(both[::2], 1.5), np.clip(both[1::2], -1.5, 1.5)
            inner = gate / (1 + np.exp(-1.75 * gate)) * (linear + 1)
            out[token] += weight * (layers["second"][expert] @ inner)
    return out


GATED: dict[str, object] = {
    "k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.75,
    "activation_beta": 1.0, "swiglu_limit": 1.5, "normalize_routing_weights": 1,
}  # fmt: skip


def test_experts_with_gates(tmp_path: Path) -> None:
    layers = {
        "first": real(EXPERTS, 2 * INNER, FEATURES),
        "bias": real(EXPERTS, 2 * INNER),
        "second": real(EXPERTS, FEATURES, INNER),
    }
    data, scores = real(len(BALANCED), FEATURES), routes()
    operands = [data, scores, layers["first"], layers["bias"], layers["second"]]
    found, given = import_node(tmp_path, "MoE", operands, [None], **GATED)
    assert sum(op.kind == "ExpertMatMul" for op in found.ops) == 2
    same(run(found, given), [mixed(data, scores, layers)])


def test_experts_of_four_bits(tmp_path: Path) -> None:
    numbers = {
        "first": RNG.integers(0, 16, (EXPERTS, 2 * INNER, FEATURES)),
        "second": RNG.integers(0, 16, (EXPERTS, FEATURES, INNER)),
    }
    scales = {k: abs(real(*n.shape[:2])) * 0.1 for k, n in numbers.items()}
    packed = {k: (n[..., ::2] | n[..., 1::2] << 4).astype(np.uint8) for k, n in numbers.items()}
    layers = {k: (n - 8) * scales[k][..., None] for k, n in numbers.items()}
    layers["bias"] = real(EXPERTS, 2 * INNER)
    data, scores = real(len(BALANCED), FEATURES), routes()
    operands = [
        data, scores, packed["first"], scales["first"], layers["bias"], packed["second"],
        scales["second"],
    ]  # fmt: skip
    found, given = import_node(tmp_path, "QMoE", operands, [None], **GATED)
    same(run(found, given), [mixed(data, scores, layers)])
