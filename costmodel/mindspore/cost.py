"""MindSpore's own cost of an operator under a strategy, in its units: weighted bytes of slices.

Its searches weigh the bytes that an operator touches forward (`alpha`) against the bytes that it
sends (`beta`), those of gradients of parameters at a discount (`gamma`). There is no arithmetic,
bandwidth, latency or topology in it.

Source: MindSpore 2.7.0, `frontend/parallel/auto_parallel/operator_costmodel.cc`, `costmodel.cc`,
and SetCostUnderStrategyBase of `frontend/parallel/ops_info/operator_info.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

FORBIDDEN = 1e16
"""Cost of what cannot be, large against any strategy. MindSpore's own number, 1e20, would take the
last digits of sums away.
"""
EPSILON = 1e-6
"""What counts as no communication."""
TIE_BREAK = 1.0
"""Taken off every cost of an operator whose first dimension is cut over all devices."""
TABLE_ROWS, TABLE_INDICES = 3.0, 7.0
"""Weights of a table and of its indices where the rows are cut."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The settings of `set_cost_model_context`, with their defaults for Ascend."""

    alpha: float = 1.0
    """Cost of a byte that is computed on."""
    beta: float = 400.0
    """Cost of a byte that is sent; 50 on GPUs."""
    gamma: float = 0.001
    """Share of the gradients of parameters that counts, from 0 to 1: the rest is hidden."""
    threshold: float = 2048.0
    """Bytes up to which a message costs as much as `least`."""
    least: float = 3072.0
    """Bytes that a small message counts as."""
    bias: float = 1024.0
    """Bytes on top of every larger message."""
    training: bool = True
    """The phase: in inference only what is sent forward counts."""


@dataclass(frozen=True, slots=True)
class Slices:
    """What one device has of the tensors of a primitive, under each of its C candidates."""

    inputs: tuple[FloatArray, ...]
    """Bytes of the slice of each tensor input, shape (C,)."""
    outputs: tuple[FloatArray, ...]
    pieces: tuple[FloatArray, ...]
    """Pieces that each input is cut into, shape (C,)."""
    trained: tuple[bool, ...]
    """Which inputs are parameters with a gradient."""
    summed: BoolArray
    """Where a dimension is cut that the result is a sum, or another reduction, over; (C,)."""
    rows: FloatArray
    """Pieces of the first dimension of the first input, shape (C,)."""
    devices: int
    second_dim: BoolArray
    """Where the second dimension of the first input is cut: the channel of an image; (C,)."""
    looked_up: BoolArray
    """Where the rows of a table are cut, shape (C,)."""

    def gradient_bytes(self, index: int) -> FloatArray:
        """Bytes of the gradient that is reduced for an input, shape (C,); none where no devices
        hold copies.
        """
        if not self.trained[index]:
            return np.zeros_like(self.rows)
        return np.where(self.pieces[index] == self.devices, 0.0, self.inputs[index])

    def gradients(self, count: int | None = None, start: int = 0) -> FloatArray:
        """The same of several inputs together."""
        places = range(start, len(self.inputs) if count is None else min(count, len(self.inputs)))
        return sum((self.gradient_bytes(i) for i in places), start=np.zeros_like(self.rows))

    def touched(self, count: int | None = None) -> FloatArray:
        """Bytes of the first inputs, or of all, shape (C,)."""
        return sum(self.inputs[:count], start=np.zeros_like(self.rows))


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of one device, before they are weighed; each of shape (C,)."""

    computed: FloatArray
    """Forward."""
    forward: FloatArray
    """Sent forward."""
    backward: FloatArray
    """Sent backward: gradients of parameters."""


Family: TypeAlias = Callable[[Slices], Bytes]


def _product(of: Slices) -> Bytes:
    """Both operands, and the result where it is a sum; the gradient of the second operand."""
    summed = np.where(of.summed, of.outputs[0], 0.0)
    return Bytes(of.touched(2) + summed, summed, of.gradient_bytes(1))


def _unary(of: Slices) -> Bytes:
    return Bytes(of.touched(1), np.zeros_like(of.rows), of.gradients(1))


def _by_result(of: Slices) -> Bytes:
    """Softmax and what derives from it are counted by their result."""
    return Bytes(of.outputs[0], np.zeros_like(of.rows), of.gradients(1))


def _pair(of: Slices) -> Bytes:
    return Bytes(of.touched(2), np.zeros_like(of.rows), of.gradients(2))


def _every_input(of: Slices) -> Bytes:
    return Bytes(of.touched(), np.zeros_like(of.rows), of.gradients())


def _batch_norm(of: Slices) -> Bytes:
    """It sends where channels are cut, which needs none, and not where images are."""
    sent = np.where(of.second_dim, of.inputs[0], 0.0)
    return Bytes(of.touched(), sent, of.gradients(start=1))


def _reduction(of: Slices) -> Bytes:
    sent = np.where(of.summed, of.outputs[0], 0.0)
    return Bytes(of.touched(1) + sent, sent, of.gradients(1))


def _mean(of: Slices) -> Bytes:
    """As a sum, and the quotient is computed on too."""
    found = _reduction(of)
    return Bytes(found.computed + found.forward, found.forward, found.backward)


def _gather(of: Slices) -> Bytes:
    """A table and its indices; where rows are cut every device sends what it finds."""
    table, indices = of.inputs[:2]
    weighed = table * TABLE_ROWS + indices * TABLE_INDICES
    computed = np.where(of.looked_up, weighed, table + indices)
    return Bytes(computed, np.where(of.looked_up, of.outputs[0], 0.0), of.gradients(2))


def _slopes(of: Slices) -> Bytes:
    return Bytes(of.touched(2), np.zeros_like(of.rows), of.gradient_bytes(1))


def _no_gradient(of: Slices) -> Bytes:
    return Bytes(of.touched(1), np.zeros_like(of.rows), np.zeros_like(of.rows))


def _reshape(of: Slices) -> Bytes:
    """The copy alone; moving slices before and after it is redistribution.

    Source: MindSpore 2.7.0, `tensor_redistribution.cc`, ComputeCost: twice the slice.
    """
    return Bytes(2.0 * of.touched(1), np.zeros_like(of.rows), of.gradients(1))


def _families(*groups: tuple[Family, str]) -> Mapping[str, Family]:
    return MappingProxyType({name: family for family, names in groups for name in names.split()})


FAMILIES: Mapping[str, Family] = _families(
    (_product, "MatMul BatchMatMul MatMulExt BatchMatMulExt TensorDot"),
    (
        _unary,
        """Abs ACos Acosh Asin Asinh Atan Atanh AvgPool Cast Ceil Concat Cos Cosh Elu Erf Exp
        ExpandDims FastGeLU Floor GeLU HSigmoid Identity Invert L2Normalize Log LogicalNot
        MaxPool Mish Neg ReLU Reciprocal Round SeLU Sigmoid Sign SiLU Sin Sinh Softplus Softsign
        Select Split Sqrt Squeeze StridedSlice Tan Tanh TopK Transpose Tril Triu""",
    ),
    (_by_result, "Softmax LogSoftmax CumSum CumProd Tile BroadcastTo"),
    (
        _pair,
        """Add AddN BiasAdd BitwiseAnd BitwiseOr BitwiseXor Equal GatherD GatherNd Greater
        GreaterEqual LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul Pow
        RealDiv RightShift Sub""",
    ),
    (_batch_norm, "BatchNorm"),
    (_reduction, "ReduceSum ReduceMax ReduceMin ReduceProd Argmax Argmin"),
    (_mean, "ReduceMean"),
    (_gather, "Gather"),
    (_slopes, "PReLU"),
    (_no_gradient, "OneHot"),
    (_reshape, "Reshape Flatten"),
)
"""Formula of each primitive; what is not here, convolutions and normalisations among them, counts
all of its inputs, as MindSpore does by default.
"""


def operator_bytes(primitive: str, slices: Slices) -> Bytes:
    """Bytes of a primitive under its candidates, before they are weighed."""
    return FAMILIES.get(primitive, _every_input)(slices)


def operator_cost(found: Bytes, rows: FloatArray, devices: int, weights: Weights) -> FloatArray:
    """What MindSpore minimises, for each candidate of an operator.

    Args:
        found: bytes of the candidates.
        rows: shape (C,), pieces of the first dimension of the first input.
        devices: of the stage.
        weights: what a byte costs.

    Returns:
        Shape (C,).
    """
    by_batch = rows == devices
    computed = _favoured(found.computed, by_batch)
    total = _favoured(found.forward + found.backward, by_batch)
    forward = _favoured(found.forward, by_batch)
    rest = total - forward
    backward = np.where(np.abs(rest) > EPSILON, rest, 0.0)
    sent = practical(forward, weights)
    if not weights.training:
        return weights.alpha * computed + weights.beta * sent
    return weights.alpha * computed + weights.beta * (sent + weights.gamma * backward)


def _favoured(nbytes: FloatArray, by_batch: BoolArray) -> FloatArray:
    """Ties go to splitting by batch over all devices."""
    return np.where(by_batch & (nbytes > TIE_BREAK), nbytes - TIE_BREAK, nbytes)


def practical(nbytes: FloatArray, weights: Weights) -> FloatArray:
    """Bytes of a message as they count: a small one costs a constant, a larger one a bias."""
    larger = np.where(nbytes > weights.threshold, nbytes + weights.bias, weights.least)
    return np.where(nbytes > EPSILON, larger, nbytes)
