"""The JSON file of a sharding. Its targets differ only in how they write one layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError

from exporters.errors import StrategyFileError
from exporters.sharding import (
    Axis,
    ShardedNode,
    ShardedOperator,
    ShardedParameter,
    ShardedTensor,
    Sharding,
    as_filed,
    as_planned,
    in_file_order,
    inverse,
    numbered,
)
from ir.layout import LayoutError, check_layout
from ir.plan import NamedLayout
from ir.violations import Violation

VERSION = 1
LayoutRecord = dict[str, Any]

_STRICT = ConfigDict(extra="forbid", strict=True)
REPAIR = "write the file again with `planner export`"


class Codec(Protocol):
    """How a target writes one layout."""

    def encode(self, layout: NamedLayout) -> LayoutRecord: ...

    def decode(self, record: LayoutRecord) -> NamedLayout:
        """Raises ValueError where the record is no layout on this mesh."""
        ...


@dataclass(frozen=True, slots=True)
class ParameterRecord:
    """One parameter, oriented as in the model file."""

    __pydantic_config__ = _STRICT
    dims: tuple[int, ...]
    dtype: str
    rest: LayoutRecord
    used: LayoutRecord | None
    source: str = ""
    permutation: tuple[int, ...] = ()
    states: LayoutRecord | None = None


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One input, or tensor that several operators read; an input may be both."""

    __pydantic_config__ = _STRICT
    name: str
    role: str
    dims: tuple[int, ...]
    dtype: str
    layout: LayoutRecord | None


@dataclass(frozen=True, slots=True)
class ActivationRecord:
    """One result of an operator."""

    __pydantic_config__ = _STRICT
    operator: str
    dims: tuple[int, ...]
    dtype: str
    layout: LayoutRecord | None


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """One operator with the layouts in which it reads."""

    __pydantic_config__ = _STRICT
    kind: str
    scope: str
    operands: tuple[LayoutRecord | None, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The file, field by field."""

    __pydantic_config__ = _STRICT
    format: str
    version: int
    model: str
    mesh: tuple[Axis, ...]
    devices: tuple[int, ...]
    parameters: dict[str, ParameterRecord]
    tensors: tuple[TensorRecord, ...]
    activations: dict[str, ActivationRecord]
    operators: dict[str, OperatorRecord]
    placed: dict[str, Any] = field(default_factory=dict)
    """What the target says beside the layouts."""


def to_text(
    sharding: Sharding, name: str, codec: Codec, placed: Mapping[str, object] | None = None
) -> str:
    """The text of the file: one line for each tensor and operator."""

    def record(layout: NamedLayout | None) -> LayoutRecord | None:
        return None if layout is None else codec.encode(layout)

    sections: dict[str, object] = {
        "format": name,
        "version": VERSION,
        "model": sharding.model,
        "mesh": [
            {"name": a.name, "size": a.size, "tier": a.tier, "tier_name": a.tier_name}
            for a in sharding.mesh
        ],
        "devices": sharding.rank_order,
        **({"placed": dict(placed)} if placed else {}),
        "parameters": {each.name: _parameter(each, codec) for each in sharding.parameters},
        "tensors": [
            {"name": n.tensor.name, "role": n.role, **_tensor(n.tensor, codec)}
            for n in sharding.nodes
        ],
        "activations": {
            tensor.name: {"operator": op.name, **_tensor(tensor, codec)}
            for op in sharding.operators
            for tensor in op.results
        },
        "operators": {
            op.name: {
                "kind": op.kind,
                "scope": op.scope,
                "operands": [record(x) for x in op.operands],
            }
            for op in sharding.operators
        },
    }  # fmt: skip
    return _lines(sections)


def _parameter(each: ShardedParameter, codec: Codec) -> dict[str, object]:
    order = each.permutation
    out: dict[str, object] = {
        "dims": in_file_order(each.dims, order),
        "dtype": each.dtype,
        "rest": codec.encode(as_filed(each.rest, order)),
        "used": None if each.used is None else codec.encode(as_filed(each.used, order)),
    }
    if each.source:
        out["source"] = each.source
    if order:
        out["permutation"] = order
    if each.states is not None:
        out["states"] = codec.encode(as_filed(each.states, order))
    return out


def _tensor(tensor: ShardedTensor, codec: Codec) -> dict[str, object]:
    layout = None if tensor.layout is None else codec.encode(tensor.layout)
    return {"dims": tensor.dims, "dtype": tensor.dtype, "layout": layout}


def _lines(sections: Mapping[str, object]) -> str:
    parts = []
    for key, value in sections.items():
        if isinstance(value, dict) and value:
            rows = (f"  {_dumps(k)}: {_dumps(v)}" for k, v in value.items())
            parts.append(f" {_dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
        elif isinstance(value, list) and value:
            rows = (f"  {_dumps(v)}" for v in value)
            parts.append(f" {_dumps(key)}: [\n" + ",\n".join(rows) + "\n ]")
        else:
            parts.append(f" {_dumps(key)}: {_dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_document(text: str, name: str) -> Document:
    """The records of a file of this format.

    Raises:
        StrategyFileError: it is another file, or its fields do not fit.
    """
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        _fail(f"the file is not JSON: {error}", "the file")
    if not isinstance(data, dict) or data.get("format") != name:
        _fail(f"the file is not of the format {name!r}", "the file")
    if data.get("version") != VERSION:
        what = f"version {data.get('version')!r}, this program reads version {VERSION}"
        _fail(f"the file has {what}", "the file")
    try:
        return TypeAdapter(Document).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        _fail(first["msg"], ".".join(str(p) for p in first["loc"]))


def from_document(document: Document, codec: Codec) -> Sharding:
    """The sharding that the records describe.

    Raises:
        StrategyFileError: they contradict one another.
    """
    _check_mesh(document)
    reader = _Reader(document, codec)
    results: dict[str, list[ShardedTensor]] = {name: [] for name in document.operators}
    for name, each in document.activations.items():
        if each.operator not in results:
            _fail(f"no operator {each.operator!r}", f"activations.{name}")
        place = f"activations.{name}"
        results[each.operator].append(
            ShardedTensor(name, each.dims, each.dtype, reader.layout(each.layout, each.dims, place))
        )
    return Sharding(
        document.model,
        document.mesh,
        document.devices,
        tuple(reader.parameter(n, each) for n, each in document.parameters.items()),
        tuple(reader.node(each) for each in document.tensors),
        tuple(
            ShardedOperator(
                n, each.kind, each.scope, reader.operands(n, each), tuple(results[n])
            )
            for n, each in document.operators.items()
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    codec: Codec

    def parameter(self, name: str, each: ParameterRecord) -> ShardedParameter:
        place, order = f"parameters.{name}", each.permutation
        if order and sorted(order) != list(range(len(each.dims))):
            _fail(f"{list(order)} is no order of {len(each.dims)} dimensions", place)
        rest = self.layout(each.rest, each.dims, place)
        used = self.layout(each.used, each.dims, place)
        states = self.layout(each.states, each.dims, place)
        if rest is None:
            _fail("no layout at rest", place)
        return ShardedParameter(
            name,
            in_file_order(each.dims, inverse(order)),
            each.dtype,
            as_planned(rest, order),
            None if used is None else as_planned(used, order),
            each.source,
            order,
            None if states is None else as_planned(states, order),
        )

    def node(self, each: TensorRecord) -> ShardedNode:
        layout = self.layout(each.layout, each.dims, f"tensors.{each.name}")
        return ShardedNode(each.role, ShardedTensor(each.name, each.dims, each.dtype, layout))

    def operands(self, name: str, each: OperatorRecord) -> tuple[NamedLayout | None, ...]:
        return tuple(self._decoded(record, f"operators.{name}") for record in each.operands)

    def layout(
        self, record: LayoutRecord | None, dims: Sequence[int], place: str
    ) -> NamedLayout | None:
        """A layout that a tensor of these dims can have."""
        found = self._decoded(record, place)
        return found if found is None else self._checked(found, dims, place)

    def _decoded(self, record: LayoutRecord | None, place: str) -> NamedLayout | None:
        if record is None:
            return None
        try:
            layout = self.codec.decode(record)
        except ValueError as error:
            _fail(str(error), place)
        return layout

    def _checked(self, layout: NamedLayout, dims: Sequence[int], place: str) -> NamedLayout:
        numbers = {axis.name: i for i, axis in enumerate(self.document.mesh)}
        sizes = [axis.size for axis in self.document.mesh]
        try:
            check_layout(numbered(layout, numbers), dims, sizes)
        except LayoutError as error:
            _fail(str(error), place)
        return layout


def _check_mesh(document: Document) -> None:
    names = [axis.name for axis in document.mesh]
    ranks = 1
    for axis in document.mesh:
        ranks *= axis.size
    if not names or len(set(names)) != len(names) or min(a.size for a in document.mesh) < 1:
        _fail("axes without distinct names and sizes of 1 or more", "mesh")
    if sorted(document.devices) != list(range(len(document.devices))):
        _fail("the devices are not numbered from 0, each once", "devices")
    if ranks != len(document.devices):
        _fail(f"a mesh of {ranks} ranks over {len(document.devices)} devices", "mesh")


def known_axes(axes: Iterable[object], known: Iterable[str]) -> tuple[str, ...]:
    """Names of axes, each known and none twice.

    Raises:
        ValueError: otherwise.
    """
    found, names = list(axes), list(known)
    strange = [a for a in found if a not in names]
    if strange:
        raise ValueError(f"the mesh has no axis {strange[0]!r}, only {', '.join(names)}")
    return tuple(str(a) for a in found)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return found


def _fail(what: str, at: str) -> NoReturn:
    raise StrategyFileError(Violation(what, at, REPAIR))
