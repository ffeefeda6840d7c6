"""Attention and what belongs to it, differentiable."""

from __future__ import annotations

import math

import onnx

from executors.placement import Array
from ir.ops.linear_attention import CHANNELS_LAST, KEY_HEADS
from ir.semantics.arrays import constant, converted, np
from ir.semantics.call import Call

_AFTER_SOFTCAP, _AFTER_MASK, _AFTER_SOFTMAX = 1, 2, 3
"""Values of `qk_matmul_output_mode`; 0 is the product alone."""


def _heads_apart(array: Array, heads: int) -> Array:
    """From batch, rows, heads times width to batch, heads, rows, width."""
    split = np.reshape(array, (*array.shape[:2], heads, -1))
    return np.transpose(split, (0, 2, 1, 3))


def _repeated(array: Array, heads: int) -> Array:
    """Every head as often as query heads read it."""
    return array if array.shape[1] == heads else np.repeat(array, heads // array.shape[1], axis=1)


def attention_bias(
    mask: Array | None,
    rows: Array,
    keys: int,
    lengths: Array | None,
    window: tuple[int, int],
    *,
    causal: bool,
) -> Array:
    """What is added to the scores before softmax: broadcasts to batch, heads, rows, keys.

    Args:
        mask: the operand, boolean or added as it is; None without.
        rows: place of every query row among the keys; of every batch if it has two dimensions.
        keys: number of keys.
        lengths: of each batch the keys that count; None for all.
        window: keys before and behind a row that it may see; negative for all.
        causal: whether a row sees no key behind it.
    """
    bias = np.zeros((rows.shape[-1], keys))
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        bias = np.pad(added, missing, constant_values=-np.inf) if missing[-1][1] else added
    ahead = np.arange(keys) - rows[..., None]
    hidden = np.zeros(ahead.shape, dtype=bool)
    for bound, distance in ((window[0], -ahead), (window[1], ahead)):
        hidden = hidden | (distance > bound) if bound >= 0 else hidden
    hidden = hidden | (ahead > 0) if causal else hidden
    hidden = hidden[:, None] if hidden.ndim == 3 else hidden
    if lengths is not None:
        hidden = hidden | (np.arange(keys) >= lengths.reshape(-1, 1, 1, 1))
    return bias + np.where(hidden, -np.inf, 0.0)


def rows_among_keys(rows: Array, past: int, lengths: Array | None, count: int) -> Array:
    """Place of query rows among the keys; `count` is the number of all rows."""
    if lengths is not None:
        return rows + lengths.reshape(-1, 1) - count
    return rows + past


def _probabilities(scores: Array, bias: Array, precision: int) -> Array:
    """Softmax along the keys; a row that sees no key gives nothing."""
    work = scores + bias
    if precision:
        work = converted(work, onnx.helper.tensor_dtype_to_np_dtype(precision))
    largest = np.max(constant(work), axis=-1, keepdims=True)
    powers = np.exp(work - np.where(np.isneginf(largest), 0.0, largest))
    total = np.sum(powers, axis=-1, keepdims=True)
    blind = np.isneginf(np.max(bias, axis=-1, keepdims=True))
    found = powers / np.where(constant(total) == 0, 1.0, total)
    return converted(np.where(blind, 0.0, found), scores.dtype)


def attention(call: Call) -> list[Array]:
    query, key, value = call[0], call[1], call[2]
    apart = query.ndim == 4
    if not apart:
        query = _heads_apart(query, call.int("q_num_heads"))
        key, value = (_heads_apart(a, call.int("kv_num_heads")) for a in (key, value))
    past = call[4].shape[2] if call.has(4) else 0
    if call.has(4):
        key = np.concatenate([call[4], key], axis=2)
        value = np.concatenate([call[5], value], axis=2)
    present = [key, value]
    key, value = (_repeated(a, query.shape[1]) for a in (key, value))
    scale = call.float("scale", 1 / math.sqrt(query.shape[-1]))
    scores = np.matmul(query * scale, np.swapaxes(key, -1, -2))
    steps = [scores]
    cap = call.float("softcap", 0.0)
    scores = np.tanh(scores / cap) * cap if cap else scores
    rows = call.int("first_row") + np.arange(query.shape[2])
    lengths = call[6] + call.int("length_offset") if call.has(6) else None
    bias = attention_bias(
        call[3] if call.has(3) else None,
        rows_among_keys(rows, past, lengths, call.int("all_rows", len(rows))),
        key.shape[2],
        lengths,
        (call.int("left_window_size", -1), call.int("right_window_size", -1)),
        causal=bool(call.int("is_causal")),
    )
    found = _probabilities(scores, bias, call.int("softmax_precision"))
    steps += [scores, scores + bias, found]
    out = np.matmul(found, value)
    if not apart:
        out = np.reshape(np.transpose(out, (0, 2, 1, 3)), (out.shape[0], out.shape[2], -1))
    results = [out, *present, steps[call.int("qk_matmul_output_mode")]]
    return results[: len(call.result_dims)]


def packed_attention(call: Call) -> list[Array]:
    """Rows see those of their own sequence."""
    heads = call.int("num_heads")
    query, key, value = (_heads_apart(call[i][None], heads) for i in range(3))
    scale = call.float("scale", 1 / math.sqrt(query.shape[-1]))
    number = np.searchsorted(call[3][1:], np.arange(query.shape[2]), side="right")
    bias = np.where(number[:, None] == number, 0.0, -np.inf)
    scores = np.matmul(query * scale, np.swapaxes(key, -1, -2))
    out = np.matmul(_probabilities(scores, bias, 0), value)[0]
    return [np.reshape(np.swapaxes(out, 0, 1), (out.shape[1], -1))]


def rotary(call: Call) -> list[Array]:
    """Pairs of features, side by side or half the width apart, turned by the angle of the row."""
    data = call[0]
    apart = data.ndim == 4
    work = np.transpose(data, (0, 2, 1, 3)) if apart else data
    heads = work.shape[2] if apart else call.int("num_heads")
    work = np.reshape(work, (*work.shape[:2], heads, -1))
    cosine, sine = call[1], call[2]
    if cosine.ndim == 2:
        rows = call[3] if call.has(3) else np.zeros(1, dtype=np.int64)
        if rows.ndim == 1:
            rows = rows[:, None] + call.int("position_offset") + np.arange(work.shape[1])
        cosine, sine = cosine[rows], sine[rows]
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    turned = call.int("rotary_embedding_dim") or work.shape[-1]
    rest, work = work[..., turned:], work[..., :turned]
    if call.int("interleaved"):
        first, second = work[..., 0::2], work[..., 1::2]
    else:
        first, second = work[..., : turned // 2], work[..., turned // 2 :]
    pair = [cosine * first - sine * second, sine * first + cosine * second]
    if call.int("interleaved"):
        out = np.reshape(np.stack(pair, axis=-1), work.shape)
    else:
        out = np.concatenate(pair, axis=-1)
    out = np.concatenate([out, rest], axis=-1)
    return [np.transpose(out, (0, 2, 1, 3)) if apart else np.reshape(out, data.shape)]


def linear_attention(call: Call) -> list[Array]:
    """A matrix for every head, changed and read row by row."""
    heads, groups = call.int("q_num_heads"), call.int("kv_num_heads")
    query, value = _heads_apart(call[0], heads), _heads_apart(call[2], groups)
    key = _repeated(_heads_apart(call[1], call.int(KEY_HEADS, groups)), groups)
    if heads < groups:
        query, heads = _repeated(query, groups), groups
    wide, tall = key.shape[-1], value.shape[-1]
    rule = str(call.op.attributes.get("update_rule", "gated_delta"))
    state = call[3] if call.has(3) else np.zeros((query.shape[0], groups, wide, tall))
    decay = np.exp(_heads_apart(call[4], groups)) if call.has(4) else None
    rate = _heads_apart(call[5], call[5].shape[-1]) if call.has(5) else None
    scale = call.float("scale", 0.0) or 1 / math.sqrt(wide)
    repeated = np.arange(heads) // (heads // groups)
    out = []
    for row in range(query.shape[2]):
        if decay is not None:
            state = state * decay[:, :, row % decay.shape[2], :, None]
        new = value[:, :, row]
        if rate is not None and "delta" in rule:
            new = rate[:, :, row] * (new - np.einsum("bgde,bgd->bge", state, key[:, :, row]))
        state = state + key[:, :, row, :, None] * new[:, :, None, :]
        out.append(scale * np.einsum("bhd,bhde->bhe", query[:, :, row], state[:, repeated]))
    rows = np.stack(out, axis=1)
    results = [np.reshape(rows, (*rows.shape[:2], -1)), state]
    return results[: len(call.result_dims)]


def causal_conv(call: Call) -> list[Array]:
    """Every channel with its own kernel over the positions so far."""
    last = call.int(CHANNELS_LAST)
    data, weight = np.swapaxes(call[0], 1, 2) if last else call[0], call[1]
    kernel, length = weight.shape[2], data.shape[2]
    before = call[3] if call.has(3) else np.zeros((*data.shape[:2], kernel - 1), data.dtype)
    line = np.concatenate([before, data], axis=2)
    out = sum(line[:, :, k : k + length] * weight[:, 0, k, None] for k in range(kernel))
    out = out + call[2][:, None] if call.has(2) else out
    if call.op.attributes.get("activation", "none") != "none":
        out = out / (1 + np.exp(-out))
    out = np.swapaxes(out, 1, 2) if last else out
    return [out, line[:, :, length:]][: len(call.result_dims)]


def selective_scan(call: Call) -> list[Array]:
    """A few numbers for every channel, changed and read row by row."""
    value, step, decay, write, read = (call[i] for i in range(5))
    state = np.zeros((value.shape[0], *decay.shape))
    out = []
    for row in range(value.shape[1]):
        here = step[:, row, :, None]
        state = state * np.exp(here * decay) + here * (value[:, row, :, None] * write[:, row, None])
        out.append(np.einsum("bcd,bd->bc", state, read[:, row]))
    return [np.stack(out, axis=1)]
