"""What operators compute, in names of numpy: executors run these functions, in an array library of
their own, and importers compute with them what follows from constants.

Kinds that no constant is made by are in `executors.semantics`. Tests hold all to the results of
ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ir.semantics.call import Semantics
from ir.semantics.constants import CONSTANTS
from ir.semantics.elementwise import ELEMENTWISE
from ir.semantics.indexing import INDEXING
from ir.semantics.shape import SHAPE
from ir.semantics.statistics import STATISTICS

__all__ = ["OF_CONSTANTS"]

OF_CONSTANTS: Mapping[str, Semantics] = MappingProxyType(
    {**CONSTANTS, **ELEMENTWISE, **INDEXING, **SHAPE, **STATISTICS}
)
"""Kinds that constants are made by."""
