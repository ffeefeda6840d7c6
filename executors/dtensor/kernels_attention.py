"""Attention without a cache."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional

from executors.dtensor.call import Call
from executors.dtensor.numbers import same_kind


def _heads_apart(tensor: Any, heads: int) -> Any:
    """From batch, rows, heads times width to batch, heads, rows, width."""
    batch, rows, width = tensor.shape
    return tensor.reshape(batch, rows, heads, width // heads).permute(0, 2, 1, 3)


def _repeated(tensor: Any, heads: int) -> Any:
    """Every head as often as query heads read it."""
    batch, own, rows, width = tensor.shape
    if own == heads:
        return tensor
    wide = tensor.unsqueeze(2).expand(batch, own, heads // own, rows, width)
    return wide.reshape(batch, heads, rows, width)


def _hidden(call: Call, rows: int, keys: int, like: Any) -> Any:
    """Which keys a row may not see by its place; None if it may see all."""
    bounds = [call.int(k, -1) for k in ("left_window_size", "right_window_size")]
    causal = bool(call.int("is_causal"))
    if not causal and max(bounds) < 0:
        return None
    row = torch.arange(rows, device=like.device) + call.int("first_row")
    ahead = torch.arange(keys, device=like.device)[None, :] - row[:, None]
    hidden = ahead > (0 if causal else keys)
    for bound, distance in zip(bounds, (-ahead, ahead), strict=True):
        hidden = hidden | (distance > bound) if bound >= 0 else hidden
    return same_kind(like, hidden)


def _is_plain(call: Call) -> bool:
    """Whether torch's own function computes it, which keeps no scores. DTensor has no rule for
    that function on every device.
    """
    shaped = call.has(3) or call.float("softcap", 0.0) or call.int("first_row")
    bounds = (call.int(k, -1) for k in ("left_window_size", "right_window_size"))
    return not shaped and max(bounds) < 0 and not isinstance(call[0], DTensor)


def _scale(call: Call, query: Any) -> float:
    return call.float("scale", 1 / math.sqrt(query.shape[-1]))


def _by_scores(call: Call, query: Any, key: Any, value: Any) -> Any:
    """Attention with all scores at hand."""
    scores = torch.matmul(query * _scale(call, query), key.transpose(-1, -2))
    cap = call.float("softcap", 0.0)
    scores = torch.tanh(scores / cap) * cap if cap else scores
    if call.has(3):
        mask = call[3]
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(torch.logical_not(mask), float("-inf"))
        else:
            scores = scores + mask
    hidden = _hidden(call, scores.shape[2], scores.shape[3], scores)
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(torch._safe_softmax(scores, -1), value)  # noqa: SLF001  0 without keys


def attention(call: Call) -> list[Any]:
    if len(call.result_dims) > 1 or any(call.has(i) for i in (4, 5, 6)):
        raise NotImplementedError("attention with a cache")
    if call.has(3) and call[3].shape[-1] < call[1].shape[-2]:
        raise NotImplementedError("a mask of fewer keys")
    query, key, value = call[0], call[1], call[2]
    apart = query.ndim == 4
    if not apart:
        query = _heads_apart(query, call.int("q_num_heads"))
        key, value = (_heads_apart(x, call.int("kv_num_heads")) for x in (key, value))
    key, value = (_repeated(x, query.shape[1]) for x in (key, value))
    if _is_plain(call):
        causal, scale = bool(call.int("is_causal")), _scale(call, query)
        found = functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=scale
        )
    else:
        found = _by_scores(call, query, key, value)
    if not apart:
        batch, heads, rows, width = found.shape
        found = found.permute(0, 2, 1, 3).reshape(batch, rows, heads * width)
    return [found]
