"""Calls of single operations of JAX, for `make.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _draw(*dims: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, dims).round(3).astype(np.float32)


def _whole(high: int, *dims: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, high, dims).astype(np.int32)


def cases() -> Iterator[Case]:
    """Name, function and operands."""
    yield from _pointwise()
    yield from _moves()
    yield from _reductions()
    yield from _products()
    yield from _indexing()
    yield from _control()
    yield from _layers()


def _pointwise() -> Iterator[Case]:
    x, y, positive = _draw(3, 4), _draw(3, 4, seed=1), np.abs(_draw(3, 4)) + 0.1
    flag = x > 0
    for name in ("exp", "sin", "cos", "tan", "tanh", "floor", "ceil", "abs", "sign", "square",
                 "expm1", "arctan", "sinh", "cosh", "arcsinh", "cbrt", "isnan",
                 "isfinite"):  # fmt: skip
        yield name, getattr(jnp, name), (positive if name == "cbrt" else x,)
    for name in ("log", "log1p", "sqrt", "reciprocal"):
        yield name, getattr(jnp, name), (positive,)
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "greater", "less",
                 "greater_equal", "less_equal", "equal", "not_equal"):  # fmt: skip
        yield name, getattr(jnp, name), (x, y)
    yield "power", jnp.power, (positive, y)
    yield "integer power", lambda v: v**3, (x,)
    yield "remainder", lambda v: lax.rem(v, jnp.float32(0.7)), (x,)
    yield "logic", lambda a, b: (a & ~b) | (a ^ b), (flag, y > 0)
    yield "where", lambda c, a: jnp.where(c, a, 0.5), (flag, x)
    yield "clamp", lambda v: lax.clamp(-1.0, v, 1.0), (x,)
    yield "convert", lambda v: v.astype(jnp.int32) + flag, (x,)
    yield "half", lambda v: (v.astype(jnp.bfloat16) * 2).astype(jnp.float32), (np.round(x),)
    yield "round", jnp.round, (x,)
    yield "rsqrt", lax.rsqrt, (positive,)
    yield "erf", lax.erf, (x,)
    yield "erfc", lax.erfc, (x,)
    yield "shift", lambda v: (v << 2) | (v >> 1), (_whole(9, 3).astype(np.uint32),)
    yield "outer", lambda a, b: a[:, None] * b[None, :] + a[:, None], (x[0], y[1, :3])


def _moves() -> Iterator[Case]:
    x = _draw(3, 4)
    cube = _draw(2, 3, 4)
    yield "transpose", lambda v: v.transpose(2, 0, 1) + 1, (cube,)
    yield "transpose back", lambda v: jnp.tanh(v.transpose(2, 0, 1)).transpose(1, 2, 0), (cube,)
    yield "reshape", lambda v: v.reshape(4, 6) * 2, (cube,)
    yield "reshape moved", lambda v: v.transpose(1, 0, 2).reshape(3, 8), (cube,)
    yield "reshape repeated", lambda v: jnp.broadcast_to(v[:, None], (3, 2, 4)).reshape(6, 4), (x,)
    yield "ones", lambda v: v[None, :, None] + v[:, None, None, :].transpose(1, 0, 2, 3), (x,)
    yield "slice", lambda v: v[:, 1:3, ::2], (cube,)
    yield "slice moved", lambda v: v.transpose(2, 1, 0)[1:, :2], (cube,)
    yield "flip", lambda v: v[::-1, :, ::-1] + 0, (cube,)
    yield "concatenate", lambda a, b: jnp.concatenate([a.T, b.T, a.T]), (x, x * 2)
    yield "concatenate rows", lambda a: jnp.concatenate([a, jnp.ones((1, 4))]), (x,)
    yield "stack", lambda a, b: jnp.stack([a, b], 1), (x, x * 2)
    yield "pad", lambda v: jnp.pad(v, ((1, 0), (0, 2)), constant_values=3.0), (x,)
    yield "shrink", lambda v: lax.pad(v, 0.0, ((-1, 0, 0), (1, -1, 0))), (x,)
    yield "roll", lambda v: jnp.roll(v, 1, axis=1), (x,)
    yield "tril", jnp.tril, (_draw(4, 4),)
    yield "count", lambda v: v + jnp.arange(4.0) + jnp.arange(3.0)[:, None], (x,)
    yield "numbers", lambda v: v * np.array([[1, 2.5, -3, 4]], np.float32), (x,)
    yield "many numbers", lambda v: v + np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), (x,)
    yield "part", lambda v, p: lax.dynamic_update_slice(v, p, (1, 1)), (x, x[:2, :2] * 5)
    yield "row", lambda v, p, i: lax.dynamic_update_slice(v, p, (i, 0)), (x, x[:1] * 5, np.int32(1))
    yield "taken", lambda v, i: lax.dynamic_slice(v, (i, 0), (2, 4)), (x, np.int32(1))


def _reductions() -> Iterator[Case]:
    x, cube = _draw(3, 4), _draw(2, 3, 4)
    for name in ("sum", "max", "min", "prod", "mean", "var"):
        yield name, getattr(jnp, name), (x,)
        yield (
            f"{name} along",
            lambda v, n=name: getattr(jnp, n)(v.transpose(1, 0, 2), axis=1),
            (cube,),
        )
    yield "sum kept", lambda v: v - v.sum((0, 2), keepdims=True), (cube,)
    yield "sum repeated", lambda v: jnp.broadcast_to(v[:, None], (3, 2, 4)).sum((1, 2)), (x,)
    yield "any", lambda v: (v > 1).any(1), (x,)
    yield "all", lambda v: (v > -1).all(1), (x,)
    yield "argmax", lambda v: jnp.argmax(v, 1), (cube,)
    yield "argmin", lambda v: jnp.argmin(v, -1), (cube,)
    yield "top", lambda v: lax.top_k(v, 2), (cube,)
    yield "sort", lambda v: jnp.sort(v, 1), (cube,)
    yield "argsort", lambda v: jnp.argsort(v, -1), (cube,)
    yield "cumsum", lambda v: jnp.cumsum(v, 1), (cube,)
    yield "softmax", lambda v: nn.softmax(v, 1), (cube,)
    yield "log softmax", nn.log_softmax, (cube,)
    image = _draw(1, 4, 4, 3)
    one, two = (1, 2, 2, 1), "VALID"
    yield "max pool", lambda v: lax.reduce_window(v, -jnp.inf, lax.max, one, one, two), (image,)
    yield "sum pool", lambda v: lax.reduce_window(v, 0.0, lax.add, one, one, two), (image,)


def _products() -> Iterator[Case]:
    for text, *dims in (
        ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("ji,jk->ki", (4, 3), (4, 5)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bij,jk->bik", (2, 3, 4), (4, 5)),
        ("ij,bjk->bik", (3, 4), (2, 4, 5)), ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
        ("bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)), ("bsi,ihd->bshd", (2, 3, 4), (4, 2, 5)),
        ("bshd,hdo->bso", (2, 3, 2, 5), (2, 5, 4)), ("bsi,bso->io", (2, 3, 4), (2, 3, 5)),
        ("i,i->", (4,), (4,)), ("i,j->ij", (4,), (3,)), ("ij,j->i", (3, 4), (4,)),
        ("bgqhd,bkgd->bgqhk", (2, 2, 3, 2, 4), (2, 5, 2, 4)),
        ("abi,bci->acb", (2, 3, 4), (3, 5, 4)),
    ):  # fmt: skip
        operands = tuple(_draw(*d, seed=i) for i, d in enumerate(dims))
        yield f"einsum {text}", lambda *v, t=text: jnp.einsum(t, *v), operands
    image, kernel = _draw(2, 6, 6, 4), _draw(3, 3, 4, 8, seed=1)
    letters = ("NHWC", "HWIO", "NHWC")
    for name, options in (
        ("", {}), (" strided", {"window_strides": (2, 2)}), (" wide", {"rhs_dilation": (2, 2)}),
        (" groups", {"feature_group_count": 2}),
    ):  # fmt: skip
        given = {"window_strides": (1, 1), "padding": "SAME", **options}
        weight = kernel[:, :, :2] if "feature_group_count" in given else kernel
        yield (
            f"convolution{name}",
            lambda v, w, g=given: nn.relu(
                lax.conv_general_dilated(v, w, dimension_numbers=letters, **g) + 1
            ),
            (image, weight),
        )


def _indexing() -> Iterator[Case]:
    x, table = _draw(3, 4), _draw(6, 4)
    places = _whole(6, 2, 3)
    yield "lookup", lambda t, i: t[i], (table, places)
    yield "take", lambda t, i: jnp.take(t, i, axis=0), (table, places)
    yield "take columns", lambda t, i: jnp.take(t, i, axis=1), (table, _whole(4, 2))
    yield "along", lambda v, i: jnp.take_along_axis(v, i, axis=1), (x, _whole(4, 3, 2))
    yield "pairs", lambda v, i, j: v[i, j], (x, _whole(3, 5), _whole(4, 5, seed=1))
    yield "one hot", lambda i: nn.one_hot(i, 6), (places,)
    yield "written", lambda t, i, v: t.at[i].set(v), (table, np.array([4, 1]), x[:2])
    yield "added", lambda t, i, v: t.at[i].add(v), (table, np.array([4, 1, 4]), x)
    yield "embedding gradient", jax.grad(lambda t, i: (t[i] ** 2).sum()), (table, places)


def _control() -> Iterator[Case]:
    x = _draw(3, 4)
    stack = _draw(3, 4, 4)
    yield "scan", lambda w, v: lax.scan(lambda c, m: (jnp.tanh(c @ m), c.sum()), v, w), (stack, x)
    yield "loop", lambda v: lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, v), (x,)
    yield "choice", lambda v: lax.cond(v[0, 0] > 0, lambda u: u + 1, lambda u: u * 2, v), (x,)
    yield "again", jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sin(jnp.sin(u)))(v).sum()), (x,)
    yield "vmap", jax.vmap(lambda m, v: m @ v), (stack, x)


def _layers() -> Iterator[Case]:
    x, gain, shift = _draw(2, 3, 8), _draw(8, seed=1), _draw(8, seed=2)

    def centred(v: Any) -> Any:
        return v - v.mean(-1, keepdims=True)

    def layer(v: Any, g: Any, s: Any) -> Any:
        return centred(v) * lax.rsqrt(v.var(-1, keepdims=True) + 1e-5) * g + s

    def fast(v: Any, g: Any, s: Any) -> Any:
        mean = v.mean(-1, keepdims=True)
        spread = jnp.maximum(0.0, (v * v).mean(-1, keepdims=True) - mean * mean)
        return (v - mean) * (lax.rsqrt(spread + 1e-6) * g) + s

    def root(v: Any, g: Any) -> Any:
        return v * lax.rsqrt((v * v).mean(-1, keepdims=True) + 1e-6) * g

    yield "layer norm", layer, (x, gain, shift)
    yield "layer norm of squares", fast, (x, gain, shift)
    yield "layer norm without shift", lambda v, g: layer(v, g, 0.0), (x, gain)
    yield "rms norm", root, (x, gain)
    for name in ("relu", "silu", "sigmoid", "softplus", "elu", "leaky_relu", "log_sigmoid"):
        yield name, getattr(nn, name), (x,)
    yield "gelu", lambda v: nn.gelu(v, approximate=False), (x,)
    yield "gelu tanh", nn.gelu, (x,)
    heads = tuple(_draw(2, 3, 4, 8, seed=i) for i in range(3))
    yield "attention", nn.dot_product_attention, heads
    yield "causal attention", lambda *t: nn.dot_product_attention(*t, is_causal=True), heads
    grouped = (heads[0], heads[1][:, :, :2], heads[2][:, :, :2])
    yield "grouped attention", lambda *t: nn.dot_product_attention(*t, is_causal=True), grouped
