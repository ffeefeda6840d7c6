"""What operators compute, in names of numpy: executors run these functions, in an array library of
their own, and importers compute with them what follows from constants.

The entries of the catalogue name the functions. Kinds that no constant is made by are in
`executors.semantics`. Tests hold all to the results of ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from ir.ops import catalogue
from ir.semantics import constants, elementwise, indexing, shape, statistics
from ir.semantics.arrays import np
from ir.semantics.call import Semantics, applied

__all__ = ["OF_CONSTANTS", "named"]


def named(*modules: ModuleType) -> dict[str, Any]:
    """By kind what its entry names as what computes it, as far as these modules define that.

    A module of an executor defines the same names where its library has something better.
    """
    written = {
        name: each
        for module in modules
        for name, each in vars(module).items()
        if getattr(each, "__module__", "") == module.__name__
    }
    entries = catalogue().items()
    return {kind: written[each.semantics] for kind, each in entries if each.semantics in written}


def _in_numpy() -> Iterator[tuple[str, Semantics]]:
    for kind, entry in catalogue().items():
        if entry.function and entry.function.numpy:
            yield kind, applied(entry.function, getattr(np, entry.function.numpy))


OF_CONSTANTS: Mapping[str, Semantics] = MappingProxyType(
    dict(_in_numpy()) | named(constants, elementwise, indexing, shape, statistics)
)
"""Kinds that constants are made by."""
