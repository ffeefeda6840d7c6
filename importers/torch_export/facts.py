"""What a program says of itself, for `planner inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from importers.errors import ModelError
from importers.onnx_checks import MAX_DIM
from importers.torch_export.aten import entry_of
from importers.torch_export.program import Program
from importers.torch_export.reading import bindable, read_program
from importers.torch_export.sizes import number_of, symbols_in
from importers.torch_export.translation import translated


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program in words."""

    producer: str
    kinds: Counter[str]
    """Calls by operator, named as the graph names what no table has."""
    open_dims: tuple[tuple[str, int, str], ...]
    """Input, dimension and symbol of every size that is open."""
    becomes: Mapping[str, tuple[str, ...]]
    """Operators of ONNX by the kind that they come from, as far as traced sizes tell."""


def program_facts(path: Path) -> ProgramFacts:
    """Facts of the program in a file.

    Raises:
        ModelError: it cannot be read.
    """
    program = read_program(path)
    kinds = Counter(_kind(node.target) for node in program.nodes)
    return ProgramFacts(program.producer, kinds, tuple(_open_dims(program)), _becomes(program))


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
        found = translated(program, program.hints).kinds
    except ModelError:
        return {}
    return {_kind(target): kinds for target, kinds in found.items() if entry_of(target)}


def _kind(target: str) -> str:
    if entry_of(target) is not None:
        return target
    space, _, name = target.partition(".")
    return f"{space}::{name.removesuffix('.default')}"


def _open_dims(program: Program) -> Iterator[tuple[str, int, str]]:
    for value in program.inputs:
        for axis, dim in enumerate(program.metas[value].dims):
            if isinstance(dim, str):
                names = sorted(symbols_in(dim))
                plain = len(names) == 1 and number_of(dim, {names[0]: 7}) == 7
                yield value, axis, names[0] if plain else dim
