"""What operators compute: the functions of `ir.semantics`, and those of kinds that no constant is
made by.

Tests hold these functions to the results of ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.semantics.attention import ATTENTION
from executors.semantics.convolution import CONVOLUTION
from executors.semantics.ends import ENDS
from executors.semantics.experts import EXPERTS
from executors.semantics.images import IMAGES
from executors.semantics.losses import LOSSES
from executors.semantics.normalisations import NORMALISATIONS
from executors.semantics.products import PRODUCTS
from executors.semantics.quantised import QUANTISED
from executors.semantics.recurrent import RECURRENT
from executors.semantics.reference_maps import REARRANGED
from ir.semantics import OF_CONSTANTS
from ir.semantics.call import Semantics

__all__ = ["SEMANTICS"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **OF_CONSTANTS,
        **ATTENTION,
        **ENDS,
        **EXPERTS,
        **LOSSES,
        **NORMALISATIONS,
        **PRODUCTS,
        **CONVOLUTION,
        **IMAGES,
        **QUANTISED,
        **REARRANGED,
        **RECURRENT,
    }
)
