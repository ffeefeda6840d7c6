"""Ranges of sizes that an ONNX file gives to its open dimensions.

ONNX knows names of dimensions alone. A name may be followed by what `--bind` takes, such as
`batch=Symbol(divisor=8, max=64)` or `seq=128..4096/128`; or the property `bind` of the model's
metadata says it of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx

from importers.errors import ModelError

PROPERTY = "bind"
"""Key in `metadata_props`."""
_ITEM = re.compile(
    r"\s*([^=,()]{1,200}?)\s*=\s*(Symbol\s*\([^()]{0,200}\)|\d[\d./+]{0,60})\s*(?:,|$)"
)


def take_ranges(model: onnx.ModelProto) -> dict[str, str]:
    """Cut the ranges off the names of dimensions; returns them by name.

    Raises:
        ModelError: two differ, or the property is none.
    """
    found: dict[str, str] = {}
    for name, text, where in (*_of_property(model), *_of_dimensions(model)):
        if found.setdefault(name, text) != text:
            what = f"dimension {name!r} is {found[name][:80]} and {text[:80]}"
            raise ModelError(what, where, "give it one range")
    return found


def ranges_in(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Names of dimensions and their ranges in the text of a property.

    Raises:
        ModelError: something in it is no such.
    """
    if _ITEM.sub("", text).strip():
        fix = "write such as batch=Symbol(divisor=8, max=64), seq=128..4096/128"
        raise ModelError(f"{text[:80]!r} binds no dimension", where, fix)
    yield from ((m[1], m[2]) for m in _ITEM.finditer(text))


def _of_property(model: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    for each in model.metadata_props:
        if each.key == PROPERTY:
            where = f"property {PROPERTY!r} of the model"
            yield from ((name, text, where) for name, text in ranges_in(each.value, where))


def _of_dimensions(model: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    graph = model.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            told = _ITEM.fullmatch(dim.dim_param) if "=" in dim.dim_param else None
            if told is not None:
                dim.dim_param = told[1]
                yield told[1], told[2], f"tensor {value.name!r}"
