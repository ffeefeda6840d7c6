"""The importer of JAX programs: StableHLO as text becomes a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from importers.clean_up import cleaned
from importers.errors import ModelError, unknown_dimension
from importers.facts import FileFacts
from importers.files import file_size, readable
from importers.onnx import blamed
from importers.onnx_constants import model_values
from importers.onnx_values import Array
from importers.stablehlo.parsing import parsed
from importers.stablehlo.roles import signature_of
from importers.stablehlo.tokens import AGAIN
from importers.stablehlo.translation import PRODUCER, Program, translated
from ir.graph import OpGraph
from ir.symbols import Binding
from ir.texts import visible

MAX_BYTES = 2**28
"""A larger file is not read."""
_BYTECODE = b"ML\xefR"


def import_stablehlo(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a StableHLO module as text.

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
        raise unknown_dimension(next(iter(bind)), ())


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
    module = parsed(text, where)
    main = module.functions.get("main") or next(iter(module.functions.values()))
    if not main.operations:
        raise ModelError(f"@{main.name} has no body", where, "write the whole module")
    return Program(name or module.name, module, main, signature_of(text, main, where), where)


def graph_of(program: Program) -> OpGraph:
    """The operator graph of a program."""
    found, _ = translated(program)
    return cleaned(found.graph(program.name, AGAIN))


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
        return model_values(translated(read_program(path))[0].model, names)


def program_facts(path: Path) -> FileFacts:
    """Facts of the program in a file.

    Raises:
        ModelError: it cannot be read.
    """
    found, kinds = translated(read_program(path))
    return FileFacts(PRODUCER, kinds, becomes=found.becomes)


def _text(path: Path) -> str:
    fix = "write it with jax.jit(f).lower(...).as_text()"
    if path.suffix.lower() == ".jaxpr":
        raise ModelError(
            f"{path.name} is a jaxpr; JAX programs are read as StableHLO", str(path),
            "write it as model.mlir with jax.jit(f).lower(...).as_text(), "
            "or python -m importers.jax_trace",
        )  # fmt: skip
    with readable(path):
        file_size(path, MAX_BYTES, fix)
        data = path.read_bytes()
    if data.startswith(_BYTECODE):
        raise ModelError(f"{path.name} is MLIR bytecode, not text", str(path), fix)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name} is no text", str(path), fix) from error
