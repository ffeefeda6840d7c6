"""The operator graph: what a model file becomes, and all that planning sees of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from ir.dtypes import dtype_bytes
from ir.file_primitives import FilePrimitive, file_primitive

AttributeValue: TypeAlias = (
    int | float | str | bool | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
)
T = TypeVar("T")


class Role(StrEnum):
    """What a tensor is for; it decides memory, gradients and freedom of layout."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    ACTIVATION = "activation"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value of the graph: a named array without its numbers."""

    name: str
    dims: tuple[int, ...]
    """Sizes after binding, e.g. `(64, 4096, 4096)`."""
    dtype: str
    """numpy-style name, e.g. `"bfloat16"`."""
    role: Role = Role.ACTIVATION
    source: str = ""
    """For a parameter stored in another form: the name in the model file, e.g. before a transpose.
    """
    stored_permutation: tuple[int, ...] = ()
    """For a parameter used permuted: dimension i here is dimension `stored_permutation[i]` in the
    file.
    """
    divisors: tuple[int, ...] = ()
    """What divides each size at every value of the model's symbols; empty where sizes are fixed."""

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        return math.ceil(self.elements * dtype_bytes(self.dtype))

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. Kinds are the names of ONNX, plus a few that ONNX lacks (see `ir.ops`)."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    """Tensor names; `""` is an absent optional operand."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Normalised: axes are non-negative, shape operands are gone (the dims of the results say it).
    """
    scope: str = ""
    """Module path from the exporter, e.g. `"model.layers.0.mlp"`."""
    parts: tuple[Op, ...] = ()
    """Operators that a composite stands for, in order; their inner tensors stay in the graph's
    table.
    """
    divisors: tuple[int, ...] = ()
    """What divides each factor of the rule at every value of the model's symbols; empty where sizes
    are fixed.
    """

    def tensor_names(self) -> Iterator[str]:
        """Names of its operands and results, then those of its parts."""
        yield from (name for name in (*self.inputs, *self.outputs) if name)
        for part in self.parts:
            yield from part.tensor_names()

    @property
    def label(self) -> str:
        """Name of the kind for people: a composite says what it is."""
        return str(self.attributes.get("label", self.kind))


class GraphError(ValueError):
    """A graph that breaks its own rules; the message names the operator or tensor."""


@dataclass(frozen=True, slots=True)
class OpGraph:
    """Operators in topological order over a table of tensors. Passes return new graphs."""

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gradients: Mapping[str, str] = field(default_factory=dict)
    """For a traced training graph: parameter name to the output that holds its gradient."""
    batch: int = 0
    """Global batch of the graph, 0 when unknown."""
    notes: tuple[str, ...] = ()
    """What the importer had to assume, for the report."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """Dynamic dimensions of the model and the values that they are bound to."""
    variants: tuple[OpGraph, ...] = ()
    """The same model at other values of its symbols (`ir.symbols`); none once it is prepared."""
    primitives: tuple[FilePrimitive, ...] = ()
    """Of a model that MindSpore exported, in order: its files go by their names and operands."""
    _kept: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What was made of the graph once and does not change."""

    def once(self, key: str, make: Callable[[OpGraph], T]) -> T:
        """What is made of the graph, made once under a key: not to be changed."""
        if key not in self._kept:
            self._kept[key] = make(self)
        found: T = self._kept[key]
        return found

    def producers(self) -> Mapping[str, Op]:
        """The operator that makes each tensor."""
        return self.once("producers", _producers)

    def consumers(self) -> Mapping[str, Sequence[Op]]:
        """Operators that read each tensor, one entry per operand, in order."""
        return self.once("consumers", _consumers)

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors.values() if t.role is Role.PARAMETER)

    @property
    def is_training_step(self) -> bool:
        """Whether the backward pass is in the graph already."""
        return bool(self.gradients)

    def with_ops(self, ops: Iterable[Op], tensors: Mapping[str, Tensor] | None = None) -> OpGraph:
        """Same graph with other operators; tensors nobody refers to are dropped."""
        kept = tuple(ops)
        table = self.tensors if tensors is None else tensors
        used = set(self.inputs) | set(self.outputs) | set(self.gradients)
        for op in kept:
            used.update(_names_of(op))
        return replace(self, ops=kept, tensors={n: t for n, t in table.items() if n in used})

    def with_live_ops(self, ops: Sequence[Op]) -> OpGraph:
        """The same graph with those of these operators, in order, that some output depends on."""
        wanted = set(self.outputs)
        kept: list[Op] = []
        for op in reversed(ops):
            if wanted.intersection(op.outputs):
                wanted.update(op.inputs)
                kept.append(op)
        return self.with_ops(reversed(kept))

    def validate(self) -> None:
        """Raise `GraphError` for the first name that is used twice, or before it exists."""
        known = {n for n, t in self.tensors.items() if t.role is not Role.ACTIVATION}
        names: set[str] = set()
        for op in self.ops:
            label = f"operator {op.name} ({op.kind})"
            if op.name in names:
                raise GraphError(f"two operators have the name {op.name!r}")
            names.add(op.name)
            missing = [n for n in op.inputs if n and n not in known]
            if missing:
                raise GraphError(f"{label} reads {missing[0]!r}, which no operator before it makes")
            made = [n for n in op.outputs if n]
            twice = [n for i, n in enumerate(made) if n in known or n in made[:i]]
            if twice:
                raise GraphError(f"{label} makes {twice[0]!r}, which exists already")
            known.update(made)
        self._check_table(known)

    def _check_table(self, known: set[str]) -> None:
        """Every name stands in the table of tensors, and every output is made."""
        lost = [n for n in self.outputs if n not in known]
        if lost:
            raise GraphError(f"output {lost[0]!r} is made by no operator")
        used = {*known, *self.inputs, *self.gradients, *self.gradients.values()}
        for op in self.ops:
            used |= _names_of(op)
        unlisted = sorted(used - self.tensors.keys())
        if unlisted:
            raise GraphError(f"tensor {unlisted[0]!r} is not in the table of tensors")

    def digest(self) -> str:
        """Hash of everything that planning reads, hexadecimal."""
        return self.once("digest", lambda graph: record_digest(graph.record()))

    def record(self) -> Mapping[str, Any]:
        """`graph_to_dict`, made once: not to be changed."""
        return self.once("record", graph_to_dict)


def _producers(graph: OpGraph) -> Mapping[str, Op]:
    return {name: op for op in graph.ops for name in op.outputs if name}


def _consumers(graph: OpGraph) -> Mapping[str, Sequence[Op]]:
    readers: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in op.inputs:
            if name:
                readers.setdefault(name, []).append(op)
    return readers


def record_digest(record: Mapping[str, object]) -> str:
    """Hash of the JSON form of a graph, hexadecimal."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with marks behind it if something has it already."""
    while name in taken:
        name += "'"
    return name


def _names_of(op: Op) -> set[str]:
    names = {n for n in (*op.inputs, *op.outputs) if n}
    for part in op.parts:
        names |= _names_of(part)
    return names


def _op_to_dict(op: Op) -> dict[str, object]:
    out: dict[str, object] = {
        "name": op.name,
        "kind": op.kind,
        "inputs": list(op.inputs),
        "outputs": list(op.outputs),
    }
    if op.attributes:
        out["attributes"] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in sorted(op.attributes.items())
        }
    if op.scope:
        out["scope"] = op.scope
    if op.parts:
        out["parts"] = [_op_to_dict(p) for p in op.parts]
    if op.divisors:
        out["divisors"] = list(op.divisors)
    return out


def _tensor_to_dict(tensor: Tensor) -> dict[str, object]:
    out: dict[str, object] = {
        "dims": list(tensor.dims),
        "dtype": tensor.dtype,
        "role": tensor.role.value,
    }
    if tensor.source:
        out["source"] = tensor.source
    if tensor.stored_permutation:
        out["stored_permutation"] = list(tensor.stored_permutation)
    if tensor.divisors:
        out["divisors"] = list(tensor.divisors)
    return out


def graph_to_dict(graph: OpGraph) -> dict[str, object]:
    """JSON form of a graph; `graph_from_dict` is its inverse."""
    out: dict[str, object] = {
        "name": graph.name,
        "batch": graph.batch,
        "symbols": dict(graph.symbols),
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "gradients": dict(graph.gradients),
        "notes": list(graph.notes),
        "tensors": {n: _tensor_to_dict(t) for n, t in graph.tensors.items()},
        "ops": [_op_to_dict(op) for op in graph.ops],
    }
    if graph.primitives:
        out["primitives"] = [each.record() for each in graph.primitives]
    return out


def _attribute(value: object) -> AttributeValue:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, int | float | str):
        return value
    raise GraphError(f"attribute value {value!r} is neither a number, a text nor a list")


def _op_from_dict(data: Mapping[str, object]) -> Op:
    attributes = data.get("attributes", {})
    parts = data.get("parts", [])
    if not isinstance(attributes, dict) or not isinstance(parts, list):
        raise GraphError(f"operator {data.get('name')!r} has malformed attributes or parts")
    return Op(
        name=str(data["name"]),
        kind=str(data["kind"]),
        inputs=_names(data["inputs"]),
        outputs=_names(data["outputs"]),
        attributes={str(k): _attribute(v) for k, v in attributes.items()},
        scope=str(data.get("scope", "")),
        parts=tuple(_op_from_dict(p) for p in parts),
        divisors=_ints(data.get("divisors", [])),
    )


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise GraphError(f"expected a list of names, found {value!r}")
    return tuple(str(v) for v in value)


def _ints(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
        raise GraphError(f"expected a list of integers, found {value!r}")
    return tuple(value)


def _mapping(data: Mapping[str, object], key: str) -> dict[str, object]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise GraphError(f"{key} is not an object")
    return value


def graph_from_dict(data: Mapping[str, object]) -> OpGraph:
    """Graph from its JSON form.

    Raises:
        GraphError: the data does not describe a graph.
    """
    tensors: dict[str, Tensor] = {}
    try:
        for name, item in _mapping(data, "tensors").items():
            if not isinstance(item, dict):
                raise GraphError(f"tensor {name!r} is not an object")
            tensors[name] = Tensor(
                name=name,
                dims=_ints(item["dims"]),
                dtype=str(item["dtype"]),
                role=Role(item["role"]),
                source=str(item.get("source", "")),
                stored_permutation=_ints(item.get("stored_permutation", [])),
                divisors=_ints(item.get("divisors", [])),
            )
        ops, primitives = data["ops"], data.get("primitives", [])
        if not isinstance(ops, list) or not isinstance(primitives, list):
            raise GraphError("ops is not a list")
        graph = OpGraph(
            name=str(data["name"]),
            tensors=tensors,
            ops=tuple(_op_from_dict(op) for op in ops),
            inputs=_names(data["inputs"]),
            outputs=_names(data["outputs"]),
            gradients={k: str(v) for k, v in _mapping(data, "gradients").items()},
            batch=int(str(data.get("batch", 0))),
            symbols={k: int(str(v)) for k, v in _mapping(data, "symbols").items()},
            notes=_names(data.get("notes", [])),
            primitives=tuple(file_primitive(each) for each in primitives),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise GraphError(f"the graph in the file is malformed: {error!r}") from error
    graph.validate()
    return graph
