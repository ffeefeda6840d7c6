"""Which stored numbers of a model are trained, and which are inline constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx

from importers.onnx_contrib import OPERATORS
from importers.onnx_foreign import MICROSOFT
from importers.onnx_values import Array
from ir.ops import catalogue, lookup
from ir.ops.shape import REARRANGED

_INLINE_CONSTANT_ELEMENTS = 4
BUFFER_NAMES = re.compile(
    r"running_(mean|var)|inv_freq|num_batches_tracked|position_ids|e_score_correction_bias"
)
"""Stored numbers that exporters keep beside the weights and nobody trains."""

_WEIGHT_OPERANDS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "Gemm": (1, 2),
        **{
            kind: (*each.parameter_operands, each.bias_operand)
            for kind, each in catalogue().items()
            if each.bias_operand
        },
    }
)
"""Operands that hold weights of kinds that the importer takes apart; the others are in the
catalogue.
"""


def weight_uses(graph: onnx.GraphProto) -> set[str]:
    """Tensors that some operator uses as a weight, also after a transpose or a cast."""
    uses: set[str] = set()
    for node in reversed(graph.node):
        for index in _weight_operands(node):
            if index < len(node.input):
                uses.add(node.input[index])
        if node.op_type in REARRANGED and node.input and node.output[0] in uses:
            uses.add(node.input[0])
    return uses


def _weight_operands(node: onnx.NodeProto) -> tuple[int, ...]:
    foreign = OPERATORS.get(node.op_type) if node.domain == MICROSOFT else None
    if foreign is not None and foreign.weights:
        return foreign.weights
    return _WEIGHT_OPERANDS.get(node.op_type, lookup(node.op_type).parameter_operands)


def is_plain(name: str, value: Array | None) -> bool:
    """Whether a stored floating array that no operator uses as a weight is a constant, not a
    parameter.

    Parameters carry a module path or are a vector (a scale, a bias); exporters store positions,
    masks and fillings inline under names of their own, or under known buffer names.
    """
    if BUFFER_NAMES.search(name):
        return True
    if value is None or "." in name:
        return False
    with np.errstate(all="ignore"):
        steps = np.diff(value.reshape(-1).astype(np.float64))
        regular = bool(np.all(steps == steps[:1]))
    return value.size <= _INLINE_CONSTANT_ELEMENTS or value.ndim > 1 or regular
