"""Chains of element-wise operators become one, and the rule of the whole is what its parts say."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.graph import Op, OpGraph, Role
from ir.normalise import normalise
from ir.normalise.fusion import MAX_OPERANDS, MAX_PARTS, fuse_elementwise
from ir.ops import OpView, check_operators, lookup
from tests.builders import GraphBuilder
from tests.operators.example import Example, floats
from tests.operators.laws import Coverage, check_example

ROWS, COLUMNS = 4, 6
UNARY = ("Relu", "Sigmoid", "Neg", "Abs")
BINARY = ("Add", "Mul", "Sub", "Max")


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    """Random graphs of element-wise operators, sums, slices and products."""
    build = GraphBuilder("random", "float64")
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


@settings(max_examples=40)
@given(graphs())
def test_the_composites_that_fusion_makes_compute_the_same_when_split(graph: OpGraph) -> None:
    """What fusion leaves can be run: in order, on what it names as operands."""
    draw = random.Random(0)
    for op in fuse_elementwise(graph).ops:
        if op.parts:
            check_example(alone(graph, op, draw), draw, 6, Coverage())


def alone(graph: OpGraph, op: Op, draw: random.Random) -> Example:
    """A graph of one operator of another graph."""
    data = {n: floats(draw, *graph.tensors[n].dims) for n in op.inputs}
    names = dict.fromkeys(n for part in (op, *op.parts) for n in (*part.inputs, *part.outputs))
    tensors = {n: graph.tensors[n] for n in names}
    tensors |= {n: replace(tensors[n], role=Role.INPUT) for n in data}
    return Example(OpGraph(op.name, tensors, (op,), tuple(data), op.outputs), data)


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
