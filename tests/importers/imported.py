"""Imported models of a few nodes, run operator by operator beside ONNX's reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

from executors.algorithms import ALGORITHMS  # noqa: F401  read first: the others need it
from executors.evaluation import Evaluator, working_dtype
from executors.placement import Array
from importers.onnx import import_model
from ir.graph import OpGraph

NEWEST = onnx.defs.onnx_opset_version()


def model_of(text: str, opset: int = NEWEST) -> onnx.ModelProto:
    """A model from ONNX's own text, without its header."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
    return parser.parse_model(f"{header} sample {text}")


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Numbers for every input of a model."""
    draw = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            found[value.name] = draw.uniform(-2, 2, dims).astype(dtype)
        else:
            found[value.name] = draw.integers(0, 100, dims).astype(dtype)
    return found


def run_graph(graph: OpGraph, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs of an imported graph on one device."""
    held = {n: a.astype(working_dtype(a.dtype.name)) for n, a in inputs.items()}
    evaluator = Evaluator()
    for op in graph.ops:
        operands = [held[n] if n else None for n in op.inputs]
        results = [graph.tensors[n] for n in op.outputs if n]
        made = evaluator.run(op, operands, results, [t.dims for t in results])
        for tensor, array in zip(results, made, strict=True):
            assert array.shape == tensor.dims, f"{op.kind} makes {array.shape}, not {tensor.dims}"
            held[tensor.name] = array
    return [held[name] for name in graph.outputs]


def check_import(
    text: str,
    opset: int = NEWEST,
    wanted: list[Array] | None = None,
    given: Mapping[str, Array] | None = None,
) -> OpGraph:
    """The imported graph computes what the reference does, or what is wanted."""
    model = model_of(text, opset)
    inputs = {**random_inputs(model), **(given or {})}
    expected = ReferenceEvaluator(model).run(None, inputs) if wanted is None else wanted
    graph = import_model(model, "sample")
    for found, value in zip(run_graph(graph, inputs), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)
    return graph
