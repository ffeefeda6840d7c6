"""What candidates compute: products and attention are found by their factors, and no split costs
more than the whole.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from costmodel.collectives import CollectiveModel
from costmodel.operators import AttentionShape, OperatorModel
from ir.dialects import FREE
from ir.graph import OpGraph
from ir.ops import OpView, catalogue, lookup
from ir.rule import ShardingRule
from planner.candidates.operator_cost import Attention, Product
from planner.candidates.operators import OpCandidates, OpPricer
from tests.builders import GraphBuilder, attention_block
from tests.costmodel.operators.chips import faster
from tests.operators.examples import EXAMPLES
from topology.catalogue import named_cluster
from topology.cluster import Chip
from topology.mesh import prime_mesh

CLUSTER = named_cluster("dgx-a100", 8)
MESH = prime_mesh(CLUSTER, 3)
A100 = CLUSTER.chip


def priced(view: OpView, chip: Chip = A100) -> OpCandidates:
    """Candidates on eight devices, with gradients of all operands that can have one."""
    entry = lookup(view.op.kind)
    allowed = entry.differentiable
    gradient = [
        t is not None and t.is_float and (allowed is None or i in allowed)
        for i, t in enumerate(view.inputs)
    ]
    pricer = OpPricer(MESH, FREE, OperatorModel(chip, smooth=True), CollectiveModel(CLUSTER, MESH))
    return pricer.candidates(view, gradient)


def made(kind: str, dims: list[tuple[int, ...]], result: tuple[int, ...], **facts: int) -> OpView:
    """One operator over weights of these dims."""
    build = GraphBuilder("one", dtype="bfloat16")
    operands = [build.input(f"x{i}", d) for i, d in enumerate(dims)]
    graph: OpGraph = build.build(build.op(kind, operands, result, "y", **facts))
    return OpView(graph.ops[0], graph)


def product(view: OpView) -> tuple[ShardingRule, Product]:
    entry = lookup(view.op.kind)
    rule = entry.rule(view)
    found = Product.of(rule, entry.engine, view.outputs[0].elements, float(entry.flops(view)))
    assert found is not None
    return rule, found


def test_a_product_is_told_by_the_factors_that_its_operands_share() -> None:
    rule, found = product(made("MatMul", [(4, 16, 1024, 64), (4, 16, 64, 512)], (4, 16, 1024, 512)))
    sizes = [
        sorted(rule.sizes[f] for f in part) for part in (found.batch, found.rows, found.columns)
    ]
    assert sizes == [[4, 16], [1024], [512]]
    assert (found.positions, found.inner) == (1, 64)


def test_a_convolution_is_a_product_of_windows() -> None:
    view = made(
        "Conv", [(8, 64, 56, 56), (256, 64, 3, 3)], (8, 256, 54, 54), kernel_shape=3, group=1
    )
    rule, found = product(view)
    assert [rule.sizes[f] for f in found.rows] == [8]
    assert [rule.sizes[f] for f in found.columns] == [256]
    assert (found.positions, found.inner) == (54 * 54, 64 * 9)


@pytest.mark.parametrize("kind", ["LSTM", "Add", "Conv"])
def test_what_is_no_product_is_priced_by_work_and_traffic(kind: str) -> None:
    entry = lookup(kind)
    for example in EXAMPLES[kind](random.Random(kind)):
        view = example.view
        flops, elements = float(entry.flops(view)), view.outputs[0].elements
        found = Product.of(example.rule, entry.engine, elements, flops)
        assert found is None or kind == "Conv"


def test_products_are_priced_by_the_shapes_of_their_shards() -> None:
    view = made("MatMul", [(4096, 2048), (2048, 8192)], (4096, 8192))
    found, model = priced(view), OperatorModel(A100, smooth=True)
    assert found.whole_forward_s == pytest.approx(
        float(model.matmul_s("bfloat16", 4096, 8192, 2048))
    )
    rule = lookup("MatMul").rule(view)
    rows = next(f for f in range(3) if rule.sizes[f] == 4096)
    place = found.assignments.index((rows, rows, rows))
    assert found.forward_s[place] == pytest.approx(
        float(model.matmul_s("bfloat16", 512, 8192, 2048))
    )
    back = model.matmul_s("bfloat16", 512, 2048, 8192) + model.matmul_s("bfloat16", 2048, 8192, 512)
    assert found.backward_s[place] == pytest.approx(float(back))


def test_a_split_inner_dimension_is_shorter_and_a_batch_has_fewer_products() -> None:
    view, model = made("MatMul", [(8, 64, 4096), (8, 4096, 512)], (8, 64, 512)), OperatorModel(A100)
    found, rule = priced(view), lookup("MatMul").rule(view)
    smooth = replace(model, smooth=True)
    for size, cut in ((4096, {"k": 512}), (8, {"batch": 1})):
        factor = next(f for f in range(4) if rule.sizes[f] == size)
        place = found.assignments.index((factor, factor, factor))
        sizes = {"m": 64, "n": 512, "k": 4096, "batch": 8} | cut
        moved = 2 * sizes["batch"] * (64 * sizes["k"] + sizes["k"] * 512 + 64 * 512)
        expected = smooth.matmul_s("bfloat16", **sizes, nbytes=moved)
        assert found.forward_s[place] == pytest.approx(float(expected))


def test_a_convolution_is_priced_with_all_its_positions() -> None:
    view = made(
        "Conv", [(8, 64, 56, 56), (256, 64, 3, 3)], (8, 256, 54, 54), kernel_shape=3, group=1
    )
    moved = 2 * (8 * 64 * 56 * 56 + 256 * 64 * 9 + 8 * 256 * 54 * 54)
    model = OperatorModel(A100, smooth=True)
    expected = model.convolution_s("bfloat16", 8 * 54 * 54, 256, 64 * 9, nbytes=moved)
    assert priced(view).whole_forward_s == pytest.approx(float(expected))


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_is_priced_by_its_rows_and_heads(causal: int) -> None:
    dims = (2, 16, 4096, 128)
    view = made("Attention", [dims, dims, dims], dims, is_causal=causal)
    found, model = priced(view), OperatorModel(A100, smooth=True)
    form = Attention.of(
        lookup("Attention").rule(view), view, float(lookup("Attention").flops(view))
    )
    assert form is not None
    assert form.causal == bool(causal)
    for backward, whole in ((False, found.forward_s), (True, found.backward_s)):
        shape = AttentionShape(2, 16, 16, 4096, 4096, 128)
        time = model.attention_s("bfloat16", shape, causal=bool(causal), backward=backward)
        assert whole.max() == pytest.approx(float(time), rel=1e-6)


@pytest.mark.parametrize("kind", sorted(catalogue()))
def test_no_candidate_takes_longer_than_the_whole_operator(kind: str) -> None:
    for example in EXAMPLES[kind](random.Random(kind)):
        found = priced(example.view)
        assert np.isfinite(found.forward_s).all()
        assert (found.forward_s >= 0).all()
        assert (found.forward_s <= found.whole_forward_s * (1 + 1e-9)).all(), str(example)
        assert (found.backward_s >= 0).all()


def test_no_candidate_of_a_large_operator_gains_from_a_slower_chip() -> None:
    graph = attention_block(64, 2048, 32, 128)
    for op in graph.ops:
        view = OpView(op, graph)
        before = priced(view)
        for better in (faster(A100, flops=1.5), faster(A100, bandwidth=1.5)):
            after = priced(view, better)
            assert (after.forward_s <= before.forward_s * (1 + 1e-12)).all()
            assert (after.backward_s <= before.backward_s * (1 + 1e-12)).all()
            assert after.whole_forward_s <= before.whole_forward_s * (1 + 1e-12)


def test_a_machine_of_the_mind_goes_by_work_alone() -> None:
    view = made("MatMul", [(32, 64), (64, 128)], (32, 128))
    ideal = Chip("case", "ideal", {"bfloat16": 1e9}, 1e30, 2**40, 1e30, 1.0, 1.0, 0.0)
    found = priced(view, ideal)
    assert found.whole_forward_s == pytest.approx(2 * 32 * 64 * 128 / 1e9)
    assert found.forward_s.min() == pytest.approx(found.whole_forward_s / 8)
