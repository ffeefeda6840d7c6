"""Small losses in JAX, for `make.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import nn


def _draw(*dims: int, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, dims).round(3).astype(np.float32)


def _mlp(params: Any, x: Any, y: Any) -> Any:
    h = nn.gelu(x @ params["up"]["kernel"] + params["up"]["bias"], approximate=False)
    return ((h @ params["down"]["kernel"] + params["down"]["bias"] - y) ** 2).mean()


def _classes(params: Any, tokens: Any, labels: Any) -> Any:
    h = params["table"][tokens]
    mean = h.mean(-1, keepdims=True)
    h = (h - mean) * (params["scale"] / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5))
    scores = nn.log_softmax(h @ params["head"])
    return -jnp.take_along_axis(scores, labels[..., None], axis=-1).mean()


def _heads(params: Any, x: Any) -> Any:
    """Four query heads, two of keys."""
    q, k, v = (
        jnp.einsum("bsi,ihd->bshd", x, params[n]) for n in ("query", "key", "value")
    )  # fmt: skip
    seen = nn.dot_product_attention(q, k, v, is_causal=True)
    return (jnp.einsum("bshd,hdo->bso", seen, params["out"]) ** 2).sum()


def networks() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """A loss and its arguments, parameters first."""
    mlp = {
        "up": {"kernel": _draw(6, 8, seed=0), "bias": _draw(8, seed=1)},
        "down": {"kernel": _draw(8, 3, seed=2), "bias": _draw(3, seed=3)},
    }
    words = {
        "table": _draw(10, 6, seed=4), "scale": _draw(6, seed=5), "head": _draw(6, 10, seed=6)
    }  # fmt: skip
    heads = {
        "query": _draw(6, 4, 8, seed=10), "key": _draw(6, 2, 8, seed=11),
        "value": _draw(6, 2, 8, seed=12), "out": _draw(4, 8, 6, seed=13),
    }  # fmt: skip
    places = np.random.default_rng(7).integers(0, 10, (2, 5)).astype(np.int32)
    return {
        "mlp": (_mlp, (mlp, _draw(4, 6, seed=8), _draw(4, 3, seed=9))),
        "heads": (_heads, (heads, _draw(2, 3, 6, seed=14))),
        "classes": (_classes, (words, places, places[::-1])),
    }
