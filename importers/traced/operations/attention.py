"""Attention."""

from __future__ import annotations

import math
from typing import Any

from importers.errors import UnsupportedError
from importers.traced.call import Call
from importers.traced.operations.moves import triangle
from importers.traced.table import spelled
from ir.graph import Tensor


@spelled(
    aten="scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,"
    "enable_gqa);"
    "_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal,"
    "attn_mask, scale);"
    "_scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal,"
    "return_debug_mask, scale);"
    "_scaled_dot_product_efficient_attention(query, key, value, attn_bias as attn_mask,"
    "compute_log_sumexp, dropout_p, is_causal, scale);"
    "_scaled_dot_product_cudnn_attention(query, key, value, attn_bias as attn_mask,"
    "compute_log_sumexp, dropout_p, is_causal, return_debug_mask, scale)"
)
def _attention(call: Call) -> None:
    """Queries, keys and values as batch, heads, rows, width; fewer dimensions get more."""
    query, key, value = (call.tensor(n) for n in ("query", "key", "value"))
    mask = call.optional("attn_mask")
    if not 2 < len(query.dims) <= 4 or len({len(t.dims) for t in (query, key, value)}) > 1:
        raise UnsupportedError(call.target)
    if len(query.dims) == 3:
        query, key, value = (call.unsqueeze(t, 1) for t in (query, key, value))
        mask = call.unsqueeze(mask, 1) if mask is not None and len(mask.dims) == 3 else mask
    inputs = [query, key, value, mask]
    causal = int(call.flag("is_causal"))
    attributes: dict[str, Any] = {"is_causal": causal} if causal else {}
    if call.has("scale"):
        attributes["scale"] = call.float("scale", 1.0)
    result = call.result
    if len(result.dims) == 4:
        call.emit("Attention", inputs, count=1, **attributes)
        return
    dims = (result.dims[0], 1, *result.dims[1:])
    wide = call.op("Attention", inputs, dims, **attributes)
    call.answer.squeeze(wide, 1)


_LAYOUTS = {0: "BSH", 1: "BNSD", 2: "SBH", 3: "BSND", 4: "TND"}
"""`FASInputLayoutMode`."""
_CAUSAL, _CAUSAL_END = 2, 3
"""Of `sparse_mode`: rows see those before them, counted from the first or from the last."""


@spelled(
    mindir="FlashAttentionScore(query, key, value, real_shift, drop_mask, padding_mask, attn_mask,"
    "prefix, actual_seq_qlen, actual_seq_kvlen, head_num, keep_prob, scale_value, pre_tokens,"
    "next_tokens, inner_precise, input_layout, sparse_mode)"
)
def _flash_attention(call: Call) -> None:
    """Queries, keys and values as batch, heads, rows, width; or with the heads merged."""
    query, key, value = (call.tensor(n) for n in ("query", "key", "value"))
    form = call.get("input_layout", "BSH")
    layout = _LAYOUTS.get(form, "") if isinstance(form, int) else str(form)
    unusual = ("real_shift", "drop_mask", "padding_mask", "prefix")
    if layout not in {"BSH", "BNSD"} or any(call.has(n) for n in unusual):
        raise UnsupportedError(call.target)
    if call.is_read(0) or call.is_read(1) or call.is_read(2) or call.float("keep_prob", 1.0) != 1.0:
        raise UnsupportedError(call.target)
    heads = call.int("head_num", 1)
    attributes: dict[str, Any] = {"scale": call.float("scale_value", 1.0)}
    mask, sparse = call.optional("attn_mask"), call.int("sparse_mode", 0)
    rows = 1 if layout == "BSH" else 2
    if sparse == _CAUSAL or (sparse == _CAUSAL_END and query.dims[rows] == key.dims[rows]):
        attributes["is_causal"], mask = 1, None
    elif sparse not in {0, 1}:
        raise UnsupportedError(call.target)
    elif mask is not None:
        mask = call.logical_not(call.cast(mask, "bool"))  # what is marked is hidden
    if layout == "BSH":
        width = query.dims[-1] // heads
        attributes |= {"q_num_heads": heads, "kv_num_heads": max(1, key.dims[-1] // width)}
    result = call.results[3]
    if result is None:
        raise call.fault("it makes no tensor")
    call.made[3] = result
    call.write("Attention", [query, key, value, mask], [result], **attributes)


@spelled(
    aten="_scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out,"
    "logsumexp, dropout_p, is_causal, attn_mask, scale);"
    "_scaled_dot_product_flash_attention_backward(grad_out, query, key, value, out, logsumexp,"
    "cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset, scale);"
    "_scaled_dot_product_efficient_attention_backward(grad_out_ as grad_out, query, key, value,"
    "attn_bias as attn_mask, out, logsumexp, philox_seed, philox_offset, dropout_p,"
    "grad_input_mask, is_causal, scale)"
)
def _attention_backward(call: Call) -> None:
    """With `P` the chances: of the values `P' g`, of the scores `P * (g v' - sum(g * y))`, and from
    these of the queries and keys. Source: Dao et al., FlashAttention, arXiv 2205.14135, section 3.
    """
    query, key, value = (call.tensor(n) for n in ("query", "key", "value"))
    gradient = call.tensor("grad_out")
    if len(query.dims) != 4 or query.dims[:2] != key.dims[:2]:
        raise UnsupportedError(call.target)
    scale = call.scalar(call.float("scale", query.dims[-1] ** -0.5), query.dtype)
    scores = call.mul(call.matmul(query, call.flipped(key)), scale)
    mask = _seen(call, (query.dims[2], key.dims[2]))
    if mask is not None:
        scores = call.add(scores, mask)
    chance = call.softmax(scores, 3)
    if call.is_read(2):
        call.alias(call.matmul(call.flipped(chance), gradient), 2)
    spread = call.matmul(gradient, call.flipped(value))
    total = call.reduce_sum(call.mul(gradient, call.tensor("out")), 3)
    back = call.mul(call.mul(chance, call.sub(spread, total)), scale)
    if call.is_read(0):
        call.alias(call.matmul(back, key))
    if call.is_read(1):
        call.alias(call.matmul(call.flipped(back), query), 1)


def _seen(call: Call, square: tuple[int, int]) -> Tensor | None:
    """What is added to the scores."""
    given = call.optional("attn_mask")
    if not call.flag("is_causal"):
        return given
    if given is not None:
        raise UnsupportedError(call.target)
    full = call.expand(call.scalar(-math.inf, call.tensor("query").dtype), *square)
    return triangle(call, full, call.scalar(1, "int64"), upper=1)
