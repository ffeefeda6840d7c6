"""What blocks without softmax compute, held against their papers' recurrences written apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from executors.algorithms import ALGORITHMS  # noqa: F401  read first: the others need it
from importers.hf_config import constant_values, import_config
from ir.graph import Role
from tests.importers.configurations import SMALL_MIXED
from tests.importers.imported import run_graph

pytestmark = pytest.mark.fast

Array = NDArray[Any]
Weights = dict[str, Array]
BATCH, ROWS = 2, 6


def silu(rows: Array) -> Array:
    return np.asarray(rows / (1 + np.exp(-rows)))


def sigmoid(rows: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-rows)))


def softplus(rows: Array) -> Array:
    return np.asarray(np.log1p(np.exp(rows)))


def rms(rows: Array, weight: Array | float = 1.0) -> Array:
    return np.asarray(rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight)


def line(rows: Array, held: Weights, name: str) -> Array:
    """Each channel over the last three rows, activated."""
    kernel = held[f"{name}.weight"][:, 0]
    out = np.zeros_like(rows)
    for row in range(ROWS):
        for back in range(kernel.shape[1]):
            if row >= back:
                out[:, row] += rows[:, row - back] * kernel[:, -1 - back]
    return silu(out + held.get(f"{name}.bias", 0.0))


def heads(rows: Array, count: int) -> Array:
    return rows.reshape(BATCH, ROWS, count, -1)


def mamba2(rows: Array, held: Weights) -> Array:
    """h = exp(dt A) h + dt B x, y = C h + D x (arXiv 2405.21060): 8 heads of 16, 4 groups of 4."""
    part = {n: rows @ held[f"in_proj.{n}.weight"].T for n in ("z", "x", "B", "C", "dt")}
    x, b, c = (line(part[n], held, f"conv1d.{n}") for n in "xBC")
    step = softplus(part["dt"] + held["dt_bias"])
    state, out = np.zeros((BATCH, 8, 16, 4)), np.zeros((BATCH, ROWS, 8, 16))
    for row in range(ROWS):
        for head in range(8):
            value, dt = heads(x, 8)[:, row, head], step[:, row, head, None]
            write, read = (heads(each, 4)[:, row, head // 2] for each in (b, c))
            fall = np.exp(-dt * np.exp(held["A_log"][head]))
            new = (dt * value)[:, :, None] * write[:, None]
            state[:, head] = fall[:, :, None] * state[:, head] + new
            read_out = np.einsum("bvk,bk->bv", state[:, head], read)
            out[:, row, head] = read_out + held["D"][head] * value
    gated = out.reshape(BATCH, ROWS, -1) * silu(part["z"])
    normal = rms(heads(gated, 4)).reshape(BATCH, ROWS, -1) * held["norm.weight"]
    return np.asarray(normal @ held["out_proj.weight"].T)


def mamba(rows: Array, held: Weights) -> Array:
    """The same for each of 128 channels with a state of 4 (arXiv 2312.00752, algorithm 2)."""
    gate, x = (rows @ held[f"in_proj.{n}.weight"].T for n in "zx")
    x = line(x, held, "conv1d")
    small = x @ held["x_proj.weight"].T
    low, write, read = small[..., :8], small[..., 8:12], small[..., 12:]
    step = softplus(low @ held["dt_proj.weight"].T + held["dt_proj.bias"])
    state, out = np.zeros((BATCH, 128, 4)), np.zeros_like(x)
    for row in range(ROWS):
        dt = step[:, row, :, None]
        new = dt * x[:, row, :, None] * write[:, row, None]
        state = np.exp(-dt * np.exp(held["A_log"])) * state + new
        out[:, row] = (state * read[:, row, None]).sum(-1) + held["D"] * x[:, row]
    return np.asarray((out * silu(gate)) @ held["out_proj.weight"].T)


def delta(query: Array, key: Array, value: Array, fall: Array, rate: Array) -> Array:
    """S = S diag(fall), S += rate (v - S k) k', o = S q / sqrt(d) (arXiv 2412.06464, 2510.26692).

    Args:
        query: `[batch, rows, heads, width]`; key, and value of its own width, likewise.
        fall: of each channel of a key.
        rate: `[batch, rows, heads]`.
    """
    query, key = (a / np.sqrt((a**2).sum(-1, keepdims=True)) for a in (query, key))
    count, wide, tall = query.shape[2], key.shape[3], value.shape[3]
    state, out = np.zeros((BATCH, count, tall, wide)), np.zeros_like(value)
    for row in range(ROWS):
        k = key[:, row]
        state = state * fall[:, row, :, None]
        new = rate[:, row, :, None] * (value[:, row] - np.einsum("bhvk,bhk->bhv", state, k))
        state = state + new[..., None] * k[:, :, None]
        out[:, row] = np.einsum("bhvk,bhk->bhv", state, query[:, row]) / np.sqrt(wide)
    return out


def gated_delta(rows: Array, held: Weights) -> Array:
    """8 heads of values of 16 on 4 heads of keys of 8."""
    query, key, value = (
        line(rows @ held[f"in_proj_qkvz.{n}.weight"].T, held, f"conv1d.{n}") for n in "qkv"
    )
    gate = rows @ held["in_proj_qkvz.z.weight"].T
    strength, wide = (rows @ held[f"in_proj_ba.{n}.weight"].T for n in "ba")
    fall = np.exp(-np.exp(held["A_log"]) * softplus(wide + held["dt_bias"]))
    query, key = (np.repeat(heads(each, 4), 2, axis=2) for each in (query, key))
    fall = np.repeat(fall[..., None], 8, axis=3)
    made = delta(query, key, heads(value, 8), fall, sigmoid(strength))
    normal = rms(made, held["norm.weight"]).reshape(BATCH, ROWS, -1)
    return np.asarray((normal * silu(gate)) @ held["out_proj.weight"].T)


def kimi_delta(rows: Array, held: Weights) -> Array:
    """8 heads of 8 with a decay for each channel of a key."""
    query, key, value = (
        heads(line(rows @ held[f"{n}_proj.weight"].T, held, f"{n}_conv1d"), 8) for n in "qkv"
    )
    wide = rows @ held["f_a_proj.weight"].T @ held["f_b_proj.weight"].T
    step = heads(softplus(wide + held["dt_bias"]), 8)
    fall = np.exp(-np.exp(held["A_log"])[:, None] * step)
    made = delta(query, key, value, fall, sigmoid(rows @ held["b_proj.weight"].T))
    gate = rows @ held["g_a_proj.weight"].T @ held["g_b_proj.weight"].T
    normal = rms(made, held["o_norm.weight"]).reshape(BATCH, ROWS, -1)
    return np.asarray((normal * sigmoid(gate)) @ held["o_proj.weight"].T)


def lightning(rows: Array, held: Weights) -> Array:
    """Rows weigh by a fixed power of their distance (arXiv 2401.04658, equation 2): 8 heads."""
    query, key, value = (heads(silu(rows @ held[f"qkv_proj.{n}.weight"].T), 8) for n in "qkv")
    out = np.zeros_like(value)
    for head in range(8):
        slope = 2.0 ** -(head + 1.0)
        for row in range(ROWS):
            for seen in range(row + 1):
                score = (query[:, row, head] * key[:, seen, head]).sum(-1)
                weight = score * np.exp(-slope * (row - seen))
                out[:, row, head] += weight[:, None] * value[:, seen, head]
    normal = rms(out.reshape(BATCH, ROWS, -1), held["norm.weight"])
    gate = sigmoid(rows @ held["output_gate.weight"].T)
    return np.asarray((normal * gate) @ held["out_proj.weight"].T)


CASES: dict[str, tuple[str, Callable[[Array, Weights], Array], dict[str, Any]]] = {
    "mamba2": ("backbone.layers.0.mixer", mamba2, {}),
    "mamba": ("backbone.layers.0.mixer", mamba, {}),
    "qwen3_5_text": (
        "model.layers.0.linear_attn", gated_delta, {"layer_types": ["linear_attention"]}
    ),
    "kimi_linear": ("model.layers.0.self_attn", kimi_delta, {}),
    "minimax": ("model.layers.0.self_attn", lightning, {"attn_type_list": [0]}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_a_block_computes_what_its_paper_says(kind: str) -> None:
    module, meant, fields = CASES[kind]
    config = SMALL_MIXED[kind] | {"num_hidden_layers": 1} | fields
    bind = {"sequence": ROWS, "batch": BATCH}
    graph = import_config(config, kind, "a test", bind)
    given = [t for t in graph.tensors.values() if t.role is not Role.ACTIVATION]
    held = constant_values(config, "a test", [t.name for t in given], bind)
    draw = np.random.default_rng(0)
    for tensor in given:
        if tensor.name not in held:
            held[tensor.name] = (
                draw.normal(0, 0.3, tensor.dims)
                if tensor.is_float
                else draw.integers(0, 256, tensor.dims)
            )
    held = {name: a.astype(graph.tensors[name].dtype) for name, a in held.items()}
    within = {n.removeprefix(f"{module}."): a for n, a in held.items() if n.startswith(module)}
    first, *_ = [op for op in graph.ops if op.kind == "Add" and op.scope.endswith("layers.0")]
    rows, made = first.inputs
    found_rows, found = run_graph(replace(graph, outputs=(rows, made)), held)
    embedded = found_rows.astype(np.float64)
    norm = next(n for n in held if n.endswith(("0.norm.weight", "input_layernorm.weight")))
    offset = 1.0 if kind == "qwen3_5_text" else 0.0
    wanted = meant(rms(embedded, held[norm] + offset), within)
    assert found == pytest.approx(wanted, abs=1e-4)
    assert np.abs(wanted).max() > 1e-3
