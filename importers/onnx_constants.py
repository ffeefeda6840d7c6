"""Numbers that a model file holds or that follow from them: constants, buffers, inline weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from importers.onnx_branches import known_branch
from importers.onnx_file import read_model
from importers.onnx_shapes import ShapeInference
from importers.onnx_values import Array

MAX_ELEMENTS = 1 << 28
"""A larger array is neither read nor made."""


def constant_values(
    path: Path, names: Iterable[str], bind: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Numbers of those tensors that do not depend on inputs and are in the file.

    Args:
        path: a `.onnx` or `.onnx.gz` file.
        names: tensors as the imported graph calls them.
        bind: values of the model's dynamic dimensions by name.

    Returns:
        An array for every name whose numbers are known.

    Raises:
        ModelError: the file cannot be read.
    """
    return model_values(read_model(path), names, bind)


def model_values(
    model: onnx.ModelProto, names: Iterable[str], bind: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """As `constant_values`, from a model at hand that was checked before."""
    inference = ShapeInference(model, bind or {})
    _visit(model.graph.node, inference)
    found = _Constants(model, dict(inference.facts.value), inference.facts.dims)
    values = {name: found.value(name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _visit(nodes: Iterable[onnx.NodeProto], inference: ShapeInference) -> None:
    for node in nodes:
        branch = known_branch(node, inference.facts.value)
        if branch is None:
            inference.visit(node)
        else:
            inference.enter(branch)
            _visit(branch.node, inference)


class _Constants:
    def __init__(
        self,
        model: onnx.ModelProto,
        known: dict[str, Array],
        dims: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.model, self.known, self.dims = model, known, dims
        self.stored = {t.name: t for t in model.graph.initializer}
        self.makers = {n: node for node in model.graph.node for n in node.output if n}
        self.inputs = {i.name for i in model.graph.input}

    def value(self, name: str) -> Array | None:
        """Numbers of a tensor, None if they depend on an input or lie outside the file."""
        if name not in self.known:
            found = self._stored(name) if name in self.stored else self._computed(name)
            if found is None:
                return None
            self.known[name] = found
        return self.known[name]

    def _stored(self, name: str) -> Array | None:
        tensor = self.stored[name]
        outside = tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL
        if outside or np.prod(tensor.dims, dtype=np.float64) > MAX_ELEMENTS:
            return None
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError):
            return None

    def _is_large(self, name: str) -> bool:
        return math.prod(self.dims.get(name, ())) > MAX_ELEMENTS

    def _computed(self, name: str) -> Array | None:
        """Run what makes a tensor from constants alone."""
        nodes: list[onnx.NodeProto] = []
        feeds: dict[str, Array] = {}
        if name in self.inputs or not self._collect(name, nodes, feeds, set()):
            return None
        if any(self._is_large(made) for node in nodes for made in node.output):
            return None
        graph = onnx.GraphProto(name="constants", node=nodes)
        graph.input.extend(onnx.ValueInfoProto(name=n) for n in feeds)
        graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(
            ir_version=self.model.ir_version, graph=graph, opset_import=self.model.opset_import
        )
        try:
            (value,) = ReferenceEvaluator(model).run(None, feeds)
            return np.asarray(value)
        except Exception:  # noqa: BLE001  whatever the reference raises: the numbers stay unknown
            return None

    def _collect(
        self, name: str, nodes: list[onnx.NodeProto], feeds: dict[str, Array], seen: set[str]
    ) -> bool:
        """Whether a tensor follows from constants; the nodes that make it, in order."""
        if name in seen or not name:
            return True
        seen.add(name)
        if name in self.known or name in self.stored:
            value = self.value(name)
            if value is not None:
                feeds[name] = value
            return value is not None
        node = self.makers.get(name)
        if node is None or any(a.HasField("g") for a in node.attribute):
            return False
        if not all(self._collect(n, nodes, feeds, seen) for n in node.input):
            return False
        if node not in nodes:
            nodes.append(node)
        return True
