"""Operators that front ends write by name: the dims and types that a method works out are ONNX's,
and a node that a call writes is imported as what the writer of a graph writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
import pytest

from importers.errors import ModelError
from importers.onnx import import_model
from importers.onnx_checks import type_code
from importers.operators import GraphOperators, Operators, broadcast_dims
from importers.traced.call import Call
from importers.traced.writer import Writer as NodeWriter
from importers.transformers.writer import Writer as GraphWriter
from ir.graph import OpGraph, Tensor

pytestmark = pytest.mark.fast

Build = Callable[..., Any]
FLOAT, FLAG, INDEX = "float32", "bool", "int64"
WIDE = ((2, 3, 4), FLOAT)
WRITTEN: Mapping[str, tuple[Build, tuple[tuple[tuple[int, ...], str], ...]]] = {
    **{
        name: (lambda w, a, b, name=name: getattr(w, name)(a, b), (WIDE, ((3, 1), FLOAT)))
        for name in ("add", "sub", "mul", "div", "power", "maximum", "minimum", "equal", "greater")
    },
    **{
        name: (lambda w, a, name=name: getattr(w, name)(a), (WIDE,))
        for name in ("neg", "is_nan", "sqrt", "reciprocal", "relu", "sigmoid", "tanh", "flipped")
    },
    "remainder": (lambda w, a, b: w.remainder(a, b, fmod=1), (WIDE, ((4,), FLOAT))),
    "select": (lambda w, c, a, b: w.select(c, a, b), (((3, 1), FLAG), WIDE, ((4,), FLOAT))),
    "logical_not": (lambda w, c: w.logical_not(c), (((3, 1), FLAG),)),
    "gelu": (lambda w, a: w.gelu(a, "tanh"), (WIDE,)),
    "softmax": (lambda w, a: w.softmax(a, 1), (WIDE,)),
    "rms_norm": (lambda w, a, s: w.rms_norm(a, s, 2, epsilon=0.5), (WIDE, ((4,), FLOAT))),
    "cast": (lambda w, a: w.cast(a, INDEX), (WIDE,)),
    "matmul": (lambda w, a, b: w.matmul(a, b), (((2, 1, 3, 4), FLOAT), ((5, 4, 6), FLOAT))),
    "matmul of a matrix": (lambda w, a, b: w.matmul(a, b), (WIDE, ((4, 6), FLOAT))),
    "matmul of vectors": (lambda w, a, b: w.matmul(a, b), (((4,), FLOAT), ((4,), FLOAT))),
    "conv": (
        lambda w, a, b: w.conv(
            [a, b], (2, 5, 6), group=1, kernel_shape=(3,), pads=(1, 1), dilations=(1,), strides=(1,)
        ),
        (((2, 3, 6), FLOAT), ((5, 3, 3), FLOAT)),
    ),
    "reshape": (lambda w, a: w.reshape(a, 6, 4), (WIDE,)),
    "expand": (lambda w, a: w.expand(a, 2, 3, 4), (((3, 1), FLOAT),)),
    "transpose": (lambda w, a: w.transpose(a, 2, 0, 1), (WIDE,)),
    "heads_apart": (lambda w, a: w.heads_apart(a, 2), (WIDE,)),
    "unsqueeze": (lambda w, a: w.unsqueeze(a, 0, 2), (WIDE,)),
    "squeeze": (lambda w, a: w.squeeze(a, 0, 2), (((1, 3, 1, 4), FLOAT),)),
    "concat": (lambda w, a, b: w.concat(1, a, b), (WIDE, ((2, 5, 4), FLOAT))),
    "cut": (lambda w, a: w.cut(a, 1, 0, None, 2), (WIDE,)),
    "slices": (lambda w, a: w.slices(a, (2, 1), (-9, 3), (1, 2), (-1, 1)), (WIDE,)),
    "gather": (lambda w, a, i: w.gather(a, i, 1), (WIDE, ((5, 6), INDEX))),
    "gather_nd": (lambda w, a, i: w.gather_nd(a, i), (WIDE, ((5, 2), INDEX))),
    "gather_elements": (lambda w, a, i: w.gather_elements(a, i, 2), (WIDE, ((2, 3, 5), INDEX))),
    "scatter_elements": (
        lambda w, a, i, u: w.scatter_elements(a, i, u, 2, "add"),
        (WIDE, ((2, 3, 5), INDEX), ((2, 3, 5), FLOAT)),
    ),
    "scatter_nd": (
        lambda w, a, i, u: w.scatter_nd(a, i, u, "add"),
        (WIDE, ((5, 1), INDEX), ((5, 3, 4), FLOAT)),
    ),
    **{
        f"{name}, {keep}": (
            lambda w, a, name=name, keep=keep: getattr(w, name)(a, 0, 2, keep=keep),
            (WIDE,),
        )
        for name in ("reduce_sum", "reduce_mean", "reduce_max")
        for keep in (True, False)
    },
}


def by_call(case: str) -> tuple[onnx.ModelProto, Tensor]:
    """The nodes of a call, and the result as the method describes it."""
    build, operands = WRITTEN[case]
    writer = NodeWriter()
    given = [writer.tensor(f"x{i}", *each) for i, each in enumerate(operands)]
    made = build(Call(writer, "call", "target", "", {}, (), frozenset()), *given)
    for tensor in given:
        writer.describe(writer.graph.input.add(), tensor)
    writer.graph.output.add(name=made.name).type.tensor_type.elem_type = type_code(made.dtype)
    writer.graph.name = "case"
    return writer.model("test"), made


def by_graph(case: str) -> tuple[OpGraph, str]:
    """The operators of a graph, and the name of the result."""
    build, operands = WRITTEN[case]
    writer = GraphWriter(FLOAT)
    made = build(writer, *(writer.input(f"x{i}", *each) for i, each in enumerate(operands)))
    return writer.graph("case", [made], []), made


@pytest.mark.parametrize("case", WRITTEN)
def test_dims_and_types_are_those_that_onnx_infers(case: str) -> None:
    model, made = by_call(case)
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    (found,) = (v.type.tensor_type for v in inferred.graph.output)
    assert tuple(d.dim_value for d in found.shape.dim) == made.dims
    assert found.elem_type == type_code(made.dtype)


@pytest.mark.parametrize("case", WRITTEN)
def test_a_node_is_imported_as_what_the_writer_of_a_graph_writes(case: str) -> None:
    imported = import_model(by_call(case)[0], "case")
    written, name = by_graph(case)
    kinds = [[(op.kind, dict(op.attributes)) for op in g.ops] for g in (imported, written)]
    assert kinds[0] == kinds[1]
    result = imported.tensors[imported.outputs[0]]
    assert (result.dims, result.dtype) == (written.tensors[name].dims, written.tensors[name].dtype)


def test_every_method_has_a_case() -> None:
    """But for those that need one writer alone, and those that the others are made of."""
    parts = {"op", "with_numbers", "several", "dims", "dtype_of", "broadcast", "cast_settings"}
    other = {"pointwise", "reduce", "swish", "split"}
    methods = {n for c in (Operators, GraphOperators) for n in vars(c) if not n.startswith("_")}
    assert methods - parts - other == {case.partition(",")[0].partition(" ")[0] for case in WRITTEN}


def test_dims_of_any_size_are_broadcast() -> None:
    assert broadcast_dims("Add", (2**40, 1, 3), (2**40, 3)) == (2**40, 2**40, 3)
    assert broadcast_dims("Add", (), (0, 1)) == (0, 1)
    with pytest.raises(ModelError, match=r"Add have dims \(2, 8\) and \(2, 64\)\n  fix: "):
        broadcast_dims("Add", (2, 8), (2, 64))
