"""Grouped experts compute what the gathered weights of the exporter compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from executors.algorithms import ALGORITHMS
from executors.evaluation import Evaluator
from executors.placement import Array, Spread, spread, whole
from executors.spmd import run_operator
from ir.graph import OpGraph
from ir.layout import Layout
from ir.normalise.experts import group_experts
from ir.semantics.call import NotRunError
from tests.importers.onnx_models import imported, model, node, stored
from topology.mesh import Mesh, MeshAxis

pytestmark = pytest.mark.fast

TOKENS, CHOSEN, EXPERTS, WIDTH, HIDDEN = 8, 2, 4, 6, 5
SLOTS = TOKENS * CHOSEN
ONE = Mesh((MeshAxis("a", 1, 0),))


def run(graph: OpGraph, given: Mapping[str, Array]) -> list[Array]:
    """Outputs of a graph, one operator after the other."""
    known = dict(given)
    for op in graph.ops:
        operands = [_alone(known[n]) if n else None for n in op.inputs]
        found, _ = run_operator(op, graph, operands, (-1,), Evaluator(), ALGORITHMS)
        known.update(zip(op.outputs, map(whole, found), strict=True))
    return [known[n] for n in graph.outputs]


def _alone(array: Array) -> Spread:
    return spread(array, Layout(((),) * array.ndim), ONE)


def mixture(folder: Path, *, row: bool, nd: bool) -> tuple[OpGraph, dict[str, Array]]:
    """Two of four experts for every token, whose weights are gathered for each of them.

    The first features of a token are its scores.
    """
    rng = np.random.default_rng(0)

    def matrices(wide: int, out: int) -> Array:
        dims = (EXPERTS, wide, out) if row else (EXPERTS, out, wide)
        return rng.normal(size=dims).astype(np.float32)

    values: dict[str, Array] = {
        "router": np.eye(WIDTH, EXPERTS, dtype=np.float32),
        "moe.gate": matrices(WIDTH, HIDDEN),
        "moe.up": matrices(WIDTH, HIDDEN),
        "moe.down": matrices(HIDDEN, WIDTH),
        "two": np.array([CHOSEN]),
        "slots": np.array([SLOTS, 1] if nd else [SLOTS]),
        "wide": np.array([TOKENS, CHOSEN, WIDTH]),
        "rows": np.array([SLOTS, 1, WIDTH] if row else [SLOTS, WIDTH, 1]),
        "axis1": np.array([1]),
        "axis2": np.array([2]),
    }
    nodes = [
        node("MatMul", ["x", "router"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=1),
        node("TopK", ["shares", "two"], ["share", "chosen"], axis=1),
        node("Reshape", ["chosen", "slots"], ["index"]),
        node("Unsqueeze", ["x", "axis1"], ["x3"]),
        node("Expand", ["x3", "wide"], ["tokens"]),
        node("Reshape", ["tokens", "rows"], ["y"]),
    ]

    def product(tokens: str, weight: str, result: str) -> None:
        kind = "GatherND" if nd else "Gather"
        nodes.append(node(kind, [weight, "index"], [f"{weight}s"]))
        pair = [tokens, f"{weight}s"] if row else [f"{weight}s", tokens]
        nodes.append(node("MatMul", pair, [result]))

    product("y", "moe.gate", "g")
    product("y", "moe.up", "u")
    nodes += [node("Sigmoid", ["g"], ["s"]), node("Mul", ["g", "s"], ["silu"])]
    nodes.append(node("Mul", ["silu", "u"], ["inner"]))
    product("inner", "moe.down", "d")
    nodes += [
        node("Reshape", ["d", "wide"], ["d3"]),
        node("Unsqueeze", ["share", "axis2"], ["share3"]),
        node("Mul", ["d3", "share3"], ["parts"]),
        node("ReduceSum", ["parts", "axis1"], ["out"], keepdims=0),
    ]
    held = [stored(n, v) for n, v in values.items()]
    made = model(nodes, {"x": [TOKENS, WIDTH]}, {"out": [TOKENS, WIDTH]}, held)
    return imported(folder, made), values


def features(routes: Array) -> Array:
    """Tokens that prefer the experts of the routes."""
    rng = np.random.default_rng(1)
    out = rng.normal(size=(TOKENS, WIDTH)).astype(np.float32) * 0.1
    for token, experts in enumerate(routes):
        out[token, experts] += np.linspace(6, 5, CHOSEN)
    return out


BALANCED = np.array([[0, 1], [2, 3], [3, 0], [1, 2], [2, 0], [3, 1], [1, 3], [0, 2]])
FORMS = [(row, nd) for row in (True, False) for nd in (True, False)]


@pytest.mark.parametrize(("row", "nd"), FORMS)
def test_balanced_tokens_get_what_their_experts_make(tmp_path: Path, row: bool, nd: bool) -> None:
    graph, values = mixture(tmp_path, row=row, nd=nd)
    grouped = group_experts(graph)
    assert sum(op.kind == "ExpertMatMul" for op in grouped.ops) == 3
    values["x"] = features(BALANCED)
    (wanted,), (found,) = run(graph, values), run(grouped, values)
    rounding = 1e-6 * float(np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=rounding)


def test_what_overflows_is_not_run(tmp_path: Path) -> None:
    """Five tokens of one expert do not fit into four slots."""
    graph, values = mixture(tmp_path, row=True, nd=False)
    routes = BALANCED.copy()
    routes[1] = [0, 3]
    values["x"] = features(routes)
    assert run(graph, values)[0].shape == (TOKENS, WIDTH)
    with pytest.raises(NotRunError):
        run(group_experts(graph), values)
