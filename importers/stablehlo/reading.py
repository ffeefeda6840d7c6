"""The importer of JAX programs: StableHLO or a jaxpr as text becomes a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from importers.clean_up import cleaned
from importers.errors import ModelError
from importers.onnx import blamed, import_model
from importers.onnx_constants import model_values
from importers.onnx_values import Array
from importers.stablehlo.jaxpr import is_jaxpr, module_of
from importers.stablehlo.parsing import parsed
from importers.stablehlo.roles import signature_of
from importers.stablehlo.translation import PRODUCER, Program, translated
from ir.graph import OpGraph, Role
from ir.symbols import Binding
from ir.texts import visible

MAX_BYTES = 2**28
"""A larger file is not read."""
_BYTECODE = b"ML\xefR"


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program in words."""

    producer: str
    kinds: Mapping[str, int]
    """Operations by kind, written out, named as the graph names what the table lacks."""
    becomes: Mapping[str, tuple[str, ...]]
    """Operators of ONNX by the operation that they come from."""


def import_stablehlo(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a StableHLO module or a jaxpr as text.

    Args:
        path: the file.
        bind: nothing: such programs have fixed sizes.

    Raises:
        ModelError: the file cannot be read or planned from.
    """
    _check_bindings(bind or {})
    with blamed(str(path)):
        return graph_of(read_program(path))


def _check_bindings(bind: Binding | Mapping[str, int]) -> None:
    if bind:
        raise ModelError(
            f"the model has no dynamic dimension {next(iter(bind))!r}",
            "--bind",
            "all its dimensions are fixed; leave --bind out",
        )


def read_program(path: Path) -> Program:
    """The program in a file.

    Raises:
        ModelError: it cannot be read, or is none.
    """
    with blamed(str(path)):
        return program_of(_text(path), visible(path.name).rpartition(".")[0], str(path))


def program_of(text: str, name: str, where: str) -> Program:
    """The program that a text holds.

    Raises:
        ModelError: it is none.
    """
    module = module_of(text, where) if is_jaxpr(text) else parsed(text, where)
    main = module.functions.get("main") or next(iter(module.functions.values()))
    if not main.operations:
        raise ModelError(f"@{main.name} has no body", where, "write the whole module")
    return Program(name or module.name, module, main, signature_of(text, main, where), where)


def graph_of(program: Program) -> OpGraph:
    """The operator graph of a program."""
    found = translated(program)
    graph = import_model(found.model, program.name, {}, found.trained)
    gradients = {p: g for p, g in found.gradients.items() if g in graph.outputs}
    buffers = {g.name for g in program.signature.arguments if g.role == "buffer"}
    tensors = {
        n: replace(t, role=Role.BUFFER) if n in buffers else t for n, t in graph.tensors.items()
    }
    notes = (*graph.notes, *found.notes)
    inputs = tuple(n for n in graph.inputs if n not in buffers)
    graph = replace(graph, tensors=tensors, inputs=inputs, gradients=gradients, notes=notes)
    return cleaned(graph.with_ops(graph.ops))


def constant_values(
    path: Path, names: Iterable[str], bind: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Numbers of those tensors that do not depend on arguments.

    Args:
        path: the file.
        names: tensors as the imported graph calls them.
        bind: nothing, as for `import_stablehlo`.
    """
    _check_bindings(bind or {})
    with blamed(str(path)):
        return model_values(translated(read_program(path)).model, names)


def program_facts(path: Path) -> ProgramFacts:
    """Facts of the program in a file.

    Raises:
        ModelError: it cannot be read.
    """
    found = translated(read_program(path))
    return ProgramFacts(PRODUCER, found.kinds, found.becomes)


def _text(path: Path) -> str:
    fix = "write it with jax.jit(f).lower(...).as_text()"
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder", str(path), "pass the file inside it")
        if path.exists() and not path.is_file():
            raise ModelError(f"{path} is no regular file", str(path), "copy it to a file")
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"{path.name} is larger than {MAX_BYTES} bytes", str(path), fix)
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}", str(path), "check the path and its permissions"
        ) from error
    if data.startswith(_BYTECODE):
        raise ModelError(f"{path.name} is MLIR bytecode, not text", str(path), fix)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name} is no text", str(path), fix) from error
