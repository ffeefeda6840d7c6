"""The table of MindSpore's primitives: what each of them is in operators of ONNX.

A line has the primitive's name and its arguments in MindSpore's order, `as` what writes it calls
them: one of PyTorch's table, or a function of one of the files beside this one. Primitives of older
releases keep some of the arguments as attributes, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from importers.mindir.primitives_backward import BACKWARD
from importers.mindir.primitives_images import IMAGES
from importers.mindir.primitives_moves import MOVES
from importers.mindir.primitives_norms import NORMS
from importers.mindir.primitives_pointwise import POINTWISE
from importers.mindir.primitives_products import PRODUCTS
from importers.mindir.primitives_reductions import REDUCTIONS
from importers.traced.table import Entry, entries


@cache
def table() -> Mapping[str, Entry]:
    """All entries by primitive."""
    lines = entries((POINTWISE, PRODUCTS, MOVES, REDUCTIONS, NORMS, IMAGES, BACKWARD))
    return MappingProxyType({name: entry for _, name, _, entry in lines})
