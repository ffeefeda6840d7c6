"""ONNX's own operators, by its reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.ir.shards import Array

OPSET = 24


def onnx_results(
    kind: str, operands: Sequence[Array | None], attributes: Mapping[str, Any], results: int = 1
) -> list[Array]:
    """Results of one ONNX operator by the reference evaluator."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(operands)]
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(kind, names, outputs, **attributes)
    inputs = [onnx.ValueInfoProto(name=n) for n in names if n]
    graph = onnx.GraphProto(name="g", node=[node], input=inputs)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in outputs)
    model = onnx.ModelProto(ir_version=10, graph=graph)
    model.opset_import.add(domain="", version=OPSET)
    feeds = {n: a for n, a in zip(names, operands, strict=False) if n}
    return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]
