"""What operators compute, in names of numpy: executors run these functions, in an array library of
their own, and importers compute with them what follows from constants.

The entries of the catalogue name the functions. Kinds that no constant is made by are in
`executors.semantics`. Tests hold all to the results of ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ir.ops import catalogue
from ir.semantics import constants, elementwise, indexing, shape, statistics
from ir.semantics.arrays import np
from ir.semantics.call import Semantics, applied

__all__ = ["OF_CONSTANTS"]

_MODULES = (constants, elementwise, indexing, shape, statistics)


def _named() -> Iterator[tuple[str, Semantics]]:
    written = {f"{m.__name__.rpartition('.')[2]}.{name}": each for m in _MODULES
               for name, each in vars(m).items()}  # fmt: skip
    for kind, entry in catalogue().items():
        if entry.semantics:
            yield kind, written[entry.semantics]
        elif entry.function and entry.function.numpy:
            yield kind, applied(entry.function, getattr(np, entry.function.numpy))


OF_CONSTANTS: Mapping[str, Semantics] = MappingProxyType(dict(_named()))
"""Kinds that constants are made by."""
