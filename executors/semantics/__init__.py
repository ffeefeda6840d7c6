"""What operators compute, in autograd's numpy, so that they can be differentiated.

Tests hold these functions to the results of ONNX's own reference operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.semantics.attention import ATTENTION
from executors.semantics.call import Semantics
from executors.semantics.constants import CONSTANTS
from executors.semantics.convolution import CONVOLUTION
from executors.semantics.elementwise import ELEMENTWISE
from executors.semantics.ends import ENDS
from executors.semantics.experts import EXPERTS
from executors.semantics.images import IMAGES
from executors.semantics.indexing import INDEXING
from executors.semantics.losses import LOSSES
from executors.semantics.normalisations import NORMALISATIONS
from executors.semantics.products import PRODUCTS
from executors.semantics.quantised import QUANTISED
from executors.semantics.recurrent import RECURRENT
from executors.semantics.shape import SHAPE
from executors.semantics.statistics import STATISTICS

__all__ = ["SEMANTICS"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **ATTENTION,
        **ELEMENTWISE,
        **ENDS,
        **SHAPE,
        **EXPERTS,
        **INDEXING,
        **LOSSES,
        **NORMALISATIONS,
        **PRODUCTS,
        **CONSTANTS,
        **CONVOLUTION,
        **IMAGES,
        **QUANTISED,
        **RECURRENT,
        **STATISTICS,
    }
)
