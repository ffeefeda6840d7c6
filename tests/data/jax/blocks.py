"""Four blocks of networks in JAX, for `make.py`: those of `tests/data/torch/blocks.py`.

Weights have the dims and names that PyTorch gives them, so that all twins can be compared.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

Tree = dict[str, Any]


def shape(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def linear(into: int, out: int) -> Tree:
    return {"weight": shape(out, into), "bias": shape(out)}


def dense(p: Tree, x: jax.Array) -> jax.Array:
    return x @ p["weight"].T + p["bias"]


def mlp(params: Tree, x: jax.Array) -> jax.Array:
    return dense(params["down"], nn.relu(dense(params["up"], x)))


def norm(p: Tree, x: jax.Array) -> jax.Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]


def transformer(params: Tree, x: jax.Array) -> jax.Array:
    """A layer of a decoder."""
    batch, rows, width = x.shape
    with jax.named_scope("attention"):
        h = norm(params["before"], x)
        parts = (dense(params[n], h).reshape(batch, rows, 8, -1) for n in ("query", "key", "value"))
        seen = nn.dot_product_attention(*parts, is_causal=True)
        x = x + dense(params["out"], seen.reshape(batch, rows, width))
    with jax.named_scope("mlp"):
        wide = nn.gelu(dense(params["up"], norm(params["between"], x)), approximate=False)
        return x + dense(params["down"], wide)


def transformer_einsum(params: Tree, x: jax.Array) -> jax.Array:
    """The same, as people write it by hand: heads in front, einsum, a softmax of their own."""
    batch, rows, width = x.shape
    h = norm(params["before"], x)
    q, k, v = (
        jnp.einsum("bsw,ow->bso", h, params[n]["weight"]) + params[n]["bias"]
        for n in ("query", "key", "value")
    )
    q, k, v = (t.reshape(batch, rows, 8, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(64.0)
    hidden = jnp.where(jnp.tril(jnp.ones((rows, rows), bool)), scores, -jnp.inf)
    chance = nn.softmax(hidden, axis=-1)
    seen = jnp.einsum("bhqk,bhkd->bhqd", chance, v).transpose(0, 2, 1, 3)
    x = x + dense(params["out"], seen.reshape(batch, rows, width))
    wide = nn.gelu(dense(params["up"], norm(params["between"], x)), approximate=False)
    return x + dense(params["down"], wide)


def convolution(x: jax.Array, weight: jax.Array, pad: int, form: str) -> jax.Array:
    letters = ("NCHW", "OIHW", "NCHW") if form == "NCHW" else ("NHWC", "OIHW", "NHWC")
    return lax.conv_general_dilated(x, weight, (1, 1), [(pad, pad)] * 2, dimension_numbers=letters)


def batch_norm(p: Tree, x: jax.Array, form: str) -> jax.Array:
    def along(name: str) -> jax.Array:
        return p[name][:, None, None] if form == "NCHW" else p[name]

    scaled = (x - along("running_mean")) * lax.rsqrt(along("running_var") + 1e-5)
    return scaled * along("weight") + along("bias")


def residual(params: Tree, x: jax.Array, form: str = "NCHW") -> jax.Array:
    """A bottleneck of a residual network."""
    y = x
    for index, pad in ((1, 0), (2, 1), (3, 0)):
        y = convolution(y, params[f"conv{index}"]["weight"], pad, form)
        y = batch_norm(params[f"bn{index}"], y, form)
        y = nn.relu(y) if index < 3 else nn.relu(y + x)
    return y


def experts(params: Tree, x: jax.Array) -> jax.Array:
    """A mixture of experts, two for each token."""
    tokens, width = x.shape
    share, chosen = lax.top_k(nn.softmax(x @ params["gate"]["weight"].T), 2)
    flat = chosen.reshape(-1)
    rows = jnp.repeat(x, 2, axis=0)[:, None]
    inner = nn.gelu(rows @ params["into"][flat], approximate=False)
    made = inner @ params["out"][flat]
    return (made.reshape(tokens, 2, width) * share[..., None]).sum(1)


def _norm_weights(width: int) -> Tree:
    return {"weight": shape(width), "bias": shape(width)}


_LAYER: Tree = {
    **{n: linear(512, 512) for n in ("query", "key", "value", "out")},
    **{n: _norm_weights(512) for n in ("before", "between")},
    "up": linear(512, 2048),
    "down": linear(2048, 512),
}
_STATISTICS = ("weight", "bias", "running_mean", "running_var")
_BOTTLENECK: Tree = {
    "conv1": {"weight": shape(64, 256, 1, 1)},
    "conv2": {"weight": shape(64, 64, 3, 3)},
    "conv3": {"weight": shape(256, 64, 1, 1)},
    **{f"bn{i}": {n: shape(c) for n in _STATISTICS} for i, c in ((1, 64), (2, 64), (3, 256))},
}
_MIXTURE: Tree = {
    "gate": {"weight": shape(8, 512)},
    "into": shape(8, 512, 1024),
    "out": shape(8, 1024, 512),
}
BLOCKS = {
    "mlp": (mlp, ({"up": linear(512, 2048), "down": linear(2048, 512)}, shape(64, 512))),
    "transformer": (transformer, (_LAYER, shape(8, 128, 512))),
    "transformer_einsum": (transformer_einsum, (_LAYER, shape(8, 128, 512))),
    "residual": (residual, (_BOTTLENECK, shape(32, 256, 28, 28))),
    "experts": (experts, (_MIXTURE, shape(512, 512))),
}
"""Function and its arguments."""
