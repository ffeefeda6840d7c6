"""Which arguments of a program are parameters, and what they are called.

The first line of a file may tell it, as `importers.jax_trace` writes it:
`// planner: {"arguments": [{"name": "up.kernel", "role": "parameter"}, …]}`. Without it the places
in the arguments of the traced function tell it, which JAX writes with `debug_info=True`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from importers.errors import ModelError
from importers.jax_names import HEAD, MODULES, PARAMETERS, PART, short_name
from importers.stablehlo.program import Argument, Function

MAX_HEAD = 2**22
_ROLES = frozenset({"parameter", "input", "buffer"})
_BUFFERS = frozenset({"batch_stats", "opt_state", "buffers", "stats", "constants"})
_NO_NAMES = (
    "no argument has a name, so all are inputs: write the text with as_text(debug_info=True) or "
    "with importers.jax_trace"
)


@dataclass(frozen=True, slots=True)
class Given:
    """One argument of the program."""

    name: str
    role: str
    """`"parameter"`, `"input"` or `"buffer"`."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of the arguments, and of results that are gradients."""

    arguments: tuple[Given, ...]
    results: tuple[str, ...]
    gradients: dict[str, int]
    """By parameter, the result that holds its gradient."""
    notes: tuple[str, ...] = ()


def signature_of(text: str, function: Function, where: str) -> Signature:
    """Names and roles of arguments.

    Raises:
        ModelError: the first line does not fit the function.
    """
    line = text[:MAX_HEAD].split("\n", 1)[0]
    if line.startswith(HEAD):
        return _told(line[len(HEAD) :], function, where)
    names = distinct(short_name(a.label) or a.value.lstrip("%") for a in function.arguments)
    given = tuple(
        Given(name, _guessed(argument))
        for name, argument in zip(names, function.arguments, strict=True)
    )
    untold = function.arguments and not any(a.label for a in function.arguments)
    return Signature(given, _result_names(function), {}, (_NO_NAMES,) if untold else ())


def _told(line: str, function: Function, where: str) -> Signature:
    fix = "write the file again with importers.jax_trace"
    try:
        found = json.loads(line)
        given = tuple(Given(str(e["name"]), str(e["role"])) for e in found["arguments"])
        gradients = {str(k): int(v) for k, v in found.get("gradients", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError("its first line is no record of arguments", where, fix) from error
    if len(given) != len(function.arguments) or any(g.role not in _ROLES for g in given):
        raise ModelError("its first line does not fit the arguments of the program", where, fix)
    names = [g.name for g in given]
    if len(set(names)) != len(names) or "" in names:
        raise ModelError("its first line names an argument twice", where, fix)
    dims = {g.name: a.type.dims for g, a in zip(given, function.arguments, strict=True)}
    if any(k not in dims or not 0 <= v < len(function.results) for k, v in gradients.items()):
        raise ModelError("its first line names a gradient of nothing", where, fix)
    return Signature(given, _result_names(function), gradients)


def _guessed(argument: Argument) -> str:
    """The role of an argument by its place, e.g. `params['up']['kernel']`."""
    parts = [p.lower() for p in PART.findall(argument.label)]
    if not parts or "float" not in argument.type.dtype:
        return "input"
    if _BUFFERS.intersection(parts):
        return "buffer"
    weight = PARAMETERS.intersection(parts) or (len(parts) > 1 and parts[0] in MODULES)
    return "parameter" if weight else "input"


def distinct(names: Iterable[str]) -> list[str]:
    """The names, with a number behind one that came before.

    >>> distinct(["x", "y", "x"])
    ['x', 'y', 'x#2']
    """
    counts: dict[str, int] = {}
    found: dict[str, None] = {}
    for name in names:
        made = name
        while made in found:
            counts[name] = counts.get(name, 1) + 1
            made = f"{name}#{counts[name]}"
        found[made] = None
    return list(found)


def _result_names(function: Function) -> tuple[str, ...]:
    return tuple(".".join(PART.findall(label)) for label in function.results)
