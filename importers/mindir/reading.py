"""The importer of MindIR files: what `mindspore.export` writes becomes a graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from importers.clean_up import cleaned
from importers.facts import FileFacts
from importers.mindir.file import open_model
from importers.mindir.flattening import Flat, flattened
from importers.mindir.listing import primitives_of
from importers.mindir.parsing import parsed
from importers.mindir.program import Stored
from importers.mindir.rows import with_told_rows
from importers.mindir.sizes import open_dimensions, sized
from importers.mindir.translation import translated
from importers.onnx import blamed
from importers.onnx_checks import type_code
from importers.onnx_constants import model_values
from importers.onnx_ranges import PROPERTY, ranges_in
from importers.onnx_values import Array
from importers.traced.operations import FrontEnd, table
from importers.traced.translation import MAX_BYTES, with_numbers
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph
from ir.mindspore_forms.foreign_kinds import DOMAIN, foreign_rule, primitive_of
from ir.ops import RULE_ATTRIBUTE
from ir.rule import parse_rule
from ir.symbols import Binding, sample_points
from ir.texts import visible
from ir.wire import Data


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
    program = sized(flat, point)
    found, _ = translated(program, data)
    again = "export the model again; if it runs in MindSpore, report it"
    graph = found.graph(flat.name, again)
    graph = graph.with_ops(_with_rule(op, graph) for op in graph.ops)
    graph = cleaned(graph if graph.is_training_step else with_told_rows(graph))
    primitives = () if graph.is_training_step else primitives_of(program)
    return replace(graph, symbols=dict(point), primitives=primitives)


def mindir_facts(path: Path) -> FileFacts:
    """Facts of the network in a file.

    Raises:
        ModelError: it cannot be read.
    """
    with _opened(path) as (flat, data):
        kinds = Counter(
            step.target if step.target in table(FrontEnd.MINDIR) else f"{DOMAIN}::{step.target}"
            for step in flat.steps
        )
        dims = tuple(open_dimensions(flat))
        becomes: Mapping[str, tuple[str, ...]] = {}
        if not dims:
            found = translated(flat, data)[0].becomes
            becomes = {
                target: each for target, each in found.items() if target in table(FrontEnd.MINDIR)
            }
        return FileFacts(flat.producer, kinds, dims, becomes)


def told_ranges(path: Path, bound: Collection[str] = ()) -> dict[str, str]:
    """Ranges that the file gives to open dimensions that are not bound: the entry `bind` of its
    user_info, written as the property of an ONNX file.

    Raises:
        ModelError: it cannot be read, or the entry binds nothing.
    """
    with blamed(str(path)), open_model(path) as model:
        entries = {e.text("key"): e.text("value") for e in model.messages("user_info")}
        where = f"{PROPERTY!r} in the user_info of the model"
        found = dict(ranges_in(entries.get(PROPERTY, ""), where))
        return {name: text for name, text in found.items() if name not in bound}


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
        found, stored = translated(sized(flat, bind or {}), data)

        def numbers_of(proto: onnx.TensorProto) -> bytes | None:
            known = stored.get(proto.name)
            fits = known is not None and proto.data_type == type_code(known.type.dtype)
            return _raw(known, data, path.parent) if known is not None and fits else None

        return model_values(with_numbers(found.model, numbers_of), names)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Flat, Data]]:
    """The primitives in a file, while it is open."""
    with blamed(str(path)), open_model(path) as model:
        name = visible(path.name).removesuffix(".mindir").removesuffix("_graph")
        yield flattened(parsed(model, name)), model.data


def _with_rule(op: Op, graph: OpGraph) -> Op:
    """The operator with a rule if it is MindSpore's alone."""
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


def _raw(stored: Stored, data: Data, folder: Path) -> bytes | None:
    """Numbers of a parameter; None where they are too many or absent."""
    size = int(dtype_bytes(stored.type.dtype)) * math.prod(stored.type.dims)
    if size > MAX_BYTES:
        return None
    if stored.numbers is not None:
        return data[stored.numbers.start : stored.numbers.end]
    if not stored.outside or stored.offset < 0:
        return None
    try:
        path = (folder / stored.outside).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return None
        with path.open("rb") as stream:
            stream.seek(stored.offset)
            raw = stream.read(size)
    except (OSError, ValueError):
        return None
    return raw if len(raw) == size else None
