"""Messages of a MindIR file as graphs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from importers.errors import ModelError
from importers.mindir.messages import ATTRIBUTE_TYPES, DATA_TYPES
from importers.mindir.program import (
    Graph,
    Literal,
    MindFile,
    Node,
    Opaque,
    ResultType,
    Stored,
    TensorType,
)
from importers.mindir.wire import Message
from importers.onnx_checks import MAX_DIM
from ir.dtypes import dtype_bytes

_INTEGERS = frozenset({"UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "UINT32", "UINT64"})
_AGAIN = "export the model again"
_REFERENCE = "REF::"
_SHAPE = "shape"
"""The attribute of a node that tells what it makes."""


def parsed(model: Message, name: str) -> MindFile:
    """The graphs of a file.

    Raises:
        ModelError: something in it cannot be planned from.
        WireError: it is damaged.
    """
    primitives = {p.text("name"): _primitive(p) for p in model.messages("primitives")}
    functions = list(model.messages("functions"))
    calls = frozenset(f.text("name") for f in functions)
    main = model.message("graph")
    if main is None:
        raise ModelError(f"{name} has no graph", name, _AGAIN)
    version = model.text("producer_version") or model.text("model_version")
    return MindFile(
        name=name,
        producer=f"{model.text('producer_name')} {version}".strip(),
        main=_graph(main, primitives, calls),
        functions={f.text("name"): _graph(f, primitives, calls) for f in functions},
    )


_Primitive = tuple[str, Mapping[str, Literal]]
"""The name of a primitive, and its attributes."""


def _primitive(message: Message) -> _Primitive:
    return message.text("op_type"), _attributes(message.messages("attribute"))


def _attributes(messages: Iterable[Message]) -> dict[str, Literal]:
    return {m.text("name"): literal(m) for m in messages}


def _graph(message: Message, primitives: Mapping[str, _Primitive], calls: frozenset[str]) -> Graph:
    name = message.text("name")
    if message.has("map_parameter"):
        raise ModelError("the model has parameters that are hash tables", f"graph {name!r}", _AGAIN)
    return Graph(
        name=name,
        inputs=tuple((i.text("name"), _input_type(i)) for i in message.messages("input")),
        outputs=tuple(o.text("name") for o in message.messages("output")),
        nodes=tuple(_node(n, primitives, calls) for n in message.messages("node")),
        parameters={
            p.text("name"): stored(p, p.text("ref_key")) for p in message.messages("parameter")
        },
    )


def _node(message: Message, primitives: Mapping[str, _Primitive], calls: frozenset[str]) -> Node:
    kind = message.text("op_type")
    outputs = message.texts("output")
    name = outputs[0] if outputs else message.text("name")
    own = {a.text("name"): a for a in message.messages("attribute")}
    if kind == "Constant":
        value = literal(own["value"]) if "value" in own else Opaque("UNDEFINED")
        return Node(name, "", (), Opaque(kind), "", constant=value)
    reference = kind.removeprefix(_REFERENCE)
    is_call = reference not in primitives and (kind != reference or reference in calls)
    target, attributes = primitives.get(reference, (reference, {}))
    given = {key: literal(each) for key, each in own.items() if key != _SHAPE}
    return Node(
        name=name,
        target=target,
        inputs=tuple(message.texts("input")),
        result=_result_type(own[_SHAPE]) if _SHAPE in own else Opaque("UNDEFINED"),
        scope_name=message.text("domain"),
        attributes=given | dict(attributes),
        is_call=is_call,
    )


def _input_type(message: Message) -> ResultType:
    tensors = [_tensor_type(t) for t in message.messages("tensor")]
    if len(tensors) == 1:
        return tensors[0]
    info = message.message("attr_info")
    return _result_type(info) if info is not None else tuple(tensors)


def _result_type(message: Message) -> ResultType:
    kind = _type_of(message)
    if kind in {"TUPLE", "LIST"}:
        return tuple(_result_type(v) for v in message.messages("values"))
    tensors = [_tensor_type(t) for t in _tensors(message)]
    if kind in {"TENSOR", "TENSORS"} and tensors:
        return tensors[0] if len(tensors) == 1 else tuple(tensors)
    return Opaque(kind)


def _tensors(message: Message) -> list[Message]:
    alone = message.message("t")
    return [*message.messages("tensors"), *([alone] if alone is not None else [])]


def _type_of(message: Message) -> str:
    code = message.integer("type")
    return ATTRIBUTE_TYPES.get(code, f"type {code}")


def literal(message: Message) -> Literal:
    """The value of an attribute or a constant."""
    kind = _type_of(message)
    if kind == "BOOL":
        return bool(_last(message.integers("i"), message.integers("ints")))
    if kind in _INTEGERS:
        return int(_last(message.integers("i"), message.integers("ints")))
    if kind in {"FLOAT", "FLOAT16", "BFLOAT16"}:
        return float(_last(message.numbers("f"), message.numbers("floats")))
    if kind == "DOUBLE":
        return float(_last(message.numbers("d"), message.numbers("doubles")))
    if kind == "STRING":
        field = "s" if message.has("s") else "strings"
        return message.raw(field).decode(errors="replace")
    if kind in {"TUPLE", "LIST"}:
        return tuple(literal(v) for v in message.messages("values"))
    if kind in {"TENSOR", "TENSORS", "SCALAR"}:
        tensors = [stored(t, "") for t in _tensors(message)]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)
    return None if kind == "NONE" else Opaque(kind)


def _last(alone: list[int] | list[float], several: list[int] | list[float]) -> float:
    """A number inside of a tuple is the only one of several."""
    return (several or alone or [0])[-1]


def _tensor_type(message: Message) -> TensorType:
    code = message.integer("data_type")
    dtype = DATA_TYPES.get(code)
    if dtype is None:
        raise ModelError(
            f"element type {code} of MindIR cannot be planned",
            f"tensor {message.text('name')!r}, byte {message.span.start}",
            "export the model with numbers of up to 64 bits, none of them complex",
        )
    dims = tuple(message.integers("dims"))
    if any(not -1 <= size <= MAX_DIM for size in dims):
        raise ModelError(
            f"a tensor has sizes {str(list(dims))[:80]}",
            f"tensor {message.text('name')!r}, byte {message.span.start}",
            _AGAIN,
        )
    return TensorType(dims, dtype)


def stored(message: Message, key: str) -> Stored:
    """A tensor with numbers.

    Args:
        message: a `TensorProto`.
        key: the name of the parameter, if it is one.
    """
    name = message.text("name")
    found, span = _tensor_type(message), message.span_of("raw_data")
    known = key or name.rpartition(":")[2]
    outside = message.message("external_data")
    if message.integer("compression_type"):
        return Stored(known, found)
    if outside is not None and outside.text("location"):
        place = outside.text("location")
        parts = PurePosixPath(place).parts
        plain = not place.startswith("/") and ".." not in parts and "\0" not in place
        return Stored(known, found, None, place if plain else "", outside.integer("offset"))
    wanted = math.prod(found.dims) * dtype_bytes(found.dtype)
    fits = span is not None and span.size == wanted
    return Stored(known, found, span if fits else None)
