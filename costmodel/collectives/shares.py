"""What all formulas have in common, of one group or of many at once: bytes that pass a port, and
steps.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from costmodel.collectives.curves import FloatArray

__all__ = ["doublings", "others"]

_Number = TypeVar("_Number", float, FloatArray)


def others(ranks: _Number) -> _Number:
    """(p - 1) / p: the share of a vector that is not one's own."""
    return (ranks - 1) / ranks


def doublings(ranks: _Number) -> _Number:
    """ceil(log2 p): steps after which all p ranks know of one another, exact for whole p."""
    exponent: _Number = np.frexp(ranks - 1)[1]
    return exponent
