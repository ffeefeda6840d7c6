"""Dims, element types and small values of every tensor of an ONNX graph, for bound sizes.

One pass in graph order. Constants are computed, `Shape` is answered from known dims, everything
else goes to ONNX's own inference for one node at a time with the known values at hand; equal nodes
are inferred once. Where ONNX does not know an answer, the exporter's annotation is evaluated with
the bound sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from importers.errors import ModelError, UnboundError
from importers.onnx_checks import captured, dense_form, describe
from importers.onnx_contrib import foreign_types
from importers.onnx_dimensions import bindable, evaluate_dimension, open_name
from importers.onnx_facts import STANDARD_DOMAINS, TensorFacts, reads_of
from importers.onnx_folding import folded
from importers.onnx_foreign import Known
from importers.onnx_guards import check_node
from importers.onnx_node import node_context
from importers.onnx_unknown_sizes import bound_value, loop_types, unknown_size, value_inputs
from importers.onnx_values import (
    MAX_ELEMENTS,
    Array,
    attributes_of,
    element_code,
    literal,
    tensor_value,
)
from importers.onnx_weights import is_plain, weight_uses

_SEEN_BY_INFERENCE = 4096
"""Values up to this size are shown to ONNX's inference."""
_MISFITS = (
    shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    RuntimeError,
    ValueError,
    TypeError,
)
"""What ONNX raises for a node that does not fit its operands."""
_SHOWN = 200
"""Characters of a list of names in a message."""


@dataclass(slots=True)
class ShapeInference:
    """Walks nodes in order and fills `facts`."""

    model: onnx.ModelProto
    bound: Mapping[str, int]
    facts: TensorFacts = field(default_factory=TensorFacts)
    trained: frozenset[str] | None = None
    """Stored tensors that are parameters; None where that must be told from their use."""
    used: set[str] = field(default_factory=set)
    """Names of `bound` that decided a size."""
    _weight_uses: set[str] = field(default_factory=set)
    _external: bool = False
    _annotations: dict[str, onnx.TypeProto] = field(default_factory=dict)
    _known: dict[tuple[object, ...], tuple[Known | None, ...]] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.model.opset_import:
            domain = "" if entry.domain in STANDARD_DOMAINS else entry.domain
            self._versions[domain] = max(entry.version, self._versions.get(domain, 1))
        self._weight_uses = weight_uses(self.model.graph)
        self._external = any(t.external_data for t in self.model.graph.initializer)
        self.enter(self.model.graph)
        inputs = [v for v in self.model.graph.input if v.name not in self.facts.dims]
        self._check_bound(inputs)
        values = value_inputs(self.model)
        for value in inputs:
            self._add_input(value)
            if value.name in values and value.name in self.bound:
                given, code = self.bound[value.name], values[value.name]
                self.facts.value[value.name] = bound_value(given, code, self.facts.dims[value.name])
                self.used.add(value.name)

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators."""
        return self._versions.get("", 1)

    def enter(self, graph: onnx.GraphProto) -> None:
        """Learn what a graph stores and what its exporter noted."""
        for value in (*graph.value_info, *graph.output):
            self._annotations[value.name] = value.type
        for tensor in (*graph.initializer, *map(dense_form, graph.sparse_initializer)):
            self._add_stored(tensor, tensor.name)

    def _add_stored(self, tensor: onnx.TensorProto, name: str, *, inline: bool = False) -> None:
        self.facts.learn(name, tuple(tensor.dims), tensor.data_type)
        value = tensor_value(tensor)
        if value is not None:
            self.facts.value[name] = value
        if self.trained is not None:
            (self.facts.weights if name in self.trained else self.facts.constant).add(name)
            return
        numbers = "float" in self.facts.dtype[name] and math.prod(tensor.dims) > 1
        used = name in self._weight_uses and not self._is_filling(name, value)
        if numbers and (used or not (inline or is_plain(name, value))):
            self.facts.weights.add(name)
        else:
            self.facts.constant.add(name)

    def _is_filling(self, name: str, value: Array | None) -> bool:
        """An inline array of one repeated number under a name of the exporter's own, in a model
        whose real weights lie outside: the neutral scale or shift of a normalisation.
        """
        if value is None or "." in name or not self._external:
            return False
        return bool((value == value.reshape(-1)[:1]).all())

    def _check_bound(self, inputs: Iterable[onnx.ValueInfoProto]) -> None:
        """Raise `UnboundError` for all open dimensions of inputs without a value."""
        missing: dict[str, None] = {}
        places: list[str] = []
        for value in inputs:
            names = self._open_names(value.type.tensor_type.shape, value.name)
            missing |= dict.fromkeys(names)
            places += [repr(value.name)] if names else []
        if missing:
            noun = "input" if len(places) == 1 else "inputs"
            raise UnboundError(missing, f"{noun} {', '.join(places)[:_SHOWN]}")

    def _add_input(self, value: onnx.ValueInfoProto) -> None:
        tensor = value.type.tensor_type
        dims = tuple(size or 0 for size in self._sizes(tensor.shape, value.name))
        if any(size <= 0 for size in dims):
            raise ModelError(
                f"a dimension becomes {min(dims)}: {list(dims)}",
                f"input {value.name!r}",
                "bind its names to larger numbers with --bind",
            )
        self.facts.learn(value.name, dims, tensor.elem_type)

    def visit(self, node: onnx.NodeProto) -> bool:
        """Learn the results of one node; True if they follow from constants alone.

        Raises:
            ModelError: the node does not fit its operands, or the size of its result is unknown.
        """
        stored = _stored_tensor(node)
        if stored is not None:
            self._add_stored(stored, node.output[0], inline=True)
            return True
        inputs = [n for n in node.input if n]
        unknown = next((n for n in inputs if n not in self.facts.dims), None)
        if unknown is not None:
            raise self._unknowable(unknown, node)
        value = self._known_value(node, inputs)
        if value is None:
            value = self._infer(node, inputs)
        if node.op_type == "Concat" and value is None:
            self._keep_part(node, inputs)
        constant = (
            value is not None
            or (bool(inputs) and all(n in self.facts.constant for n in reads_of(node)))
            or _ignores_data(node, self.facts.constant)
        )
        if constant:
            self.facts.constant.update(n for n in node.output if n)
            if node.op_type == "ConstantOfShape" and "float" in self.facts.dtype[node.output[0]]:
                self.facts.filled.add(node.output[0])
        return constant

    def _keep_part(self, node: onnx.NodeProto, inputs: list[str]) -> None:
        """What is known of integers that are put together."""
        facts = self.facts
        size = math.prod(facts.dims[node.output[0]])
        known = any(n in facts.value for n in inputs)
        if not known or size > _SEEN_BY_INFERENCE or "int" not in facts.dtype[node.output[0]]:
            return
        parts = [facts.value.get(n, np.full(facts.dims[n], np.nan)) for n in inputs]
        axis = attributes_of(node).get("axis")
        if isinstance(axis, int):
            facts.part[node.output[0]] = np.concatenate(parts, axis)

    def _known_value(self, node: onnx.NodeProto, inputs: list[str]) -> Array | None:
        """Numbers of a node that holds them, or asks for dims."""
        if node.domain not in STANDARD_DOMAINS or len(node.output) != 1:
            return None
        value, attributes = None, attributes_of(node)
        if node.op_type == "Constant":
            value = literal(attributes)
        elif node.op_type in {"Shape", "Size"} and inputs:
            value = _shape_value(node.op_type, self.facts.dims[inputs[0]], attributes)
        code = None if value is None else element_code(value)
        if value is None or code is None:
            return None
        self.facts.learn(node.output[0], tuple(value.shape), code)
        self.facts.value[node.output[0]] = value
        return value

    def _infer(self, node: onnx.NodeProto, inputs: list[str]) -> Array | None:
        """Learn dims and types of the results; return the numbers of one that constants make."""
        key = self._signature(node, inputs)
        if key not in self._known:
            found = self._inferred(node, inputs)
            self._known[key] = tuple(self._resolve(n, found.get(n)) for n in node.output)
        for name, known in zip(node.output, self._known[key], strict=True):
            if name and known is not None:
                self.facts.learn(name, *known)
        first = next(n for n in node.output if n)
        value = self._computed(node, inputs)
        if value is not None:
            self.facts.value[first] = value
        elif first not in self.facts.dims:
            raise self._unknowable(first, node, self._inferred(node, inputs).get(first))
        return value

    def _computed(self, node: onnx.NodeProto, inputs: list[str]) -> Array | None:
        """Numbers of a result that follows from known ones."""
        known = all(n in self.facts.value and n not in self.facts.weights for n in inputs)
        if not inputs or len(inputs) != len(node.input) or not known:
            return None
        value = folded(node_context(node, 0, self.facts, self.opset))
        code = None if value is None else element_code(value)
        if value is None or code is None:
            return None
        self.facts.learn(node.output[0], tuple(value.shape), code)
        return value

    def _signature(self, node: onnx.NodeProto, inputs: list[str]) -> tuple[object, ...]:
        facts = self.facts
        small = tuple(
            v.tobytes() if (v := facts.value.get(n)) is not None and self._shown(v) else None
            for n in inputs
        )
        attributes = tuple(sorted(a.SerializeToString() for a in node.attribute))
        shape = tuple((facts.dims[n], facts.code[n]) for n in inputs)
        absent = tuple(not n for n in node.input)
        outputs: tuple[object, ...] = tuple(node.output)
        if self._has_schema(node) and not captured(node):
            outputs = tuple(bool(n) for n in node.output)
        return (node.op_type, node.domain, attributes, shape, small, absent, outputs)

    def _shown(self, value: Array) -> bool:
        return value.size <= _SEEN_BY_INFERENCE and value.dtype != object

    def _version(self, domain: str) -> int:
        return self._versions.get("" if domain in STANDARD_DOMAINS else domain, 1)

    def _has_schema(self, node: onnx.NodeProto) -> bool:
        return onnx.defs.has(node.op_type, self._version(node.domain), node.domain)

    def _inferred(self, node: onnx.NodeProto, inputs: list[str]) -> Mapping[str, onnx.TypeProto]:
        if self._has_schema(node):
            return self._onnx_inference(node, inputs)
        found = foreign_types(node, [self._learnt(n) for n in node.input])
        # Whether a cache is a buffer for all steps is known to the exporter alone.
        return {n: t for n, t in found.items() if self._resolve(n, None) is None}

    def _learnt(self, name: str) -> Known | None:
        return (self.facts.dims[name], self.facts.code[name]) if name else None

    def _onnx_inference(
        self, node: onnx.NodeProto, inputs: list[str]
    ) -> Mapping[str, onnx.TypeProto]:
        facts = self.facts
        check_node(node, facts.dims, describe(node))
        outer = [n for n in captured(node) if n in facts.dims]
        types = {
            n: onnx.helper.make_tensor_type_proto(facts.code[n], list(facts.dims[n]))
            for n in (*inputs, *outer)
        }
        data = {
            n: numpy_helper.from_array(facts.value[n])
            for n in inputs
            if n in facts.value and self._shown(facts.value[n])
        }
        schema = onnx.defs.get_schema(node.op_type, self._version(node.domain), node.domain)
        try:
            found = shape_inference.infer_node_outputs(
                schema,
                node,
                types,
                data,
                opset_imports=list(self.model.opset_import),
                ir_version=self.model.ir_version,
            )
            is_loop = node.op_type == "Loop"
            return loop_types(node, found, facts.dims, facts.value) if is_loop else found
        except _MISFITS as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ModelError(
                f"the node does not fit its operands: {lines[0]}",
                f"{describe(node)} with operands {self._shown_dims(inputs)}",
                "export the model again, with the opset that it names",
            ) from error

    def _shown_dims(self, names: Iterable[str]) -> str:
        return ", ".join(f"{n}{list(self.facts.dims[n])}" for n in names)[:200] or "none"

    def _resolve(self, name: str, inferred: onnx.TypeProto | None) -> Known | None:
        if not name:
            return None
        dims: tuple[int, ...] | None = None
        code = 0
        for candidate in (inferred, self._annotations.get(name)):
            if candidate is None or candidate.WhichOneof("value") != "tensor_type":
                continue
            tensor = candidate.tensor_type
            code = code or tensor.elem_type
            if dims is None and tensor.HasField("shape"):
                dims = self._static(tensor.shape, name)
        return None if dims is None or not code else (dims, code)

    def _sizes(self, shape: onnx.TensorShapeProto, name: str) -> list[int | None]:
        """Sizes of a noted shape; None where no value is bound."""
        return [
            d.dim_value if d.HasField("dim_value") else self._size(d.dim_param, open_name(name, a))
            for a, d in enumerate(shape.dim)
        ]

    def _size(self, *texts: str) -> int | None:
        for text in texts:
            size = evaluate_dimension(text, self.bound)
            if size is not None:
                self.used |= bindable(text)
                return size
        return None

    def _static(self, shape: onnx.TensorShapeProto, name: str) -> tuple[int, ...] | None:
        sizes = self._sizes(shape, name)
        dims = tuple(s for s in sizes if s is not None and s >= 0)
        return dims if len(dims) == len(sizes) else None

    def _open_names(self, shape: onnx.TensorShapeProto, name: str) -> list[str]:
        """Names that a value is to be given for, so that a noted shape is known."""
        found: dict[str, None] = {}
        for axis, (dim, size) in enumerate(zip(shape.dim, self._sizes(shape, name), strict=True)):
            if size is None:
                names = bindable(dim.dim_param or open_name(name, axis)) - self.bound.keys()
                found |= dict.fromkeys(sorted(names))
        return list(found)

    def _unknowable(
        self, name: str, node: onnx.NodeProto, inferred: onnx.TypeProto | None = None
    ) -> ModelError:
        where = describe(node)
        noted = self._annotations.get(name)
        kind = (inferred or noted or onnx.TypeProto()).WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            what = kind.removesuffix("_type").replace("_", " ")
            return ModelError(f"{name!r} is a {what}, not a tensor", where, "export with tensors")
        if noted is not None and any(d.dim_param for d in noted.tensor_type.shape.dim):
            names = self._open_names(noted.tensor_type.shape, name)
            if names and not any("." in each for each in names):
                return UnboundError(names, f"tensor {name!r}, {where}")
        shapes = [t.tensor_type.shape for t in (inferred, noted) if t is not None]
        names = self._open_names(shapes[0], name) if shapes else []
        return unknown_size(node, name, names, self.facts.value, self.model)


def _ignores_data(node: onnx.NodeProto, constant: set[str]) -> bool:
    """Operators whose result follows from dims, or from their first operand alone."""
    return node.op_type in {"Shape", "Size"} or (
        node.op_type == "CastLike" and node.input[0] in constant
    )


def _shape_value(kind: str, dims: tuple[int, ...], attributes: dict[str, object]) -> Array | None:
    if kind == "Size":
        return np.asarray(math.prod(dims), np.int64)
    start, end = attributes.get("start", 0), attributes.get("end", len(dims))
    if isinstance(start, int) and isinstance(end, int):
        return np.asarray(dims[start:end], np.int64)
    return None


def _stored_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a `Constant` that is too large to compute with: a weight stored in a node."""
    if node.op_type != "Constant":
        return None
    for attribute in node.attribute:
        if attribute.name == "value" and math.prod(attribute.t.dims) > MAX_ELEMENTS:
            return attribute.t
        if attribute.name == "sparse_value":
            return dense_form(attribute.sparse_tensor)
    return None
