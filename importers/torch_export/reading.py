"""The importer of PyTorch programs: a `.pt2` archive or an FX graph as JSON becomes a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from importers.clean_up import cleaned
from importers.errors import ModelError, UnboundError
from importers.onnx import blamed, import_model
from importers.onnx_checks import MAX_DIM
from importers.onnx_constants import model_values
from importers.onnx_values import Array
from importers.torch_export.archive import Archive, open_archive
from importers.torch_export.fx_program import fx_program
from importers.torch_export.json_text import MAX_JSON_BYTES, read_json
from importers.torch_export.program import Program
from importers.torch_export.pt2_program import pt2_program
from importers.torch_export.scopes import with_scopes
from importers.torch_export.sizes import number_of, size_of, symbols_in
from importers.torch_export.translation import Translated, translated
from importers.torch_export.weights import with_numbers
from ir.graph import OpGraph, Role
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
            return fx_program(read_json(_text(path), str(path)), _name(path), str(path))
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
        return model_values(with_numbers(found.model, path), names)


def _name(path: Path) -> str:
    return visible(path.name).removesuffix(".json").removesuffix(".fx").removesuffix(".pt2")


def _text(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ModelError(
                f"{path.name} is larger than {MAX_JSON_BYTES} bytes", str(path), "split the model"
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}", str(path), "check the path and its permissions"
        ) from error


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
    graph = import_model(found.model, program.name, {}, found.trained)
    _check_sizes(graph, found)
    given = {v for v in found.gradients.values() if v in graph.outputs}
    gradients = {p: g for p, g in found.gradients.items() if g in given and p in graph.tensors}
    notes = [*graph.notes, *found.notes]
    if gradients and not graph.gradients:
        notes.append(f"a traced training step: {len(gradients)} gradients are outputs of the graph")
    symbols = dict(sorted(point.items()))
    graph = replace(_with_state(graph, program), gradients=gradients, notes=tuple(notes))
    graph = replace(graph, symbols=symbols)
    return with_scopes(cleaned(graph))


def _with_state(graph: OpGraph, program: Program) -> OpGraph:
    """Buffers that the program writes are no inputs, though they are not constant either."""
    state = {s.name for s in program.stored.values()} & set(graph.inputs)
    tensors = {
        n: replace(t, role=Role.BUFFER) if n in state else t for n, t in graph.tensors.items()
    }
    inputs = tuple(n for n in graph.inputs if n not in state)
    return replace(graph, tensors=tensors, inputs=inputs).with_ops(graph.ops)


def _check_sizes(graph: OpGraph, found: Translated) -> None:
    """What the operators make must be what the tracer noted."""
    for name, tensor in graph.tensors.items():
        noted = found.tensors.get(name)
        if noted is not None and noted.dims != tensor.dims:
            raise ModelError(
                f"the file says that {name!r} is {list(noted.dims)}, "
                f"its operator makes {list(tensor.dims)}",
                f"tensor {name!r}",
                "export the program again",
            )


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
            shown = ", ".join(sorted(n for n in names if "." not in n)[:20])
            raise ModelError(
                f"the model has no dynamic dimension {name!r}",
                "--bind",
                f"its dynamic dimensions are {shown}"
                if names
                else "all its dimensions are fixed; leave --bind out",
            )
        limits = program.symbols.get(names[name])
        least = (limits.least if limits else None) or 1
        most = (limits.most if limits else None) or MAX_DIM
        if not least <= size <= most:
            raise ModelError(
                f"dimension {name!r} is bound to {size}",
                "--bind",
                f"bind it to a number from {least} to {most}, for which the program was traced",
            )
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
