"""Attention and rotary embedding, as ONNX says them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.call import Call, Kernel
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


def _hidden(call: Call, rows: int, keys: int, past: int, like: Any) -> Any:
    """Which keys a row may not see by its place; None if it may see all."""
    bounds = [call.int(k, -1) for k in ("left_window_size", "right_window_size")]
    causal = bool(call.int("is_causal"))
    if not causal and max(bounds) < 0:
        return None
    row = torch.arange(rows, device=like.device) + past + call.int("first_row")
    ahead = torch.arange(keys, device=like.device)[None, :] - row[:, None]
    hidden = ahead > (0 if causal else keys)
    for bound, distance in zip(bounds, (-ahead, ahead), strict=True):
        hidden = hidden | (distance > bound) if bound >= 0 else hidden
    return same_kind(like, hidden)


def _attention(call: Call) -> list[Any]:
    if len(call.result_dims) > 1 or any(call.has(i) for i in (4, 5, 6)):
        raise NotImplementedError("attention with a cache")
    query, key, value = call[0], call[1], call[2]
    apart = query.ndim == 4
    if not apart:
        query = _heads_apart(query, call.int("q_num_heads"))
        key, value = (_heads_apart(x, call.int("kv_num_heads")) for x in (key, value))
    key, value = (_repeated(x, query.shape[1]) for x in (key, value))
    scale = call.float("scale", 1 / math.sqrt(query.shape[-1]))
    scores = torch.matmul(query * scale, key.transpose(-1, -2))
    cap = call.float("softcap", 0.0)
    scores = torch.tanh(scores / cap) * cap if cap else scores
    if call.has(3):
        mask = call[3]
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(torch.logical_not(mask), float("-inf"))
        else:
            scores = scores + mask
    hidden = _hidden(call, scores.shape[2], scores.shape[3], 0, scores)
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    found = torch.matmul(torch.softmax(scores, dim=-1), value)
    if not apart:
        batch, heads, rows, width = found.shape
        found = found.permute(0, 2, 1, 3).reshape(batch, rows, heads * width)
    return [found]


def _rotary(call: Call) -> list[Any]:
    """Pairs of features, side by side or half the width apart, turned by the angle of the row."""
    data = call[0]
    apart = data.ndim == 4
    work = data.permute(0, 2, 1, 3) if apart else data
    if not apart:
        batch, rows, width = data.shape
        heads = call.int("num_heads")
        work = data.reshape(batch, rows, heads, width // heads)
    cosine, sine = call[1], call[2]
    if cosine.ndim == 2:
        if not call.has(3) or call[3].ndim != 2:
            raise NotImplementedError("rotary embedding whose positions are counted")
        cosine, sine = (torch.nn.functional.embedding(call[3], x) for x in (cosine, sine))
    cosine, sine = cosine.unsqueeze(2), sine.unsqueeze(2)
    turned = call.int("rotary_embedding_dim") or work.shape[-1]
    rest, work = work[..., turned:], work[..., :turned]
    if call.int("interleaved"):
        raise NotImplementedError("interleaved rotary embedding")
    first, second = work[..., : turned // 2], work[..., turned // 2 :]
    pair = [cosine * first - sine * second, sine * first + cosine * second]
    out = torch.cat([*pair, *([rest] if rest.shape[-1] else [])], dim=-1)
    return [out.permute(0, 2, 1, 3) if apart else out.reshape(data.shape)]


ATTENTION: Mapping[str, Kernel] = MappingProxyType(
    {"Attention": _attention, "RotaryEmbedding": _rotary}
)
