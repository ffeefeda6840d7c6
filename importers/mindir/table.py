"""The table of MindSpore's primitives: what each of them is in operators of ONNX.

A line has the primitive's name and its arguments in MindSpore's order, `as` what writes it calls
them: one of PyTorch's table, or a function of one of the files beside this one. Primitives of older
releases keep some of the arguments as attributes, under the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from importers.mindir.primitives_backward import BACKWARD
from importers.mindir.primitives_images import IMAGES
from importers.mindir.primitives_moves import MOVES
from importers.mindir.primitives_norms import NORMS
from importers.mindir.primitives_pointwise import POINTWISE
from importers.mindir.primitives_products import PRODUCTS
from importers.mindir.primitives_reductions import REDUCTIONS
from importers.torch_export.call import Converter

_LINE = re.compile(r"(\w+)\(([\w, ]*)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a primitive."""

    target: str
    parameters: tuple[str, ...]
    """As MindSpore calls them, in its order."""
    names: Mapping[str, str]
    """What the converter calls a parameter."""
    convert: Converter


def _entries() -> Iterator[Entry]:
    for lines in (POINTWISE, PRODUCTS, MOVES, REDUCTIONS, NORMS, IMAGES, BACKWARD):
        for line, convert in lines.items():
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"no line: {line}")
            pairs = [p.split(" as ") for p in match[2].split(", ") if p]
            names = {pair[0].strip(): pair[-1].strip() for pair in pairs}
            yield Entry(match[1], tuple(names), MappingProxyType(names), convert)


@cache
def table() -> Mapping[str, Entry]:
    """All entries by primitive."""
    return MappingProxyType({entry.target: entry for entry in _entries()})
