"""A node computes after import what ONNX says that it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from executors.algorithms import ALGORITHMS
from executors.evaluation import Evaluator, working_dtype
from executors.placement import Spread
from executors.spmd import Around, run_operator
from importers.onnx import import_model
from ir.graph import OpGraph
from ir.layout import replicated
from tests.importers.onnx_models import node, stored, value
from topology.mesh import Mesh, MeshAxis

pytestmark = pytest.mark.fast

Array = NDArray[Any]


def _numbers(*dims: int) -> Array:
    return np.random.default_rng(3).uniform(-2, 2, dims).astype(np.float32)


def _model(
    kind: str, operands: Mapping[str, Array], attributes: Mapping[str, Any], opset: int,
    given: frozenset[str],
) -> Any:  # fmt: skip
    """One node; operands are constants, except those that are given."""
    codes = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in operands.items()}
    names = [n.strip("-") for n in operands]
    data = {n: a for n, a in operands.items() if n.strip("-")}
    graph = helper.make_graph(
        [node(kind, names, ["y"], **attributes)],
        "g",
        [value(n, a.shape, codes[n]) for n, a in data.items() if n in given],
        [helper.make_empty_tensor_value_info("y")],
        initializer=[stored(n, a) for n, a in data.items() if n not in given],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _run(graph: OpGraph, values: Mapping[str, Array]) -> Array:
    """Every operator of an imported graph, one after the other, on one device."""
    held = {n: Spread(a.shape, replicated(a.ndim), ONE, (a,)) for n, a in values.items()}
    evaluator = Evaluator()
    for op in graph.ops:
        operands = [_worked(held[n], graph.tensors[n].dtype) if n else None for n in op.inputs]
        found, _ = run_operator(op, graph, operands, (-1,), evaluator, ALGORITHMS, Around(ONE))
        held.update(zip(op.outputs, found, strict=True))
    return held[graph.outputs[0]].shards[0]


def _worked(tensor: Spread, dtype: str) -> Spread:
    return replace(tensor, shards=(tensor.shards[0].astype(working_dtype(dtype)),))


ONE = Mesh((MeshAxis("one", 1, 0),))
IMAGE, LIST = _numbers(2, 8, 4, 6), _numbers(7)
WHOLE = np.arange(12).reshape(3, 4) - 5
BYTES, REFLECT, RIGHT = np.arange(8, dtype=np.uint8), {"mode": "reflect"}, {"direction": "RIGHT"}
ABSENT = np.zeros(0, np.float32)


def real(numbers: float | list[float]) -> Array:
    return np.asarray(numbers, np.float32)


def whole(number: int) -> Array:
    return np.asarray(number, np.int64)


def ints(*numbers: int) -> Array:
    return np.asarray(numbers, np.int64)


CASES: tuple[tuple[str, dict[str, Array], dict[str, Any], int], ...] = (
    ("Pad", {"x": LIST, "p": ints(1, 2)}, {}, 18),
    ("Pad", {"x": LIST, "p": ints(1, 2), "v": real(0.25)}, {"mode": "constant"}, 13),
    ("Pad", {"x": IMAGE, "p": ints(2, 1, 1, 0), "-": ABSENT, "a": ints(-1, 2)}, REFLECT, 19),
    ("Pad", {"x": IMAGE}, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "edge"}, 10),
    ("Pad", {"x": IMAGE}, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 0.5}, 2),
    ("Clip", {"x": LIST, "l": real(-0.5), "h": real(1.5)}, {}, 13),
    ("Clip", {"x": LIST, "-": ABSENT, "h": real(0.5)}, {}, 13),
    ("Clip", {"x": LIST}, {"min": -0.25}, 6),
    ("Clip", {"x": LIST}, {}, 13),
    ("Clip", {"x": WHOLE, "l": whole(-2), "h": whole(3)}, {}, 13),
    ("Mod", {"x": WHOLE, "m": ints(2, 3, 4, 5)}, {}, 13),
    ("Mod", {"x": IMAGE, "m": real(0.7)}, {"fmod": 1}, 13),
    ("BitShift", {"x": BYTES, "m": BYTES[2:3]}, RIGHT, 11),
    ("IsInf", {"x": real([1, np.inf, -np.inf])}, {"detect_negative": 0}, 20),
    ("Selu", {"x": LIST}, {"alpha": 0.5, "gamma": 2.0}, 6),
    ("Shrink", {"x": LIST}, {"lambd": 0.75, "bias": 0.25}, 9),
    ("Shrink", {"x": LIST}, {}, 9),
    ("SwiGLU", {"x": IMAGE, "b": IMAGE[::-1]}, {"alpha": 0.5}, 28),
    ("Swish", {"x": IMAGE}, {"alpha": 0.5}, 24),
    ("Gelu", {"x": LIST}, {"approximate": "tanh"}, 20),
    ("LeakyRelu", {"x": LIST}, {"alpha": 0.25}, 16),
    ("HardSigmoid", {"x": LIST}, {"alpha": 0.25, "beta": 0.75}, 6),
    ("CenterCropPad", {"x": IMAGE, "s": ints(3, 5, 7, 2)}, {}, 18),
    ("CenterCropPad", {"x": IMAGE, "s": ints(9, 3)}, {"axes": [-1, 1]}, 18),
    ("CenterCropPad", {"x": LIST, "s": ints(7)}, {}, 18),
    ("Slice", {"x": IMAGE, "s": ints(1), "e": ints(9), "a": ints(-1), "t": ints(2)}, {}, 13),
    ("Slice", {"x": IMAGE, "s": ints(-1), "e": ints(-99), "a": ints(3), "t": ints(-2)}, {}, 13),
    ("Slice", {"x": IMAGE}, {"starts": [1, 2], "ends": [2, 9], "axes": [0, 3]}, 9),
    ("Slice", {"x": IMAGE, "s": ints(1), "e": ints(3)}, {}, 13),
    ("Concat", {"x": IMAGE, "b": IMAGE[:, :3]}, {"axis": -3}, 13),
    ("Concat", {"x": IMAGE, "b": IMAGE[:, :3]}, {"axis": 1}, 4),
    ("Trilu", {"x": IMAGE}, {}, 14),
    ("Trilu", {"x": IMAGE, "k": whole(-1)}, {"upper": 0}, 14),
    ("DepthToSpace", {"x": IMAGE}, {"blocksize": 2}, 13),
    ("DepthToSpace", {"x": IMAGE}, {"blocksize": 2, "mode": "CRD"}, 13),
    ("SpaceToDepth", {"x": IMAGE}, {"blocksize": 2}, 13),
    ("ReverseSequence", {"x": WHOLE, "l": ints(1, 3, 2, 1)}, {}, 10),
    ("ReverseSequence", {"x": WHOLE, "l": ints(4, 3, 2)}, {"batch_axis": 0, "time_axis": 1}, 10),
    ("OneHot", {"x": np.abs(WHOLE), "d": whole(7), "v": real([0.25, 2])}, {}, 11),
    ("OneHot", {"x": np.abs(WHOLE), "d": whole(7), "v": real([0.25, 2])}, {"axis": 1}, 11),
    ("Compress", {"x": IMAGE, "c": np.array([1, 0, 1, 1], bool)}, {"axis": -2}, 11),
    ("Compress", {"x": WHOLE, "c": np.array([1, 0, 1, 1], bool)}, {}, 11),
    ("EyeLike", {"x": WHOLE}, {"k": 1, "dtype": 1}, 22),
    ("Tile", {"x": WHOLE, "r": ints(2, 3)}, {}, 13),
    ("Expand", {"x": LIST, "s": ints(2, 1, 7)}, {}, 13),
    ("Squeeze", {"x": IMAGE[:1, :1]}, {}, 13),
    ("Unsqueeze", {"x": IMAGE, "a": ints(-1, 0)}, {}, 13),
    ("Flatten", {"x": IMAGE}, {"axis": -2}, 13),
    ("Cast", {"x": IMAGE}, {"to": 7}, 13),
    ("BitCast", {"x": IMAGE}, {"to": 6}, 26),
    ("RandomUniformLike", {"x": IMAGE}, {"low": 0.5, "high": 0.5}, 22),
    ("RandomNormalLike", {"x": IMAGE}, {"mean": 2.0, "scale": 0.0}, 22),
)  # fmt: skip
"""Kind, operands, attributes and opset."""


def _name(case: Any) -> str:
    return (
        "-".join(map(str, (case[0], case[3], *case[2].values()))) if isinstance(case, tuple) else ""
    )


@pytest.mark.parametrize("case", CASES, ids=_name)
@pytest.mark.parametrize("computed", [False, True], ids=["constants", "computed"])
def test_an_imported_node_computes_what_onnx_says(
    case: tuple[str, dict[str, Array], dict[str, Any], int], *, computed: bool
) -> None:
    kind, operands, attributes, opset = case
    numbers = {n for n, a in operands.items() if a.dtype.kind == "f" and n != "-"}
    given = frozenset({"x"} | (numbers if computed else set()))
    model = _model(kind, operands, attributes, opset, given)
    values = {n: a for n, a in operands.items() if n != "-"}
    found: Any = ReferenceEvaluator(model).run(None, {n: values[n] for n in given})
    wanted = found[0]
    code = helper.np_dtype_to_tensor_dtype(wanted.dtype)
    model.graph.output[0].CopyFrom(value("y", wanted.shape, code))
    graph = import_model(model, "g", {})
    np.testing.assert_allclose(_run(graph, values), wanted, rtol=1e-5, atol=1e-6)
