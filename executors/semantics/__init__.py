"""What operators compute: the functions of `ir.semantics`, and those of kinds that no constant is
made by.

Tests hold these functions to the results of ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.semantics import (
    attention,
    convolution,
    ends,
    experts,
    images,
    losses,
    normalisations,
    products,
    quantised,
    recurrent,
    reference_maps,
    sampling,
)
from ir.semantics import OF_CONSTANTS, named
from ir.semantics.call import Semantics

__all__ = ["SEMANTICS"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **OF_CONSTANTS,
        **named(
            attention, convolution, ends, experts, images, losses, normalisations, products,
            quantised, recurrent, reference_maps, sampling,
        ),
    }
)  # fmt: skip
