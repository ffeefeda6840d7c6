"""What networks built from their sizes compute, held against formulas written apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from executors.algorithms import ALGORITHMS  # noqa: F401  read first: the others need it
from importers.hf_config import constant_values, import_config
from ir.graph import OpGraph, Role
from tests.importers.configurations import SMALL
from tests.importers.imported import run_graph

pytestmark = pytest.mark.fast

Array = NDArray[Any]
ROWS = 6


def drawn(kind: str, **fields: Any) -> tuple[OpGraph, dict[str, Array]]:
    """A small network of one layer, with numbers for inputs, weights and constants."""
    config = SMALL[kind] | {"num_hidden_layers": 1, "first_k_dense_replace": 0} | fields
    bind = {"sequence": ROWS, "batch": 2}
    graph = import_config(config, kind, "a test", bind)
    given = [t for t in graph.tensors.values() if t.role is not Role.ACTIVATION]
    held = constant_values(config, "a test", [t.name for t in given], bind)
    draw = np.random.default_rng(0)
    for tensor in given:
        if tensor.name in held:
            continue
        if tensor.is_float:
            held[tensor.name] = draw.normal(0, 0.3, tensor.dims)
        else:
            held[tensor.name] = draw.integers(0, 256, tensor.dims)
    return graph, {n: a.astype(graph.tensors[n].dtype) for n, a in held.items()}


def rms(rows: Array, weight: Array) -> Array:
    return np.asarray(rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight)


def silu(rows: Array) -> Array:
    return np.asarray(rows / (1 + np.exp(-rows)))


def softmax(rows: Array) -> Array:
    made = np.exp(rows - rows.max(-1, keepdims=True))
    return np.asarray(made / made.sum(-1, keepdims=True))


def turn(head: Array, first: Array, second: Array) -> Array:
    """Pairs of coordinates of a head `[..., rows, width]` turned by their row's angle."""
    pairs = len(first)
    angle = np.arange(ROWS)[:, None] * 10_000.0 ** (-np.arange(pairs) / pairs)
    out = np.empty_like(head)
    x, y = head[..., first], head[..., second]
    out[..., first] = x * np.cos(angle) - y * np.sin(angle)
    out[..., second] = y * np.cos(angle) + x * np.sin(angle)
    return out


def attend(query: Array, key: Array, value: Array) -> Array:
    """Causal attention of one head, `[batch, rows, width]`."""
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    scores = np.where(np.tri(ROWS, dtype=bool), scores, -np.inf)
    return np.asarray(softmax(scores) @ value)


def answer(graph: OpGraph, held: dict[str, Array]) -> Array:
    (found,) = run_graph(graph, held)
    return found


def gated(rows: Array, held: dict[str, Array], module: str) -> Array:
    gate, up, down = (held[f"{module}.{n}_proj.weight"].T for n in ("gate", "up", "down"))
    return np.asarray((silu(rows @ gate) * (rows @ up)) @ down)


def plain_attention(rows: Array, held: dict[str, Array]) -> Array:
    """8 query heads of 8 on 4 key heads; the two halves of a head are the coordinates."""
    layer = "model.layers.0.self_attn."
    query, key, value = (rows @ held[f"{layer}{n}_proj.weight"].T for n in "qkv")
    first, second = np.arange(4), np.arange(4, 8)
    heads = [
        attend(
            turn(query[..., 8 * h : 8 * h + 8], first, second),
            turn(key[..., 8 * (h // 2) : 8 * (h // 2) + 8], first, second),
            value[..., 8 * (h // 2) : 8 * (h // 2) + 8],
        )
        for h in range(8)
    ]
    return np.asarray(np.concatenate(heads, -1) @ held[f"{layer}o_proj.weight"].T)


def latent_attention(rows: Array, held: dict[str, Array]) -> Array:
    """8 heads of 16 plain and 8 turned coordinates; neighbours are turned together.

    Source: DeepSeek-V2, arXiv 2405.04434, equations 9 to 19.
    """
    w = {n.removeprefix("model.layers.0.self_attn."): a for n, a in held.items()}
    query = rms(rows @ w["q_a_proj.weight"].T, w["q_a_layernorm.weight"]) @ w["q_b_proj.weight"].T
    down = rows @ w["kv_a_proj_with_mqa.weight"].T
    up = rms(down[..., :16], w["kv_a_layernorm.weight"]) @ w["kv_b_proj.weight"].T
    even, odd = np.arange(0, 8, 2), np.arange(1, 8, 2)
    heads = []
    for h in range(8):
        q, kv = query[..., 24 * h : 24 * h + 24], up[..., 32 * h : 32 * h + 32]
        whole = [q[..., :16], turn(q[..., 16:], even, odd)]
        seen = [kv[..., :16], turn(down[..., 16:], even, odd)]
        heads.append(attend(np.concatenate(whole, -1), np.concatenate(seen, -1), kv[..., 16:]))
    return np.asarray(np.concatenate(heads, -1) @ w["o_proj.weight"].T)


def chosen(scores: Array, weights: Array, rows: Array, held: dict[str, Array]) -> Array:
    """The two experts of the largest scores, by their weights."""
    both = held["model.layers.0.mlp.experts.gate_up_proj"]
    down = held["model.layers.0.mlp.experts.down_proj"]
    out = np.zeros_like(rows)
    for place in np.ndindex(rows.shape[:-1]):
        best = np.argsort(-scores[place])[:2]
        for expert in best:
            gate, up = np.split(both[expert] @ rows[place], 2)
            share = weights[place][expert] / weights[place][best].sum()
            out[place] += share * (down[expert] @ (silu(gate) * up))
    return out


def whole(held: dict[str, Array], attention: Any, feed_forward: Any) -> Array:
    rows = held["model.embed_tokens.weight"][held["input_ids"]]
    layer = "model.layers.0."
    rows = rows + attention(rms(rows, held[f"{layer}input_layernorm.weight"]), held)
    rows = rows + feed_forward(rms(rows, held[f"{layer}post_attention_layernorm.weight"]), held)
    return np.asarray(rms(rows, held["model.norm.weight"]) @ held["lm_head.weight"].T)


def test_llama() -> None:
    graph, held = drawn("llama")
    wanted = whole(held, plain_attention, lambda x, w: gated(x, w, "model.layers.0.mlp"))
    assert answer(graph, held) == pytest.approx(wanted, abs=1e-4)


def test_gemma() -> None:
    """Heads as Llama's here; one more than the weight of a norm, the root of the width, GELU."""
    graph, held = drawn("gemma", head_dim=8, hidden_activation="gelu_pytorch_tanh")
    norms = {n: a + 1 for n, a in held.items() if "norm" in n and n.startswith("model.")}
    same = held | norms | {"lm_head.weight": held["model.embed_tokens.weight"]}
    same["model.embed_tokens.weight"] = 8 * held["model.embed_tokens.weight"]

    def feed_forward(rows: Array, held: dict[str, Array]) -> Array:
        layer = "model.layers.0.mlp."
        gate, up, down = (held[f"{layer}{n}_proj.weight"].T for n in ("gate", "up", "down"))
        x = rows @ gate
        half = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return np.asarray((half * (rows @ up)) @ down)

    wanted = whole(same, plain_attention, feed_forward)
    assert answer(graph, held) == pytest.approx(wanted, abs=1e-4)


def test_mixtral() -> None:
    graph, held = drawn("mixtral")

    def feed_forward(rows: Array, held: dict[str, Array]) -> Array:
        scores = softmax(rows @ held["model.layers.0.mlp.gate.weight"].T)
        return chosen(scores, scores, rows, held)

    wanted = whole(held, plain_attention, feed_forward)
    assert answer(graph, held) == pytest.approx(wanted, abs=1e-4)


def test_deepseek_with_one_best_group() -> None:
    """Two groups of two experts: the better group is that of the larger sum."""
    graph, held = drawn("deepseek_v3", routed_scaling_factor=1.0)

    def feed_forward(rows: Array, held: dict[str, Array]) -> Array:
        scores = 1 / (1 + np.exp(-rows @ held["model.layers.0.mlp.gate.weight"].T))
        first = scores[..., :2].sum(-1, keepdims=True) > scores[..., 2:].sum(-1, keepdims=True)
        inside = np.concatenate([first, first, ~first, ~first], -1)
        shared = gated(rows, held, "model.layers.0.mlp.shared_experts")
        return chosen(np.where(inside, scores, 0), scores, rows, held) + shared

    wanted = whole(held, latent_attention, feed_forward)
    assert answer(graph, held) == pytest.approx(wanted, abs=1e-4)
