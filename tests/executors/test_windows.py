"""Convolutions and pooling whose positions are split: neighbours exchange edges.

Numbers and messages are those of the plan.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executors.reference import given_tensors
from executors.rescaling import rescaled
from executors.shrink import shrunk
from executors.values import numbers
from executors.verdict import verify
from ir.graph import OpGraph
from ir.ops import OpView, lookup
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.executors.drawn_plans import drawn_plan
from topology.catalogue import named_cluster


def images() -> OpGraph:
    """Every kind that reads windows, with steps, holes, groups and padding of all sorts."""
    build = GraphBuilder("images")
    x = build.input("x", (2, 4, 16, 16))
    w = build.weight
    y = build.op("Conv", (x, w("w1", (8, 4, 3, 3))), (2, 8, 16, 16), pads=(1, 1, 1, 1))
    y = build.op("Relu", (y,), (2, 8, 16, 16))
    y = build.op(
        "MaxPool", (y,), (2, 8, 8, 8), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)
    )
    y = build.op("Conv", (y, w("w2", (8, 4, 4, 4))), (2, 8, 8, 8), pads=(1, 1, 2, 2), group=2)
    y = build.op(
        "AveragePool", (y,), (2, 8, 8, 8), kernel_shape=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)
    )
    y = build.op(
        "AveragePool", (y,), (2, 8, 4, 4), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1),
        count_include_pad=1,
    )  # fmt: skip
    y = build.op(
        "ConvTranspose", (y, w("w3", (8, 4, 4, 4))), (2, 4, 8, 8), strides=(2, 2), pads=(1, 1, 1, 1)
    )
    y = build.op("LpPool", (y,), (2, 4, 4, 4), kernel_shape=(2, 2), strides=(2, 2))
    return build.build(
        build.op(
            "Conv", (y, w("w4", (4, 4, 3, 3))), (2, 4, 4, 4), pads=(2, 2, 2, 2), dilations=(2, 2)
        )
    )


def one(kind: str, size: int, step: int, kernel: int, pads: tuple[int, int]) -> OpGraph:
    """One operator whose windows keep step with the positions."""
    build = GraphBuilder("window")
    few, many = (2, 4, size, 2 * size), (2, 4, size * step, 2 * size * step)
    data, result = (few, many) if kind == "ConvTranspose" else (many, few)
    before, behind = pads
    operands = [build.input("x", data)]
    operands += [build.weight("w", (4, 4, kernel, kernel))] if kind.startswith("Conv") else []
    made = build.op(
        kind, operands, result, kernel_shape=(kernel,) * 2, strides=(step,) * 2,
        pads=(before, before, behind, behind),
    )  # fmt: skip
    return build.build(made)


def edges_sent(plan: Plan) -> int:
    return sum(item.kind == "point_to_point" for item in plan.collectives)


def check(plan: Plan) -> None:
    verdict = verify(plan, numbers(plan.graph, given_tensors(plan), {}))
    assert verdict.passed, (verdict.not_verified, verdict.mismatches, verdict.outputs)


@pytest.mark.parametrize("target", ["generic", "jax", "mindspore"])
@pytest.mark.parametrize("training", [False, True])
def test_any_plan_that_splits_positions_computes_the_same(target: str, training: bool) -> None:
    request = SearchRequest(target=target, training=training, cut_positions=True)
    sent = 0
    for seed in range(2):
        plan = drawn_plan(images(), 4 + 4 * (seed % 2), request, seed)
        check(plan)
        sent += edges_sent(plan)
    assert sent


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(["Conv", "ConvTranspose", "MaxPool", "AveragePool"]),
    step=st.integers(1, 3),
    more=st.integers(0, 3),
    draw=st.data(),
)
def test_windows_of_any_size_and_step(kind: str, step: int, more: int, draw: st.DataObject) -> None:
    """Padding is any that leaves one result for each step."""
    spare = 0 if kind == "ConvTranspose" else draw.draw(st.integers(0, step - 1))
    before = draw.draw(st.integers(0, more + spare))
    size = draw.draw(st.sampled_from([4, 6, 8]))
    graph = one(kind, size, step, step + more, (before, more + spare - before))
    request = SearchRequest(target="generic", training=True, cut_positions=True)
    check(drawn_plan(graph, 4, request, draw.draw(st.integers(0, 5))))


def test_positions_stay_whole_unless_somebody_asks() -> None:
    graph = one("Conv", 8, 1, 3, (1, 1))
    for seed in range(6):
        plan = drawn_plan(graph, 4, SearchRequest(target="generic", training=False), seed)
        assert edges_sent(plan) == 0
        assert all(
            layout is None or not any(layout.dims[2:]) for layout in plan.operators[0].inputs
        )


@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_no_edge_is_longer_than_a_piece(pieces: int) -> None:
    graph = one("Conv", 8, 1, 5, (2, 2))
    rule = lookup("Conv").rule(OpView(graph.ops[0], graph))
    rows, columns = rule.windows
    assert (rows.before, rows.after) == (2, 2)
    assert rows.fits(8, pieces) is (pieces < 8)
    assert columns.fits(16, pieces)


def test_windows_out_of_step_with_the_positions_keep_them_whole() -> None:
    build = GraphBuilder("valid")
    x, w = build.input("x", (2, 4, 9, 8)), build.weight("w", (4, 4, 3, 3))
    graph = build.build(build.op("Conv", (x, w), (2, 4, 7, 8), pads=(0, 1, 0, 1)))
    rule = lookup("Conv").rule(OpView(graph.ops[0], graph))
    assert [window.dim for window in rule.windows] == [3]
    assert rule.operands[0] is not None
    assert rule.operands[0][2] == ()


@pytest.mark.fast
def test_strips_of_large_images_are_convolved_where_they_are() -> None:
    """The dataset cuts the columns: nobody asks for more, and no image is gathered."""
    build = GraphBuilder("strips")
    dims = (1, 32, 512, 4096)
    y = build.input("x", dims)
    for layer in range(2):
        weight = build.weight(f"w{layer}", (32, 32, 3, 3))
        y = build.op("Conv", (y, weight), dims, name=f"conv{layer}", pads=(1,) * 4)
    request = SearchRequest(training=False, dataset_strategy=((1, 1, 1, 4),))
    plan = search(build.build(y), named_cluster("atlas-800t-a2", 4), request)
    assert edges_sent(plan) == 2
    assert {item.kind for item in plan.collectives} == {"point_to_point"}
    small = shrunk(plan).plan
    check(rescaled(small, plan))


def test_pools_that_need_edges_stay_whole_for_mindspore() -> None:
    """Its pools exchange none: a piece that is padded in front needs some, overlap or not."""
    offered = []
    for pads in ((0, 0), (1, 1)):
        graph = one("MaxPool", 4, 3, 3, pads)
        rule = lookup("MaxPool").rule(OpView(graph.ops[0], graph))
        offered.append(not {window.factor for window in rule.windows} <= rule.uncut)
    assert offered == [True, False]


@pytest.mark.parametrize(
    ("step", "kernel", "pads", "taken"),
    [
        (1, 3, (1, 1), True), (2, 3, (1, 0), True), (3, 2, (0, 0), True), (3, 3, (0, 2), True),
        (3, 4, (1, 1), True), (3, 3, (1, 1), False), (3, 2, (1, 0), False), (2, 4, (3, 0), False),
        (3, 4, (2, 1), False),
    ],
)  # fmt: skip
def test_padding_that_pushes_windows_out_of_their_pieces_is_not_for_mindspore(
    step: int, kernel: int, pads: tuple[int, int], taken: bool
) -> None:
    """As MindSpore 2.10.0 took and refused them on 2026-11-22, each cut four ways."""
    graph = one("Conv", 8, step, kernel, pads)
    rule = lookup("Conv").rule(OpView(graph.ops[0], graph))
    assert len(rule.windows) == 2
    assert {window.factor in rule.uncut for window in rule.windows} == {not taken}
