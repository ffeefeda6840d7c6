"""The file that `planner export --format mindspore-apply` writes, read back; it is never run.

Its tables are constants of Python: cuts by cell and primitive, in the order of the network, and for
primitives of the network's own the mesh axes that cut each dimension.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from exporters.errors import StrategyFileError
from ir.violations import Violation

Cuts: TypeAlias = tuple[int, ...]
Strategy: TypeAlias = tuple[Cuts, ...]
_FIX = "pass the file as planner export --format mindspore-apply writes it"


@dataclass(frozen=True, slots=True)
class AppliedStrategies:
    """What the file says."""

    devices: int
    inputs: Strategy
    strategies: Mapping[str, Mapping[str, tuple[Strategy, ...]]]
    """By the path of a cell and the name of a primitive: cuts of the inputs of each of them."""
    custom: Mapping[str, Mapping[str, tuple[Strategy, ...]]]
    """The same of primitives that MindSpore does not know, as cuts of what the axes cut."""


def from_python(text: str) -> AppliedStrategies:
    """The tables in the text of a file.

    Raises:
        StrategyFileError: it is no Python, or has no such tables.
    """
    found = _constants(text)
    missing = [name for name in ("DEVICES", "DATASET_STRATEGY", "STRATEGIES") if name not in found]
    if missing:
        raise _fault(f"it has no {missing[0]}", "the module")
    devices = found["DEVICES"]
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise _fault(f"{str(devices)[:40]} is no number of devices", "DEVICES")
    sizes = _sizes(found.get("AXES", ()))
    return AppliedStrategies(
        devices=devices,
        inputs=_strategy(found["DATASET_STRATEGY"], "DATASET_STRATEGY"),
        strategies=_table(found["STRATEGIES"], "STRATEGIES", None),
        custom=_table(found.get("CUSTOM", {}), "CUSTOM", sizes),
    )


def _constants(text: str) -> dict[str, object]:
    try:
        module = ast.parse(text)
        return {
            each.targets[0].id: ast.literal_eval(each.value)
            for each in module.body
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and each.targets[0].id.isupper()
            and not isinstance(each.value, ast.Call)
        }
    except SyntaxError as error:
        raise _fault("it is no Python", f"line {error.lineno}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _fault("a table holds more than constants", "the module") from error


def _table(
    value: object, where: str, sizes: Mapping[str, int] | None
) -> dict[str, dict[str, tuple[Strategy, ...]]]:
    out: dict[str, dict[str, tuple[Strategy, ...]]] = {}
    for cell, kinds in _items(value, where):
        for kind, wanted in _items(kinds, f"{where}, cell {cell!r}"):
            place = f"{where}, cell {cell!r}, {kind}"
            if not isinstance(wanted, list):
                raise _fault("the strategies of a primitive are no list", place)
            made = (each if sizes is None else _as_cuts(each, sizes, place) for each in wanted)
            out.setdefault(cell, {})[kind] = tuple(_strategy(each, place) for each in made)
    return out


def _items(value: object, where: str) -> list[tuple[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _fault("it is no table by name", where)
    return list(value.items())


def _strategy(value: object, where: str) -> Strategy:
    """A tuple of tuples of positive numbers."""
    if not isinstance(value, tuple) or not all(isinstance(each, tuple) for each in value):
        raise _fault(f"{str(value)[:80]} is no tuple of tuples", where)
    for each in value:
        if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in each):
            raise _fault(f"{str(each)[:80]} are no numbers of pieces", where)
    return value


def _sizes(value: object) -> dict[str, int]:
    pairs = value if isinstance(value, tuple) else ()
    fits = all(
        isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) and isinstance(p[1], int)
        for p in pairs
    )
    if not fits:
        raise _fault("it is no list of names and sizes", "AXES")
    return dict(pairs)


def _as_cuts(value: Any, sizes: Mapping[str, int], where: str) -> Strategy:
    """Cuts of the inputs from the axes that cut them; the results follow."""
    try:
        inputs, _ = value
        return tuple(
            tuple(math.prod(sizes[axis] for axis in dim) for dim in tensor) for tensor in inputs
        )
    except (TypeError, ValueError, KeyError) as error:
        raise _fault(f"{str(value)[:80]} are no axes of inputs and results", where) from error


def _fault(what: str, where: str) -> StrategyFileError:
    return StrategyFileError(Violation(what, where, _FIX))
