"""How long operators take on one chip: docs/operator-times.md."""

from costmodel.operators.attention import AttentionRates, AttentionShape, fused_attention_s
from costmodel.operators.constants import (
    Basis,
    ChipConstants,
    attention_kernels,
    attention_rates,
    chip_constants,
    generation_of,
    units_of,
)
from costmodel.operators.matmul import MatmulRates, matmul_s
from costmodel.operators.model import OperatorModel
from costmodel.operators.sizes import FloatArray, Sizes

__all__ = [
    "AttentionRates",
    "AttentionShape",
    "Basis",
    "ChipConstants",
    "FloatArray",
    "MatmulRates",
    "OperatorModel",
    "Sizes",
    "attention_kernels",
    "attention_rates",
    "chip_constants",
    "fused_attention_s",
    "generation_of",
    "matmul_s",
    "units_of",
]
