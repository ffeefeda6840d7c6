"""Generators of examples, one for every kind of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.operators.example import Maker
from tests.operators.examples.attention import ATTENTION
from tests.operators.examples.elementwise import ELEMENTWISE
from tests.operators.examples.experts import EXPERTS
from tests.operators.examples.images import IMAGES
from tests.operators.examples.indexing import INDEXING
from tests.operators.examples.products import PRODUCTS
from tests.operators.examples.quantised import QUANTISED
from tests.operators.examples.recurrent import RECURRENT
from tests.operators.examples.shape import SHAPE
from tests.operators.examples.statistics import STATISTICS

__all__ = ["EXAMPLES"]

EXAMPLES: Mapping[str, Maker] = MappingProxyType(
    {
        **ATTENTION,
        **ELEMENTWISE,
        **EXPERTS,
        **IMAGES,
        **INDEXING,
        **PRODUCTS,
        **QUANTISED,
        **RECURRENT,
        **SHAPE,
        **STATISTICS,
    }
)
