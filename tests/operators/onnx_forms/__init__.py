"""Operators as ONNX nodes, by kind. A kind that is not listed is one node as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.onnx_form import Writer
from executors.semantics import onnx_forms as own
from tests.operators.onnx_forms.attention import ATTENTION
from tests.operators.onnx_forms.elementwise import ELEMENTWISE
from tests.operators.onnx_forms.ends import ENDS
from tests.operators.onnx_forms.images import IMAGES
from tests.operators.onnx_forms.products import PRODUCTS
from tests.operators.onnx_forms.quantised import QUANTISED
from tests.operators.onnx_forms.shape import SHAPE
from tests.operators.onnx_forms.statistics import STATISTICS

__all__ = ["FORMS"]

FORMS: Mapping[str, Writer] = MappingProxyType(
    {
        **ATTENTION,
        **IMAGES,
        **PRODUCTS,
        **QUANTISED,
        **STATISTICS,
        **ELEMENTWISE,
        **ENDS,
        **SHAPE,
        "AffineGrid": own.affine_grid,
        "DFT": own.dft,
        "MaxUnpool": own.max_unpool,
        **dict.fromkeys(("Resize", "Upsample"), own.resize),
        "TensorScatter": own.tensor_scatter,
    }
)
