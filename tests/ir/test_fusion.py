"""Chains of element-wise operators become one, and the rule of the whole is what its parts say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import Op, OpGraph
from ir.normalise import normalise
from ir.normalise.fusion import MAX_OPERANDS, MAX_PARTS, fuse_elementwise
from ir.ops import OpView, check_operators, lookup
from tests.builders import GraphBuilder
from tests.ir.meanings import meaning_of
from tests.ir.shards import Array, cut, cut_dims, join, run_together

ROWS, COLUMNS = 4, 6
UNARY = ("Relu", "Sigmoid", "Neg", "Abs")
BINARY = ("Add", "Mul", "Sub", "Max")


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    """Random graphs of element-wise operators, sums, slices and products."""
    build = GraphBuilder("random")
    known: dict[str, tuple[int, ...]] = {}
    for index in range(draw(st.integers(1, 3))):
        dims = draw(st.sampled_from([(ROWS, COLUMNS), (ROWS, 1), (COLUMNS,)]))
        known[build.input(f"in{index}", dims)] = dims
    for _ in range(draw(st.integers(1, 12))):
        name, dims = draw(_steps(build, known))
        known[name] = dims
    outputs = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3, unique=True))
    return build.build(*outputs)


@st.composite
def _steps(
    draw: st.DrawFn, build: GraphBuilder, known: dict[str, tuple[int, ...]]
) -> tuple[str, tuple[int, ...]]:
    """One more operator."""
    x = draw(st.sampled_from(sorted(known)))
    dims = known[x]
    way = draw(st.integers(0, 5))
    if way == 0 and len(dims) == 2:
        axis = draw(st.integers(0, 1))
        shrunk = tuple(1 if i == axis else d for i, d in enumerate(dims))
        return build.op("ReduceSum", (x,), shrunk, axes=(axis,)), shrunk
    if way == 1 and dims == (ROWS, COLUMNS):
        turned = build.op("Transpose", (x,), (COLUMNS, ROWS), perm=(1, 0))
        return build.op("MatMul", (x, turned), (ROWS, ROWS)), (ROWS, ROWS)
    if way == 2 and dims == (ROWS, COLUMNS):
        half = (ROWS, COLUMNS // 2)
        bounds: dict[str, tuple[int, ...]] = {"slice_axes": (1,), "starts": (0,), "ends": (3,)}
        y = draw(st.sampled_from(sorted(known)))
        first = _slice(build, x, half, bounds)
        second = _slice(build, y, half, bounds) if known[y] == dims else first
        pair = (first, second)
        return build.op("Concat", pair, (ROWS, COLUMNS), name=None, axis=1), (ROWS, COLUMNS)
    if way <= 3:
        return build.op(draw(st.sampled_from(UNARY)), (x,), dims), dims
    y = draw(st.sampled_from(sorted(known)))
    try:
        joined = np.broadcast_shapes(dims, known[y])
    except ValueError:
        return build.op("Relu", (x,), dims), dims
    return build.op(draw(st.sampled_from(BINARY)), (x, y), joined), joined


def _slice(
    build: GraphBuilder, x: str, dims: tuple[int, ...], bounds: dict[str, tuple[int, ...]]
) -> str:
    return build.op(
        "Slice",
        (x,),
        dims,
        name=None,
        axes=(1,),
        slice_axes=bounds["slice_axes"],
        starts=bounds["starts"],
        ends=bounds["ends"],
        steps=(1,),
    )


def flat(graph: OpGraph) -> list[Op]:
    """Operators with composites taken apart."""
    return [part for op in graph.ops for part in (op.parts or (op,))]


@given(graphs())
def test_fusion_keeps_every_operator_and_an_order_in_which_they_run(graph: OpGraph) -> None:
    fused = fuse_elementwise(graph)
    fused.validate()
    check_operators(fused)
    assert sorted(flat(fused), key=lambda o: o.name) == sorted(graph.ops, key=lambda o: o.name)
    known = set(graph.inputs)
    for op in flat(fused):
        assert known.issuperset(op.inputs)
        known.update(op.outputs)


@given(graphs())
def test_what_is_inside_a_composite_nobody_else_reads(graph: OpGraph) -> None:
    fused = fuse_elementwise(graph)
    for op in fused.ops:
        inside = {n for p in op.parts for n in p.outputs} - set(op.outputs)
        others = {n for other in fused.ops if other.name != op.name for n in other.inputs}
        assert not inside & (others | set(fused.outputs))
        assert len(op.parts) <= MAX_PARTS
        assert len(op.inputs) <= MAX_OPERANDS or not op.parts


@given(graphs())
def test_the_shards_of_a_composite_compute_what_the_whole_computes(graph: OpGraph) -> None:
    random = np.random.default_rng(0)
    for op in fuse_elementwise(graph).ops:
        if not op.parts:
            continue
        view = OpView(op, graph)
        operands = [
            random.uniform(-1, 1, t.dims).astype(np.float32) for t in view.inputs if t is not None
        ]
        rule = lookup(op.kind).rule(view)
        whole = _run(view, operands, -1, 1)[0]
        for factor in rule.splittable:
            if rule.sizes[factor] % 2 == 0:
                parts = _run(view, operands, factor, 2)
                _check(view, parts, factor, whole)


def _run(view: OpView, operands: list[Array], factor: int, ways: int) -> list[Array]:
    rule = lookup(view.op.kind).rule(view)
    shards = [
        meaning_of(view.op.kind)(
            view,
            [
                cut(a, m, rule, factor, part, ways)
                for a, m in zip(operands, rule.operands, strict=True)
            ],
            [cut_dims(view.result(), rule.results[0], rule, factor, ways)],
            part,
        )
        for part in range(ways)
    ]
    reduced = [factor in c.factors for c in rule.internal for _ in range(c.forward)]
    return [results[0] for results in run_together(shards, reduced)[0]]


def _check(view: OpView, parts: list[Array], factor: int, whole: Array) -> None:
    rule = lookup(view.op.kind).rule(view)
    mapping = rule.results[0]
    assert mapping is not None
    inside = any(factor in c.factors for c in rule.internal)
    found = (
        parts[0]
        if inside and not rule.has(mapping, factor)
        else join(parts, mapping, rule, factor, whole.shape)
    )
    np.testing.assert_allclose(found, whole, rtol=1e-3, atol=1e-4)


def labels(graph: OpGraph) -> list[str]:
    return [op.label for op in normalise(graph).ops]


def test_known_chains_have_the_names_that_people_know() -> None:
    build = GraphBuilder("gate")
    dims = (4, 8)
    gate, up = build.input("gate", dims), build.input("up", dims)
    gate = build.op("Relu", (build.op("MatMul", (gate, build.weight("w", (8, 8))), dims),), dims)
    graph = build.build(build.op("Add", (gate, up), dims))
    assert labels(graph) == ["MatMul", "Relu+Add"]


def test_a_normalisation_is_one_operator() -> None:
    build = GraphBuilder("norm")
    dims, thin = (4, 8), (4, 1)
    x = build.input("x", dims)
    two, small = build.weight("two", ()), build.weight("small", ())
    mean = build.op("ReduceMean", (build.op("Pow", (x, two), dims),), thin, axes=(1,))
    root = build.op("Sqrt", (build.op("Add", (mean, small), thin),), thin)
    graph = build.build(build.op("Div", (x, root), dims))
    (op,) = normalise(graph).ops
    assert op.label == "RMSNormalization"
    rule = lookup(op.kind).rule(OpView(op, normalise(graph)))
    (inside,) = rule.internal
    assert [rule.sizes[f] for f in inside.factors] == [8]
    assert [rule.sizes[f] for f in inside.message] == [4]


def test_a_long_chain_is_cut() -> None:
    build = GraphBuilder("long")
    x = build.input("x", (4, 8))
    for _ in range(3 * MAX_PARTS):
        x = build.op("Relu", (x,), (4, 8))
    sizes = [len(op.parts) for op in fuse_elementwise(build.build(x)).ops]
    assert sizes == [MAX_PARTS] * 3
