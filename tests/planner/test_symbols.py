"""Plans for dynamic dimensions hold at every size that these can have."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from executors.values import numbers
from executors.verdict import verify
from importers.onnx import import_onnx
from ir.plan import Plan
from ir.symbols import Binding, Symbol
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from tests.importers.onnx_models import model, node, saved, stored, weight
from topology.catalogue import named_cluster

FOLDER = Path(__file__).parent.parent / "data" / "models"

BIND: dict[str, Binding] = {
    "batch": {"batch": Symbol(4, 12, 4), "seq": 6},
    "sequence": {"batch": 4, "seq": Symbol(6, 22, 4, 2)},
    "both": {"batch": Symbol(2, 6, 2), "seq": Symbol(4, 12, 4)},
}


def attention() -> onnx.ModelProto:
    """Rows in one dimension, heads by reshape, sizes by arithmetic on the shape of the input."""
    return model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["batch"]),
            node("Gather", ["shape", "one"], ["seq"]),
            node("Mul", ["batch", "seq"], ["rows"]),
            node("Concat", ["rows", "sixteen"], ["flat"], axis=0),
            node("Reshape", ["x", "flat"], ["xf"]),
            node("MatMul", ["xf", "w1"], ["h"]),
            node("Relu", ["h"], ["hr"]),
            node("Concat", ["batch", "seq", "four", "four"], ["split"], axis=0),
            node("Reshape", ["hr", "split"], ["heads"]),
            node("Transpose", ["heads"], ["q"], perm=[0, 2, 1, 3]),
            node("Transpose", ["heads"], ["k"], perm=[0, 2, 3, 1]),
            node("MatMul", ["q", "k"], ["scores"]),
            node("Softmax", ["scores"], ["p"], axis=-1),
            node("MatMul", ["p", "q"], ["o"]),
            node("Concat", ["o", "o"], ["twice"], axis=2),
            node("Add", ["seq", "seq"], ["two_seq"]),
            node("Div", ["two_seq", "two"], ["half"]),
            node("Slice", ["twice", "zero", "half", "two"], ["once"]),
            node("Transpose", ["once"], ["back"], perm=[0, 2, 1, 3]),
            node("Reshape", ["back", "flat"], ["of"]),
            node("MatMul", ["of", "w2"], ["y"]),
        ],
        {"x": ["batch", "seq", 16]},
        {"y": None},
        [
            weight("w1", 16, 16),
            weight("w2", 16, 8),
            *(stored(n, [i]) for n, i in [("zero", 0), ("one", 1), ("two", 2)]),
            *(stored(n, [i]) for n, i in [("four", 4), ("sixteen", 16)]),
        ],
    )


def _sizes(bind: Binding) -> list[dict[str, int]]:
    every = [[s] if isinstance(s, int) else s.values for s in bind.values()]
    return [dict(zip(bind, point, strict=True)) for point in itertools.product(*every)]


def _at(plan: Plan, path: Path, point: dict[str, int], request: SearchRequest) -> Plan:
    """The plan on the model at other sizes; its messages are not looked at."""
    graph, _ = prepare(import_onnx(path, point), named_cluster("atlas-800t-a2", 8), request)
    dims = {name: tensor.dims for name, tensor in graph.tensors.items()}
    tensors = tuple(replace(t, dims=dims[t.name]) for t in plan.tensors)
    return replace(plan, graph=graph, tensors=tensors)


def _uneven(plan: Plan) -> list[str]:
    """Tensors that their layout does not cut into equal parts."""
    sizes = {name: size for name, size, _ in plan.mesh}
    layouts = [(tensor.name, tensor.layout) for tensor in plan.tensors]
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        names = [*op.inputs, *(n for n in op.outputs if n)]
        found = zip(names, (*planned.inputs, *planned.outputs), strict=True)
        layouts += [(name, layout) for name, layout in found if layout is not None]
    return [
        name
        for name, layout in layouts
        for size, axes in zip(plan.graph.tensors[name].dims, layout.dims, strict=True)
        if size % math.prod(sizes[a] for a in axes)
    ]


@pytest.mark.parametrize("target", ["mindspore", "generic"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("which", BIND)
def test_a_plan_computes_the_same_at_every_size(
    which: str, seed: int, target: str, tmp_path: Path
) -> None:
    bind, path = BIND[which], saved(tmp_path, attention())
    request = SearchRequest(
        target=target, training=False, bind=tuple(bind.items()), fused_attention=bool(seed % 2)
    )
    plan = drawn_plan(import_onnx(path, bind), 8, request, seed)
    assert any(factor >= 0 for op in plan.operators for _, factor in op.split)
    for point in _sizes(bind):
        here = _at(plan, path, point, request)
        assert _uneven(here) == []
        names = [*here.graph.inputs, *(p.name for p in here.graph.parameters)]
        verdict = verify(here, numbers(here.graph, names, {}, seed))
        assert verdict.not_verified == {}
        assert all(output.error <= verdict.tolerance for output in verdict.outputs)


def test_a_dimension_that_nothing_divides_is_not_split() -> None:
    path = FOLDER / "gpt2_small_dyn.onnx.gz"
    split = {}
    for text, batch in {"even": Symbol(8, 64, 8), "odd": Symbol(1, 64)}.items():
        bind: Binding = {"batch": batch, "seq": 512}
        request = SearchRequest(target="generic", training=False, bind=tuple(bind.items()))
        graph = import_onnx(path, bind)
        plan = search(graph, named_cluster("atlas-800t-a2", 8), request)
        rows = [t.layout.dims[0] for t in plan.tensors if t.name in graph.inputs]
        split[text] = any(rows) or any(
            o.dims[0] and plan.graph.tensors[n].dims[0] == 64
            for op, planned in zip(plan.graph.ops, plan.operators, strict=True)
            for n, o in zip(op.outputs, planned.outputs, strict=True)
            if o is not None and o.dims
        )
    assert split == {"even": True, "odd": False}
