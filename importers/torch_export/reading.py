"""The importer of PyTorch programs: a `.pt2` archive or an FX graph as JSON becomes a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from importers.clean_up import cleaned
from importers.errors import ModelError, UnboundError, check_bound, unknown_dimension
from importers.facts import FileFacts, OpenDim
from importers.files import file_size, readable
from importers.onnx import blamed
from importers.onnx_checks import MAX_DIM
from importers.onnx_constants import model_values
from importers.onnx_values import Array
from importers.size_texts import number_of, size_of, symbols_in
from importers.torch_export.archive import Archive, open_archive, stored_numbers
from importers.torch_export.aten import entry_of
from importers.torch_export.fx_program import fx_program
from importers.torch_export.json_text import MAX_JSON_BYTES, read_json
from importers.torch_export.program import Program
from importers.torch_export.pt2_program import pt2_program
from importers.torch_export.translation import translated, unknown_kind
from importers.traced.translation import with_numbers
from ir.graph import OpGraph, Role
from ir.pairing import pairs
from ir.symbols import Binding, sample_points
from ir.texts import visible

_OLD_GRAPH = "serialized_exported_program.json"
"""The graph in archives of PyTorch 2.1 to 2.7."""


def import_torch(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a `.pt2` archive, or an FX graph as JSON.

    Args:
        path: the file. Nothing in it is unpickled.
        bind: sizes of the program's symbols, by their names or as `input.dimension`. One with a
            range of sizes gives the graph variants, see `ir.symbols`.

    Raises:
        ModelError: the file cannot be read or planned from.
        SymbolError: too many dimensions have ranges.
    """
    points = sample_points(bind or {})
    with blamed(str(path)):
        program = read_program(path)
        for point in points:
            check_bindings(program, point)
        graph, *variants = (graph_at(program, point) for point in points)
        return replace(graph, variants=tuple(variants))


def read_program(path: Path) -> Program:
    """The program in a file.

    Raises:
        ModelError: it cannot be read, or is none.
    """
    with blamed(str(path)):
        if path.is_dir():
            raise ModelError(f"{path} is a folder", str(path), "pass the file inside it")
        if path.suffix == ".json":
            with readable(path):
                file_size(path, MAX_JSON_BYTES, "split the model")
                text = path.read_bytes()
            return fx_program(read_json(text, str(path)), _name(path), str(path))
        with open_archive(path) as archive:
            entry = _graph_entry(archive)
            where = archive.where(entry)
            return pt2_program(read_json(archive.read(entry), where), _name(path), where)


def constant_values(
    path: Path, names: Iterable[str], bind: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Numbers of those tensors that do not depend on inputs and are in the file.

    Args:
        path: the file.
        names: tensors as the imported graph calls them.
        bind: sizes of the program's symbols.
    """
    with blamed(str(path)):
        program = read_program(path)
        found = translated(program, symbol_values(program, bind or {}))
        with stored_numbers(path) as numbers_of:
            return model_values(with_numbers(found.model, numbers_of), names)


def _name(path: Path) -> str:
    return visible(path.name).removesuffix(".json").removesuffix(".fx").removesuffix(".pt2")


def _graph_entry(archive: Archive) -> str:
    """The JSON of the only program in an archive."""
    found = [n for n in archive.names if n.startswith("models/") and n.endswith(".json")]
    if not found and archive.has(_OLD_GRAPH):
        return _OLD_GRAPH
    if len(found) != 1:
        raise ModelError(
            f"the archive has {len(found)} programs" if found else "the archive has no program",
            str(archive.path),
            "save one program with torch.export.save",
        )
    return found[0]


def graph_at(program: Program, point: Mapping[str, int]) -> OpGraph:
    """The program at one value of its symbols."""
    found = translated(program, symbol_values(program, point))
    graph = found.graph(program.name, "export the program again")
    return _with_scopes(cleaned(replace(graph, symbols=dict(sorted(point.items())))))


def bindable(program: Program) -> dict[str, str]:
    """Names that `--bind` may use, with the symbol that each stands for."""
    names = {name: name for name in program.symbols if name.isidentifier()}
    for value in program.inputs:
        for axis, dim in enumerate(program.metas[value].dims):
            if isinstance(dim, str):
                found = symbols_in(dim)
                names.update({n: n for n in found})
                if len(found) == 1 and number_of(dim, {next(iter(found)): 7}) == 7:
                    names[f"{value}.{axis}"] = next(iter(found))
    return names


def symbol_values(program: Program, bind: Mapping[str, int]) -> dict[str, int]:
    """Sizes by symbol."""
    names = bindable(program)
    return {names.get(name, name): size for name, size in bind.items()}


def check_bindings(program: Program, bind: Mapping[str, int]) -> None:
    """Raise `ModelError` for a size that the program does not have or was not traced for."""
    names = bindable(program)
    for name, size in bind.items():
        if name not in names:
            raise unknown_dimension(name, sorted(n for n in names if "." not in n))
        limits = program.symbols.get(names[name])
        least = (limits.least if limits else None) or 1
        most = (limits.most if limits else None) or MAX_DIM
        check_bound(name, size, most, least, ", for which the program was traced")
    missing = sorted(set(names.values()) - set(symbol_values(program, bind)))
    if missing:
        raise _unbound(program, missing)
    _check_guards(program, symbol_values(program, bind))


def _unbound(program: Program, missing: list[str]) -> UnboundError:
    names = bindable(program)
    places = [f"{n}, which is {a}" for a, n in sorted(names.items()) if n in missing and a != n]
    return UnboundError(missing, "; ".join(places) or "inputs", program.hints)


def _check_guards(program: Program, values: Mapping[str, int]) -> None:
    """Conditions that the tracer noted, as far as they can be told from sizes."""
    known = dict(values)
    for value in program.inputs:
        for axis, dim in enumerate(program.metas[value].dims):
            known[f"{value}.{axis}"] = (
                size_of(dim, values, f"input {value!r}") if isinstance(dim, str) else dim
            )
    for guard in (*program.guards, *_range_guards(program)):
        told = symbols_in(guard) <= known.keys() and number_of(guard, known) is False
        if told:
            raise ModelError(
                f"the program was traced for sizes with {guard[:200]}",
                "--bind " + ",".join(f"{n}={v}" for n, v in values.items()),
                "bind other sizes, or trace it with these",
            )


def _range_guards(program: Program) -> Iterator[str]:
    """Ranges of sizes that are no symbols themselves."""
    for text, limits in program.symbols.items():
        if not text.isidentifier():
            if limits.least is not None:
                yield f"({text}) >= {limits.least}"
            if limits.most is not None:
                yield f"({text}) <= {limits.most}"


def _with_scopes(graph: OpGraph) -> OpGraph:
    """The graph with a scope on every operator that has none and can be given one.

    Tracers note none of a training step. An operator that reads a parameter is in the parameter's
    module, others are where their operand comes from, and a backward operator is where its forward
    operator is.
    """
    if not graph.is_training_step:
        return graph
    forward_of = pairs(graph)
    scopes: dict[str, str] = {op.name: op.scope for op in graph.ops}
    made_in: dict[str, str] = {
        t.name: t.name.rpartition(".")[0]
        for t in graph.tensors.values()
        if t.role is Role.PARAMETER
    }
    for op in graph.ops:
        if op.name in forward_of:
            continue
        weights = [n for n in op.inputs if n and graph.tensors[n].role is Role.PARAMETER]
        near = [made_in[n] for n in (*weights, *op.inputs) if made_in.get(n)]
        scopes[op.name] = op.scope or (near[0] if near else "")
        made_in.update(dict.fromkeys(op.outputs, scopes[op.name]))
    for backward, forward in forward_of.items():
        scopes[backward] = scopes[backward] or scopes[forward]
    note = f"{len(forward_of)} backward operators are paired with forward ones by data flow"
    ops = tuple(replace(op, scope=scopes[op.name]) for op in graph.ops)
    return replace(graph, ops=ops, notes=(*graph.notes, note))


def program_facts(path: Path) -> FileFacts:
    """Facts of the program in a file.

    Raises:
        ModelError: it cannot be read.
    """
    program = read_program(path)
    targets = (node.target for node in program.nodes)
    kinds = Counter(t if entry_of(t) else unknown_kind(t) for t in targets)
    return FileFacts(program.producer, kinds, tuple(_open_dims(program)), _becomes(program))


def program_ranges(path: Path, bound: Collection[str]) -> dict[str, str]:
    """Sizes of the symbols that the program limits on both sides, as `--bind` takes them.

    Args:
        path: the file.
        bound: names that are bound already.

    Raises:
        ModelError: it cannot be read.
    """
    program = read_program(path)
    names = bindable(program)
    taken = {names.get(name, name) for name in bound}
    return {
        name: f"{max(1, limits.least or 1)}..{limits.most}"
        for name, limits in program.symbols.items()
        if name in names and name not in taken and 1 < (limits.most or 0) <= MAX_DIM
    }


def _becomes(program: Program) -> dict[str, tuple[str, ...]]:
    try:
        found = translated(program, program.hints).becomes
    except ModelError:
        return {}
    return {target: kinds for target, kinds in found.items() if entry_of(target)}


def _open_dims(program: Program) -> Iterator[OpenDim]:
    for value in program.inputs:
        for axis, dim in enumerate(program.metas[value].dims):
            if isinstance(dim, str):
                names = sorted(symbols_in(dim))
                plain = len(names) == 1 and number_of(dim, {names[0]: 7}) == 7
                yield OpenDim(value, axis, names[0] if plain else dim)
