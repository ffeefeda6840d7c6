"""Writes a JAX function as StableHLO that says which arguments are parameters.

    python -m importers.jax_trace module:function --output model.mlir

`module:example` gives the arguments: a tuple, or a function that returns one, of arrays or of
`jax.ShapeDtypeStruct`; nothing is computed. The first of them is the tree of parameters unless
`--parameters` says otherwise. JAX is needed here, and nowhere else.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from importers.jax_names import HEAD, short_name


def traced(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    parameters: Sequence[int] = (0,),
    *,
    gradients: bool = False,
) -> str:
    """Text of a function, with a first line that names its arguments.

    Args:
        function: of trees of arrays.
        arguments: trees of arrays, or of shapes and types.
        parameters: places of those arguments that are parameters.
        gradients: the function returns a loss, and its gradients by the parameters are wanted too:
            a training step. There must be one argument of parameters then.

    Raises:
        ValueError: no argument has such a place.
    """
    jax = importlib.import_module("jax")
    if any(not 0 <= p < len(arguments) for p in parameters):
        raise ValueError(f"there are {len(arguments)} arguments, no argument {max(parameters)}")
    if gradients and len(parameters) != 1:
        raise ValueError("gradients are taken by one argument of parameters")
    step = jax.value_and_grad(function, parameters[0]) if gradients else function
    names = _argument_names(function, len(arguments))
    entries: list[dict[str, str]] = []
    slopes: dict[str, int] = {}
    for place, argument in enumerate(arguments):
        for path, leaf in jax.tree_util.tree_flatten_with_path(argument)[0]:
            key = jax.tree_util.keystr(path)
            label = f"params{key}" if place in parameters else names[place] + key
            entry = _entry(label, leaf, is_parameter=place in parameters)
            entries.append(entry)
            if gradients and place in parameters:
                slopes[entry["name"]] = len(slopes) + 1
    _rename_equal(entries)
    record: dict[str, Any] = {"arguments": entries}
    if slopes:
        record["gradients"] = slopes
    head = json.dumps(record, separators=(", ", ": "))
    lowered = jax.jit(step, keep_unused=True).lower(*arguments)
    return f"{HEAD} {head}\n{_with_names(lowered.as_text(debug_info=True))}"


def _argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """What the function calls its arguments, as far as it has names for them."""
    try:
        found = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        found = []
    return [*found, *(f"input{i}" for i in range(len(found), count))]


def _entry(label: str, leaf: Any, *, is_parameter: bool) -> dict[str, str]:
    floating = "float" in str(leaf.dtype)
    role = "parameter" if is_parameter and floating else "input"
    return {"name": short_name(label), "role": role}


def _rename_equal(entries: Sequence[dict[str, str]]) -> None:
    """Two trees of parameters may have a name each."""
    taken: set[str] = set()
    for entry in entries:
        while entry["name"] in taken:
            entry["name"] += "_"
        taken.add(entry["name"])


def _with_names(text: str) -> str:
    """The text with the names in its locations, without the lines of source that they also tell:
    these are no part of the program, and differ by who traces it.
    """
    names: dict[str, str] = {}
    kept: list[str] = []
    for line in text.splitlines():
        match = _DEFINITION.fullmatch(line)
        if match is None:
            kept.append(line)
        elif match[2] and not match[3].startswith(":"):
            names[match[1]] = match[2]
    return "".join(_USE.sub(lambda m: _location(names, m[1]), line) + "\n" for line in kept)


_DEFINITION = re.compile(r'(#loc\d*) = loc\((?:("(?:[^"\\]|\\.)*"))?(.*)\)')
_USE = re.compile(r" loc\((#loc\d*|unknown)\)")


def _location(names: Mapping[str, str], alias: str) -> str:
    return f" loc({names[alias]})" if alias in names else ""


def _named(text: str) -> tuple[Any, str]:
    module, _, name = text.partition(":")
    if not module or not name:
        raise ValueError(f"{text!r} is no module:function")
    return importlib.import_module(module), name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m importers.jax_trace",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("function", metavar="MODULE:FUNCTION")
    add("--example", default="example", metavar="NAME", help="what gives the arguments")
    add(
        "--parameters", default="0", metavar="PLACES",
        help="arguments that are parameters, such as 0 or 0,2; none if there are none",
    )  # fmt: skip
    add("--gradients", action="store_true", help="write the training step of a loss")
    add("--output", type=Path, default=Path("model.mlir"), metavar="FILE")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The command line; 2 for what the user must mend."""
    given = _parser().parse_args(words)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module, name = _named(given.function)
        found = getattr(module, given.example)
        arguments = found() if callable(found) else found
        places = [int(p) for p in given.parameters.split(",") if p not in {"", "none"}]
        text = traced(getattr(module, name), arguments, places, gradients=given.gradients)
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    given.output.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
