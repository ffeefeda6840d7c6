"""The importer of MindIR files: what `mindspore.export` writes becomes a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from importers.clean_up import cleaned
from importers.errors import ModelError
from importers.mindir.file import open_model
from importers.mindir.flattening import Flat, flattened
from importers.mindir.parsing import parsed
from importers.mindir.program import Stored
from importers.mindir.rows import with_told_rows
from importers.mindir.sizes import open_dimensions, sized
from importers.mindir.table import table
from importers.mindir.translation import DOMAIN, Translated, translated
from importers.onnx import blamed, import_model
from importers.onnx_constants import model_values
from importers.onnx_ranges import PROPERTY, ranges_in
from importers.onnx_values import Array
from importers.onnx_writer import type_code
from ir.dtypes import dtype_bytes
from ir.foreign_kinds import foreign_rule, primitive_of
from ir.graph import Op, OpGraph
from ir.ops import RULE_ATTRIBUTE
from ir.rule import parse_rule
from ir.symbols import Binding, sample_points
from ir.texts import visible
from ir.wire import Data

MAX_BYTES = 2**28
"""A larger array is not read."""
MAX_TOTAL_BYTES = 2**30
"""Nor are those that come after so much."""


@dataclass(frozen=True, slots=True)
class MindFacts:
    """A file in words, for `planner inspect`."""

    producer: str
    kinds: Counter[str]
    """Primitives, named as the graph names what no line has."""
    becomes: Mapping[str, tuple[str, ...]]
    """Operators of ONNX by the primitive that they come from."""
    open_dims: tuple[tuple[str, int, str], ...]
    """Input, dimension and name of those that are open."""


def import_mindir(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a `.mindir` file.

    Args:
        path: the file; weights in files beside it need not exist.
        bind: sizes of open dimensions as `input.dimension`. One with a range of sizes gives the
            graph variants, see `ir.symbols`.

    Raises:
        ModelError: the file cannot be read or planned from.
        SymbolError: too many dimensions have ranges.
    """
    points = sample_points(bind or {})
    with _opened(path) as (flat, data):
        graph, *variants = (_graph_at(flat, data, point) for point in points)
        return replace(graph, variants=tuple(variants))


def _graph_at(flat: Flat, data: Data, point: Mapping[str, int]) -> OpGraph:
    """The network at one size of each open dimension."""
    graph = _graph(translated(sized(flat, point), data), flat.name)
    return replace(graph, symbols=dict(point))


def mindir_facts(path: Path) -> MindFacts:
    """Facts of the network in a file.

    Raises:
        ModelError: it cannot be read.
    """
    with _opened(path) as (flat, data):
        kinds = Counter(_kind(step.target) for step in flat.steps)
        dims = tuple(open_dimensions(flat))
        becomes: Mapping[str, tuple[str, ...]] = {}
        if not dims:
            found = translated(flat, data).kinds
            becomes = {target: each for target, each in found.items() if target in table()}
        return MindFacts(flat.producer, kinds, becomes, dims)


def told_ranges(path: Path) -> dict[str, str]:
    """Ranges that the file gives to open dimensions, by name: the entry `bind` of its user_info,
    written as the property of an ONNX file.

    Raises:
        ModelError: it cannot be read, or the entry binds nothing.
    """
    with blamed(str(path)), open_model(path) as model:
        entries = {e.text("key"): e.text("value") for e in model.messages("user_info")}
        where = f"{PROPERTY!r} in the user_info of the model"
        return dict(ranges_in(entries.get(PROPERTY, ""), where))


def constant_values(
    path: Path, names: Iterable[str], bind: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Numbers of those tensors that do not depend on inputs and are in the file, or beside it.

    Args:
        path: the file.
        names: tensors as the imported graph calls them.
        bind: sizes of open dimensions.

    Raises:
        ModelError: the file cannot be read.
    """
    with _opened(path) as (flat, data):
        found = translated(sized(flat, bind or {}), data)
        wanted = list(names)
        return model_values(_with_numbers(found, data, path.parent), wanted)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Flat, Data]]:
    """The primitives in a file, while it is open."""
    with blamed(str(path)), open_model(path) as model:
        name = visible(path.name).removesuffix(".mindir").removesuffix("_graph")
        yield flattened(parsed(model, name)), model.data


def _kind(target: str) -> str:
    return target if target in table() else f"{DOMAIN}::{target}"


def _graph(found: Translated, name: str) -> OpGraph:
    graph = import_model(found.model, name, {}, found.trained)
    for tensor in graph.tensors.values():
        noted = found.tensors.get(tensor.name)
        if noted is not None and noted.dims != tensor.dims:
            raise ModelError(
                f"the file says that {tensor.name!r} is {list(noted.dims)}, "
                f"its operator makes {list(tensor.dims)}",
                f"tensor {tensor.name!r}",
                "export the model again; if it runs in MindSpore, report it",
            )
    graph = replace(_described(graph), notes=(*graph.notes, *found.notes))
    return cleaned(graph if graph.is_training_step else with_told_rows(graph))


def _described(graph: OpGraph) -> OpGraph:
    """The graph with rules for operators that are MindSpore's alone."""
    return graph.with_ops(_with_rule(op, graph) for op in graph.ops)


def _with_rule(op: Op, graph: OpGraph) -> Op:
    if not primitive_of(op.kind) or not all((*op.inputs, *op.outputs)):
        return op
    operands = [graph.tensors[name].dims for name in op.inputs]
    results = [graph.tensors[name].dims for name in op.outputs]
    rule = foreign_rule(op.kind, operands, results)
    try:
        parse_rule(rule, operands, results)
    except ValueError:  # operands that the rule does not foresee: the operator is repeated
        return op
    return replace(op, attributes={**op.attributes, RULE_ATTRIBUTE: rule})


def _with_numbers(found: Translated, data: Data, folder: Path) -> onnx.ModelProto:
    """The model with the numbers of its parameters, as far as they are at hand."""
    filled, left = onnx.ModelProto(), MAX_TOTAL_BYTES
    filled.CopyFrom(found.model)
    for proto in filled.graph.initializer:
        stored = found.stored.get(proto.name)
        if stored is None or not proto.external_data:
            continue
        raw = _raw(stored, data, folder)
        left -= len(raw)
        if left < 0:
            break
        if raw and proto.data_type == type_code(stored.type.dtype):
            del proto.external_data[:]
            proto.data_location = onnx.TensorProto.DEFAULT
            proto.raw_data = raw
    return filled


def _raw(stored: Stored, data: Data, folder: Path) -> bytes:
    """Numbers of a parameter; none where they are too many or absent."""
    size = int(dtype_bytes(stored.type.dtype))
    for dim in stored.type.dims:
        size *= dim
    if size > MAX_BYTES:
        return b""
    if stored.numbers is not None:
        return data[stored.numbers.start : stored.numbers.end]
    if not stored.outside or stored.offset < 0:
        return b""
    try:
        path = (folder / stored.outside).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return b""
        with path.open("rb") as stream:
            stream.seek(stored.offset)
            raw = stream.read(size)
    except (OSError, ValueError):
        return b""
    return raw if len(raw) == size else b""
