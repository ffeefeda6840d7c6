"""One call of an operator on torch tensors: DTensors, or what one device has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ir.semantics.call import CallOf

Call: TypeAlias = CallOf[Any]
"""Dims of results are those of whole tensors where operands are DTensors, else of the part."""
Kernel: TypeAlias = Callable[[Call], list[Any]]
"""A kind of operator in torch."""
