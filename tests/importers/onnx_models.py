"""Small ONNX models, written message by message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from importers.errors import ModelError
from importers.onnx import import_onnx
from ir.graph import OpGraph

Dims = Sequence[int | str | None]
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
) -> onnx.NodeProto:
    domain = attributes.pop("domain", "")
    made: onnx.NodeProto = helper.make_node(
        kind, list(inputs), list(outputs), domain=domain, **attributes
    )
    return made


def value(name: str, dims: Dims | None, code: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, code, None if dims is None else list(dims))


def stored(name: str, array: NDArray[Any] | Sequence[Any] | float) -> onnx.TensorProto:
    """An initializer; Python integers become int64, Python floats float32."""
    data = np.asarray(array)
    if data.dtype == np.float64:
        data = data.astype(np.float32)
    return numpy_helper.from_array(data, name)


def weight(name: str, *dims: int, code: int = FLOAT) -> onnx.TensorProto:
    """A weight whose numbers lie in a file that does not exist."""
    tensor = onnx.TensorProto(name=name, data_type=code, dims=dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    return helper.make_graph(
        list(nodes), "g", list(inputs), list(outputs), initializer=list(initializers)
    )


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims | None],
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 21,
    integers: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; inputs and outputs are floats but for those named in `integers`."""

    def values(named: Mapping[str, Dims | None]) -> list[onnx.ValueInfoProto]:
        return [value(n, d, INT64 if n in integers else FLOAT) for n, d in named.items()]

    made = helper.make_model(graph(nodes, values(inputs), values(outputs), initializers))
    made.ir_version = 10
    del made.opset_import[:]
    made.opset_import.add(domain="", version=opset)
    return made


def saved(folder: Path, made: onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def imported(folder: Path, made: onnx.ModelProto, bind: Mapping[str, int] | None = None) -> OpGraph:
    return import_onnx(saved(folder, made), bind)


def refusal(
    folder: Path, made: onnx.ModelProto, bind: Mapping[str, int] | None = None
) -> ModelError:
    with pytest.raises(ModelError) as caught:
        imported(folder, made, bind)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.fix
    return caught.value


def kinds(found: OpGraph) -> list[str]:
    return [op.kind for op in found.ops]


def mlp() -> onnx.ModelProto:
    """Two layers with a dynamic batch."""
    return model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], name="first", transB=1),
            node("Relu", ["h"], ["r"]),
            node("MatMul", ["r", "w2"], ["y"]),
        ],
        {"x": ["batch", 8]},
        {"y": ["batch", 4]},
        [weight("w1", 16, 8), weight("b1", 16), weight("w2", 16, 4)],
    )


def shape_arithmetic() -> onnx.ModelProto:
    """Attention whose reshape target is computed from the shape of the input."""
    return model(
        [
            node("MatMul", ["x", "wq"], ["q"]),
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["rows"], axis=0),
            node("Concat", ["rows", "rest"], ["target"], axis=0),
            node("Reshape", ["q", "target"], ["q4"]),
            node("Transpose", ["q4"], ["qt"], perm=[0, 2, 1, 3]),
            node("Transpose", ["q4"], ["kt"], perm=[0, 2, 3, 1]),
            node("MatMul", ["qt", "kt"], ["scores"]),
            node("Div", ["scores", "root"], ["scaled"]),
            node("Softmax", ["scaled"], ["p"], axis=-1),
            node("MatMul", ["p", "qt"], ["y"]),
        ],
        {"x": ["batch", "seq", 8]},
        {"y": None},
        [weight("wq", 8, 8), stored("zero", [0]), stored("rest", [-1, 2, 4]), stored("root", 2.0)],
    )


def control_flow() -> onnx.ModelProto:
    """An If with a known condition, one with an unknown condition, and a Loop."""
    then = graph([node("Relu", ["x"], ["t"])], outputs=[value("t", [2, 8])])
    other = graph([node("Neg", ["x"], ["t"])], outputs=[value("t", [2, 8])])
    body = graph(
        [node("Add", ["acc", "x"], ["sum"]), node("Identity", ["go"], ["on"])],
        [value("i", [], INT64), value("go", [], BOOL), value("acc", [2, 8])],
        [value("on", [], BOOL), value("sum", [2, 8])],
    )
    return model(
        [
            node("If", ["yes"], ["a"], then_branch=then, else_branch=other),
            node("ReduceSum", ["a"], ["total"], keepdims=0),
            node("Greater", ["total", "zero"], ["positive"]),
            node("If", ["positive"], ["b"], then_branch=then, else_branch=other),
            node("Loop", ["times", "", "b"], ["y"], body=body),
        ],
        {"x": [2, 8]},
        {"y": [2, 8]},
        [stored("yes", np.array(True)), stored("zero", 0.0), stored("times", np.array(3))],
    )
