"""What is known of an operator of ONNX Runtime, which ONNX has no schema of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from importers.onnx_node import Converter

MICROSOFT = "com.microsoft"
"""The domain."""
Known: TypeAlias = tuple[tuple[int, ...], int]
"""Dims and element type of a tensor."""
Operands: TypeAlias = Sequence[Known | None]
Inference: TypeAlias = Callable[[onnx.NodeProto, Operands], list[Known]]


@dataclass(frozen=True, slots=True)
class Foreign:
    """One kind."""

    convert: Converter | None = None
    """Makes operators of a node; None where it is one of the catalogue as it is."""
    infer: Inference | None = None
    """Dims and types of the results; None where the model notes them."""
    weights: tuple[int, ...] = ()
    """Operands that hold weights."""
    sample: str = ""
    """A typical node in ONNX's text, with `*` for the kind; empty where it keeps size and type."""
