"""Which tensors the backward pass keeps, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.memory import Optimizer, parameter_bytes
from ir.normalise import add_ends, normalise
from planner.lowering.liveness import analyse, recomputable
from planner.lowering.lowered import NodeKind
from planner.request import SearchRequest
from tests.builders import GraphBuilder, attention_block, mlp
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster
from topology.mesh import tier_mesh

pytestmark = pytest.mark.fast


def test_a_product_keeps_its_operand_for_the_gradient_of_its_weight() -> None:
    liveness = analyse(add_ends(mlp(2), training=True), training=True)
    saved = set(liveness.saved_by)
    # x is needed for the first weight's gradient, the activation for the second's and its own.
    assert {"x", "relu_1"} <= saved
    assert "matmul_0" not in saved


def test_inference_keeps_nothing() -> None:
    liveness = analyse(add_ends(mlp(3), training=False), training=False)
    assert not liveness.saved_by
    assert liveness.time_points == len(liveness.graph.ops)


def test_what_no_weight_precedes_has_no_gradient() -> None:
    build = GraphBuilder("late")
    x = build.input("x", (8, 16))
    y = build.op("Mul", (x, x), (8, 16), "squared")
    z = build.op("MatMul", (y, build.weight("w", (16, 4))), (8, 4), "z")
    liveness = analyse(add_ends(build.build(z), training=True), training=True)
    assert "squared" not in liveness.gradient
    assert "z" in liveness.gradient
    assert set(liveness.saved_by) == {"squared", "z"}  # z by the loss


def test_a_fused_chain_keeps_what_it_reads_and_not_what_it_makes() -> None:
    build = GraphBuilder("gated")
    x = build.input("x", (8, 16))
    gate = build.op("MatMul", (x, build.weight("g", (16, 32))), (8, 32), "gate")
    up = build.op("MatMul", (x, build.weight("u", (16, 32))), (8, 32), "up")
    act = build.op("Sigmoid", (gate,), (8, 32), "act")
    swish = build.op("Mul", (gate, act), (8, 32), "swish")
    out = build.op("Mul", (swish, up), (8, 32), "gated")
    y = build.op("MatMul", (out, build.weight("d", (32, 4))), (8, 4), "y")
    graph = add_ends(normalise(build.build(y)), training=True)
    liveness = analyse(graph, training=True)
    assert {"gate", "up", "gated"} <= set(liveness.saved_by)
    assert not {"act", "swish"} & set(liveness.saved_by)
    fused = next(op for op in graph.ops if op.kind == "Fused")
    assert recomputable(fused, liveness)


def test_the_peak_is_what_a_single_device_must_hold() -> None:
    """On one device the memory is counted by hand; most is held when the activation goes back."""
    cluster = named_cluster("atlas-800t-a2", 1)
    graph = mlp(2, batch=64, width=256, hidden=1024)
    lowered = lowered_on(graph, cluster, tier_mesh(cluster), SearchRequest(target="generic"))
    peak = lowered.problem.peak_bytes([0] * len(lowered.nodes))
    states = (256 * 1024 + 1024 * 256) * parameter_bytes(
        "float32", Optimizer.ADAMW, training=True
    ).resident
    x, activation = 64 * 256 * 4, 64 * 1024 * 4
    gradients = 2 * activation  # of its result and of its operand
    assert peak == pytest.approx(states + 2 * x + activation + gradients)


def test_equal_layers_share_their_tables() -> None:
    cluster = named_cluster("atlas-800t-a2", 8)
    request = SearchRequest(target="generic")
    two, four = (lowered_on(mlp(n), cluster, tier_mesh(cluster), request).problem for n in (4, 8))
    assert len(four.node_table_of) > len(two.node_table_of)
    assert len(four.node_tables) <= len(two.node_tables) + 1
    assert len(four.edge_tables) <= len(two.edge_tables) + 2


def test_recomputation_doubles_the_owner_of_a_saved_tensor() -> None:
    cluster = named_cluster("atlas-800t-a2", 8)
    lowered = lowered_on(
        attention_block(),
        cluster,
        tier_mesh(cluster),
        SearchRequest(target="generic"),
        recompute=True,
    )
    doubled = [n for n in lowered.nodes if n.recomputes]
    assert doubled
    for node in doubled:
        table = lowered.problem.node_tables[
            lowered.problem.node_table_of[lowered.nodes.index(node)]
        ]
        kept, again = node.columns.kept, node.columns.recomputing
        assert (table.time_s[again] >= table.time_s[kept]).all()
        memory = np.sum(table.memory_bytes, axis=0)
        assert (memory[again] < memory[kept]).all()
    assert any(n.kind is NodeKind.TENSOR for n in doubled)
