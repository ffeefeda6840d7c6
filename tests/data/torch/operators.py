"""Calls of PyTorch's operators with numbers, for `make.py`: function and operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as f

Case = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]


def _floats(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    draw = torch.rand(shape, generator=_DRAW)
    return ((low + (high - low) * draw) * 64).round() / 64


def _ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=_DRAW)


_DRAW = torch.Generator().manual_seed(7)
_UNARY = (
    "relu", "sigmoid", "tanh", "exp", "erf", "abs", "cos", "sin", "tan", "atan", "sinh", "cosh",
    "asinh", "neg", "sign", "floor", "ceil", "square", "expm1", "isnan", "isinf",
)  # fmt: skip
_POSITIVE = ("sqrt", "reciprocal", "log", "rsqrt", "log1p", "log2", "log10")
_INSIDE = ("asin", "acos", "atanh")
_ACTIVATIONS = (
    "silu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "elu", "selu", "mish",
    "softplus", "logsigmoid", "softsign", "gelu",
)  # fmt: skip


def cases() -> Iterator[Case]:
    for part in (
        _pointwise,
        _pairs,
        _moves,
        _indexing,
        _reductions,
        _products,
        _images,
        _constants,
    ):
        yield from part()


def _pointwise() -> Iterator[Case]:
    x, positive, inside = _floats(3, 4), _floats(3, 4, low=0.5), _floats(3, 4, low=-0.9, high=0.9)
    for names, value in ((_UNARY, x), (_POSITIVE, positive), (_INSIDE, inside)):
        for name in names:
            yield name, getattr(torch, name), (value,)
    yield "acosh", torch.acosh, (positive + 1,)
    for name in _ACTIVATIONS:
        yield name, getattr(f, name), (x,)
    yield "gelu_tanh", lambda v: f.gelu(v, approximate="tanh"), (x,)
    yield "softplus_beta", lambda v: f.softplus(v, beta=2.0), (x,)
    yield "glu", lambda v: f.glu(v, 1), (x,)
    yield "prelu", f.prelu, (x, torch.tensor([0.25]))
    yield "clamp", lambda v: v.clamp(-1, 1), (x,)
    yield "clamp_min", lambda v: v.clamp(min=0.5), (x,)
    yield "clamp_max", lambda v: v.clamp(max=0.5), (x,)
    yield "clamp_tensors", torch.clamp, (x, x - 1, x * 0)
    yield "to_int", lambda v: v.to(torch.int64) + 1, (x,)
    yield "dropout_off", lambda v: f.dropout(v, 0.5, training=False), (x,)


def _pairs() -> Iterator[Case]:
    x, y, whole = _floats(3, 4), _floats(4, low=0.5), _ints(5, 3, 4)
    yield "add", torch.add, (x, y)
    yield "add_alpha", lambda a, b: torch.add(a, b, alpha=0.5), (x, y)
    yield "add_int", lambda a, b: a + b, (x, whole)
    yield "add_number", lambda a: a + 1, (whole,)
    yield "sub_alpha", lambda a, b: torch.sub(a, b, alpha=2), (x, y)
    yield "rsub", lambda a: 1.5 - a, (x,)
    yield "mul", torch.mul, (x, y)
    yield "div", torch.div, (x, y)
    yield "div_ints", lambda a, b: a / (b + 1), (whole, whole)
    yield "div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor"), (x, y)
    yield "div_trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc"), (x, y)
    yield "floor_divide", lambda a: a // 2, (whole,)
    yield "remainder", lambda a: a % 3, (whole,)
    yield "pow", lambda a: a**3, (x,)
    yield "pow_tensor", torch.pow, (y, x[0])
    yield "pow_scalar", lambda a: 2.0**a, (x,)
    yield "maximum", torch.maximum, (x, y)
    yield "minimum", torch.minimum, (x, y)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield name, getattr(torch, name), (whole, _ints(5, 4))
        yield f"{name}_number", lambda a, n=name: getattr(torch, n)(a, 0.5), (x,)
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or"):
        yield name, getattr(torch, name), (x > 0, y > 1)
    yield "bitwise_ints", torch.bitwise_and, (whole, whole + 1)
    yield "logical_not", torch.logical_not, (x > 0,)
    yield "bitwise_not", torch.bitwise_not, (x > 0,)
    yield "where", torch.where, (x > 0, x, y)
    yield "masked_fill", lambda a, m: a.masked_fill(m, -5.0), (x, x > 0)
    yield "addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), (x, x, x)
    yield "addcdiv", torch.addcdiv, (x, x, y)
    yield "lerp", lambda a, b: torch.lerp(a, b, 0.25), (x, x + 1)
    yield "in_place", lambda a: (a * 2).add_(1).relu_() - a, (x,)


def _moves() -> Iterator[Case]:
    x, deep = _floats(3, 4), _floats(2, 3, 4)
    yield "view", lambda a: a.view(2, 6) * 1.5, (x,)
    yield "flatten", lambda a: a.flatten(1), (deep,)
    yield "unflatten", lambda a: a.unflatten(1, (2, 2)), (x,)
    yield "permute", lambda a: a.permute(2, 0, 1), (deep,)
    yield "transpose", lambda a: a.transpose(-1, 0), (deep,)
    yield "t", lambda a: a.t(), (x,)
    yield "movedim", lambda a: a.movedim(0, 2), (deep,)
    yield "expand", lambda a: a.unsqueeze(1).expand(3, 5, 4), (x,)
    yield "squeeze", lambda a: a.unsqueeze(1).squeeze(1) + 1, (x,)
    yield "squeeze_all", lambda a: a.unsqueeze(0).squeeze() + 1, (x,)
    yield "slice", lambda a: a[:, 1:-1], (x,)
    yield "slice_step", lambda a: a[:, ::2], (x,)
    yield "select", lambda a: a[:, -1], (deep,)
    yield "narrow", lambda a: a.narrow(1, 1, 2), (x,)
    yield "split", lambda a: torch.cat(a.split(3, 1)[::-1], 1), (x,)
    yield "split_sizes", lambda a: a.split([1, 3], 1)[1] * 2, (x,)
    yield "chunk", lambda a: a.chunk(2, 1)[1] * a.chunk(2, 1)[0], (x,)
    yield "unbind", lambda a: a.unbind(1)[1] - a.unbind(1)[2], (deep,)
    yield "cat", lambda a: torch.cat([a, a * 2], 1), (x,)
    yield "stack", lambda a: torch.stack([a, a * 2], 1), (x,)
    yield "repeat", lambda a: a.repeat(2, 1, 3), (x,)
    yield "repeat_interleave", lambda a: a.repeat_interleave(2, 1), (x,)
    yield "pad", lambda a: f.pad(a, (1, 2, 0, 1), value=3.0), (x,)
    yield "pad_reflect", lambda a: f.pad(a, (2, 1), mode="reflect"), (deep,)
    yield "flip", lambda a: a.flip(0, 2), (deep,)
    yield "roll", lambda a: a.roll((1, -1), (0, 1)), (x,)
    yield "tril", lambda a: a.tril(-1), (x,)
    yield "triu", lambda a: a.triu(1), (x,)
    yield "diff", lambda a: torch.diff(a, prepend=a[:, :1] * 2), (x,)
    yield "pixel_shuffle", lambda a: f.pixel_shuffle(a, 2), (_floats(1, 8, 3, 2),)
    yield "pixel_unshuffle", lambda a: f.pixel_unshuffle(a, 2), (_floats(1, 2, 4, 6),)


def _indexing() -> Iterator[Case]:
    x, deep, index = _floats(5, 4), _floats(3, 5, 4), _ints(5, 2, 3)
    yield "embedding", f.embedding, (index, x)
    yield "index_select", lambda a, i: a.index_select(0, i), (x, index[0])
    yield "gather", lambda a, i: a.gather(1, i), (x, _ints(4, 5, 2))
    yield "index_one", lambda a, i: a[i], (x, index)
    yield "index_second", lambda a, i: a[:, i], (x, _ints(4, 2, 3))
    yield "index_two", lambda a, i, j: a[i, j], (x, index, _ints(4, 3))
    yield "index_middle", lambda a, i, j: a[:, i, j], (deep, index, _ints(4, 3))
    yield "index_put", lambda a, i, v: a.index_put((i,), v), (x, index[0], _floats(3, 4))
    yield "index_add_put", lambda a, i, v: a.index_put((i,), v, accumulate=True), (
        x, index[0], _floats(3, 4),
    )  # fmt: skip
    yield "index_add", lambda a, i, v: a.index_add(0, i, v), (x, index[0], _floats(3, 4))
    yield "scatter", lambda a, i, v: a.scatter(1, i, v), (
        x, torch.tensor([[0, 2], [1, 3], [2, 0]]), _floats(3, 2),
    )  # fmt: skip
    yield "scatter_add", lambda a, i, v: a.scatter_add(1, i, v), (x, _ints(4, 5, 3), _floats(5, 3))
    yield "scatter_value", lambda a, i: a.scatter(0, i, 9.0), (x, torch.tensor([[1, 0, 4, 2]]))
    yield "slice_scatter", lambda a, v: a.slice_scatter(v, 1, 1, 3), (x, _floats(5, 2))
    yield "select_scatter", lambda a, v: a.select_scatter(v, 1, 2), (x, _floats(5))
    yield "one_hot", lambda i: f.one_hot(i, 5), (index,)


def _reductions() -> Iterator[Case]:
    x, deep = _floats(3, 4), _floats(2, 3, 4)
    for name in ("sum", "mean", "amax", "amin"):
        yield name, lambda a, n=name: getattr(a, n)((0, 2), keepdim=True), (deep,)
    yield "sum_all", torch.sum, (x,)
    yield "sum_flags", lambda a: (a > 0).sum(), (x,)
    yield "mean_all", torch.mean, (x,)
    yield "max_all", torch.max, (x,)
    yield "prod", lambda a: a.prod(1), (x,)
    yield "any", lambda a: (a > 1).any(1), (x,)
    yield "all", lambda a: (a > -1).all(1), (x,)
    yield "max_dim", lambda a: a.max(1, keepdim=True), (x,)
    yield "argmax", lambda a: a.argmax(0), (x,)
    yield "argmax_all", lambda a: a.argmax(), (x,)
    yield "var", lambda a: a.var(1), (x,)
    yield "var_biased", lambda a: a.var(1, unbiased=False, keepdim=True), (x,)
    yield "std", lambda a: a.std((0, 2)), (deep,)
    yield "var_mean", lambda a: torch.var_mean(a, 1, correction=0), (x,)
    yield "norm", lambda a: torch.linalg.vector_norm(a, 2, 1), (x,)
    yield "logsumexp", lambda a: a.logsumexp(1), (x,)
    yield "softmax", lambda a: a.softmax(1), (deep,)
    yield "log_softmax", lambda a: a.log_softmax(-1), (deep,)
    yield "cumsum", lambda a: a.cumsum(1), (x,)
    yield "topk", lambda a: a.topk(2, 1), (x,)
    yield "sort", lambda a: a.sort(1, descending=True), (x,)
    yield "argsort", lambda a: a.argsort(1), (x,)
    yield "layer_norm", lambda a, w, b: f.layer_norm(a, (3, 4), w, b), (deep, x, x + 1)
    yield "layer_norm_plain", lambda a: f.layer_norm(a, (4,)), (deep,)
    yield "rms_norm", lambda a, w: f.rms_norm(a, (4,), w, 1e-5), (deep, x[0])
    weight, bias, mean, spread = (_floats(3, low=0.5) for _ in range(4))
    yield "batch_norm", lambda a, w, b, m, v: f.batch_norm(a, m, v, w, b), (
        deep, weight, bias, mean, spread,
    )  # fmt: skip
    image = _floats(2, 4, 3, 3)
    yield "group_norm", lambda a, w, b: f.group_norm(a, 2, w, b), (image, _floats(4), _floats(4))
    yield "instance_norm", f.instance_norm, (image,)
    yield "cross_entropy", f.cross_entropy, (x, _ints(4, 3))
    yield "cross_entropy_sum", lambda a, t: f.cross_entropy(a, t, reduction="sum"), (
        x, torch.tensor([0, -100, 2]),
    )  # fmt: skip
    yield "nll_loss", lambda a, t: f.nll_loss(a.log_softmax(1), t), (x, _ints(4, 3))
    yield "mse_loss", f.mse_loss, (x, x + 0.5)
    yield "l1_loss", lambda a, b: f.l1_loss(a, b, reduction="none"), (x, x * 2)


def _products() -> Iterator[Case]:
    x, deep = _floats(3, 4), _floats(2, 3, 4)
    yield "linear", f.linear, (deep, _floats(5, 4), _floats(5))
    yield "linear_plain", f.linear, (x, _floats(5, 4))
    yield "mm", torch.mm, (x, x.t().contiguous())
    yield "bmm", torch.bmm, (deep, _floats(2, 4, 5))
    yield "matmul", torch.matmul, (deep, _floats(4, 5))
    yield "mv", torch.mv, (x, _floats(4))
    yield "addmm", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), (
        _floats(5), x, _floats(4, 5),
    )  # fmt: skip
    yield "baddbmm", torch.baddbmm, (_floats(2, 3, 5), deep, _floats(2, 4, 5))
    yield "outer", torch.outer, (_floats(3), _floats(4))
    yield "einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), (deep, deep)
    heads = tuple(_floats(2, 4, 5, 8) for _ in range(3))
    yield "attention", f.scaled_dot_product_attention, heads
    yield "attention_causal", lambda q, k, v: f.scaled_dot_product_attention(
        q, k, v, is_causal=True
    ), heads  # fmt: skip
    yield "attention_scale", lambda q, k, v, m: f.scaled_dot_product_attention(
        q, k, v, attn_mask=m, scale=0.5
    ), (*heads, _floats(2, 1, 5, 5))  # fmt: skip
    yield "attention_flags", f.scaled_dot_product_attention, (*heads, _floats(5, 5) > -1.5)
    yield "attention_grouped", lambda q, k, v: f.scaled_dot_product_attention(
        q, k, v, enable_gqa=True
    ), (heads[0], _floats(2, 2, 5, 8), _floats(2, 2, 5, 8))  # fmt: skip
    yield "attention_flat", f.scaled_dot_product_attention, tuple(h[0] for h in heads)


def _images() -> Iterator[Case]:
    image, kernel = _floats(2, 4, 7, 6), _floats(6, 4, 3, 2)
    yield (
        "conv2d",
        lambda a, w, b: f.conv2d(a, w, b, 2, (1, 0), (1, 2)),
        (image, kernel, _floats(6)),
    )
    yield "conv2d_same", lambda a, w: f.conv2d(a, w, padding="same"), (image, kernel)
    yield "conv2d_groups", lambda a, w: f.conv2d(a, w, groups=2), (image, _floats(6, 2, 3, 3))
    yield "conv1d", f.conv1d, (_floats(2, 4, 9), _floats(3, 4, 3))
    yield "conv3d", f.conv3d, (_floats(1, 2, 4, 5, 4), _floats(3, 2, 2, 3, 2))
    yield "conv_transpose2d", lambda a, w: f.conv_transpose2d(a, w, None, 2, 1, 1), (
        image, _floats(4, 3, 3, 3),
    )  # fmt: skip
    yield "max_pool2d", lambda a: f.max_pool2d(a, 3, 2, 1), (image,)
    yield "max_pool2d_ceil", lambda a: f.max_pool2d(a, 2, ceil_mode=True), (image,)
    yield "max_pool1d", lambda a: f.max_pool1d(a, 2), (_floats(2, 3, 8),)
    yield "avg_pool2d", lambda a: f.avg_pool2d(a, 3, 2, 1), (image,)
    yield "avg_pool2d_inside", lambda a: f.avg_pool2d(a, 3, 2, 1, count_include_pad=False), (image,)
    yield "adaptive_one", lambda a: f.adaptive_avg_pool2d(a, 1), (image,)
    yield "adaptive_part", lambda a: f.adaptive_avg_pool2d(a, (7, 3)), (image,)
    yield "adaptive_max", lambda a: f.adaptive_max_pool2d(a, 1), (image,)
    yield "nearest", lambda a: f.interpolate(a, scale_factor=2), (image,)
    yield "bilinear", lambda a: f.interpolate(a, size=(9, 11), mode="bilinear"), (image,)
    yield "bilinear_corners", lambda a: f.interpolate(
        a, size=(9, 11), mode="bilinear", align_corners=True
    ), (image,)  # fmt: skip
    yield "bicubic", lambda a: f.interpolate(a, size=(9, 8), mode="bicubic"), (image,)


def _constants() -> Iterator[Case]:
    x = _floats(3, 4)
    yield "arange", lambda a: a + torch.arange(4), (x,)
    yield "arange_step", lambda a: a + torch.arange(1.0, 3.0, 0.5), (x,)
    yield "linspace", lambda a: a + torch.linspace(-1, 1, 4), (x,)
    yield "full", lambda a: a * torch.full((3, 1), 2.5), (x,)
    yield "full_like", lambda a: a * torch.full_like(a, 2.5), (x,)
    yield "zeros", lambda a: torch.cat([a, torch.zeros(1, 4)]), (x,)
    yield "ones_like", lambda a: a - torch.ones_like(a), (x,)
    yield "new_ones", lambda a: a - a.new_ones(4), (x,)
    yield "positions", lambda a: a + torch.arange(3)[:, None] * torch.arange(4), (x,)
