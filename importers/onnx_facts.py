"""What is known of the tensors of an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx

from importers.onnx_checks import captured, check_dims, dtype_name
from importers.onnx_values import Array

STANDARD_DOMAINS = frozenset({"", "ai.onnx"})


@dataclass(slots=True)
class TensorFacts:
    """What is known of the tensors of a graph while it is walked."""

    dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: dict[str, str] = field(default_factory=dict)
    code: dict[str, int] = field(default_factory=dict)
    value: dict[str, Array] = field(default_factory=dict)
    part: dict[str, Array] = field(default_factory=dict)
    """Integers of which some are known, the others NaN: coordinates that stand side by side."""
    constant: set[str] = field(default_factory=set)
    """Tensors that follow from constants alone."""
    weights: set[str] = field(default_factory=set)
    """Stored tensors whose numbers are not needed."""
    filled: set[str] = field(default_factory=set)
    """Results of ConstantOfShape with floating type: stand-ins for weights in stripped models."""

    def learn(self, name: str, dims: tuple[int, ...], code: int) -> None:
        """Enter a tensor.

        Raises:
            ModelError: a size that cannot be, or a type that ONNX does not have.
        """
        check_dims(dims, f"tensor {name!r}")
        self.dims[name] = dims
        self.code[name] = code
        self.dtype[name] = dtype_name(code, f"tensor {name!r}")


def reads_of(node: onnx.NodeProto) -> Sequence[str]:
    """Operands, and what sub-graphs read."""
    return [n for n in node.input if n] + captured(node)
