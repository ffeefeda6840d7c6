"""Operators as the primitives that MindSpore runs for them: names, inputs, device matrices.

Source: MindSpore 2.7.0, `frontend/parallel/ops_info`: the names are those that have an `...Info`
class there, the device matrices are what its `InferDevMatrixShape` makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from types import MappingProxyType
from typing import TypeVar

from ir.graph import Tensor
from ir.ops import OpView
from ir.rule import FactorMap, ShardingRule

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PrimitiveForm:
    """One primitive; factors are those of the sharding rule of the planned operator."""

    name: str
    """MindSpore's name; empty if it has none that takes a strategy."""

    inputs: tuple[FactorMap, ...]
    """For each tensor input the factors that cut every dimension; parameters as they are stored."""

    dims: tuple[tuple[int, ...], ...]
    """Dims of each input, as the primitive sees them."""

    device_matrix: tuple[tuple[int, ...], ...]
    """Factors of every axis, outermost first; what repeats the operator comes after them."""

    looked_up: frozenset[int] = frozenset()
    """Factors of a table's rows; if these are cut, the repetition may come first instead."""


def primitive_form(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """The primitive of an operator, or of a part of a composite.

    Args:
        view: the operator.
        rule: its rule, in the factors that the plan assigns axes to.
    """
    form = _FORMS.get(view.op.kind, _plain)(view, rule)
    inputs, dims = list(form.inputs), list(form.dims)
    for index, tensor in enumerate(t for t in view.inputs if t is not None):
        if tensor.stored_permutation:
            inputs[index] = as_stored(inputs[index], tensor)
            dims[index] = as_stored(dims[index], tensor)
    return replace(form, inputs=tuple(inputs), dims=tuple(dims))


def as_stored(values: tuple[_T, ...], tensor: Tensor) -> tuple[_T, ...]:
    """Values for each dimension of a parameter, in the order of the dimensions in its file.

    >>> as_stored((8, 2, 4), Tensor("w", (8, 2, 4), "float32", stored_permutation=(2, 0, 1)))
    (2, 4, 8)
    """
    places = tensor.stored_permutation or tuple(range(len(values)))
    return tuple(value for _, value in sorted(zip(places, values, strict=True), key=itemgetter(0)))


def _plain(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """One axis for each factor of the inputs, one input for each operand."""
    present = [
        (tensor.dims, mapping if mapping is not None else ((),) * len(tensor.dims))
        for tensor, mapping in zip(view.inputs, rule.operands, strict=True)
        if tensor is not None
    ]
    inputs = tuple(mapping for _, mapping in present)
    ordered = rule.order or range(len(rule.sizes))
    found = {factor for mapping in inputs for dim in mapping for factor in dim}
    return PrimitiveForm(
        name=PRIMITIVES.get(view.op.kind, ""),
        inputs=inputs,
        dims=tuple(dims for dims, _ in present),
        device_matrix=tuple((factor,) for factor in dict.fromkeys(ordered) if factor in found),
        looked_up=rule.lookup,
    )


def _product(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`MatMul` for matrices, `BatchMatMul` for more.

    A matrix as second operand makes it `MatMul` too: `nn.Dense` flattens what comes before.
    """
    plain = _plain(view, rule)
    if any(len(dims) < 2 for dims in plain.dims):
        return replace(plain, name="")
    (data, weight), (data_dims, weight_dims) = plain.inputs, plain.dims
    if len(weight_dims) > 2 or (len(data_dims) > 2 and view.int("trans_a")):
        return replace(plain, name="BatchMatMul")
    inner = data[-2] if view.int("trans_a") else data[-1]
    rows = data[-1] if view.int("trans_a") else _joined(data[:-1])
    columns = weight[0] if view.int("trans_b") else weight[1]
    if len(data_dims) > 2:
        data, data_dims = (rows, inner), (math.prod(data_dims[:-1]), data_dims[-1])
    return replace(
        plain,
        inputs=(data, weight),
        dims=(data_dims, weight_dims),
        device_matrix=(rows, inner, columns),
    )


def _joined(dims: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(factor for dim in dims for factor in dim)


def _expert_product(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`BatchMatMul` over the experts; the dimension of size 1 that exporters add is not there."""
    plain = _plain(view, rule)
    (tokens, weight), (tokens_dims, weight_dims) = plain.inputs, plain.dims
    unit = 2 if view.int("row") else 3
    kept = [d for d in range(len(tokens)) if d != unit]
    return replace(
        plain,
        inputs=(tuple(tokens[d] for d in kept), weight),
        dims=(tuple(tokens_dims[d] for d in kept), weight_dims),
    )


def _convolution(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """Images, input channels, output channels; positions are never cut here."""
    plain = _plain(view, rule)
    data, weight = plain.inputs
    rank = len(data)
    names = {"Conv": {4: "Conv2D", 5: "Conv3D"}, "ConvTranspose": {4: "Conv2DTranspose"}}
    factors = dict.fromkeys((*data[0], *data[1], *_joined(weight)))
    return replace(
        plain,
        name=names[view.op.kind].get(rank, ""),
        device_matrix=tuple((factor,) for factor in factors),
    )


def _layer_norm(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`LayerNorm` always takes a bias; the cell makes one of zeros where the model has none."""
    plain = _plain(view, rule)
    if len(plain.inputs) != 2:
        return plain
    return replace(
        plain, inputs=(*plain.inputs, plain.inputs[1]), dims=(*plain.dims, plain.dims[1])
    )


_FORMS: Mapping[str, Callable[[OpView, ShardingRule], PrimitiveForm]] = MappingProxyType(
    {
        "Conv": _convolution,
        "ConvTranspose": _convolution,
        "ExpertMatMul": _expert_product,
        "LayerNormalization": _layer_norm,
        "MatMul": _product,
    }
)

PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {
        **{
            kind: kind
            for kind in (
                "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BiasAdd", "Cast",
                "Concat", "Cos", "Cosh", "CumSum", "Dropout", "Elu", "Erf", "Exp", "Gather",
                "Identity", "Log", "LogSoftmax", "MatMul", "MaxPool", "Mish", "Mod", "Mul", "Neg",
                "Pow", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
                "ReduceSum", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Split",
                "Sqrt", "Squeeze", "Sub", "Tan", "Tanh", "Tile", "TopK", "Transpose",
            )
        },
        "ArgMax": "Argmax",
        "ArgMin": "Argmin",
        "AveragePool": "AvgPool",
        "BatchNormalization": "BatchNorm",
        "Div": "RealDiv",
        "Expand": "BroadcastTo",
        "ExpertMatMul": "BatchMatMul",
        "FastGelu": "FastGeLU",
        "GatherElements": "GatherD",
        "GatherND": "GatherNd",
        "Gelu": "GeLU",
        "GroupNormalization": "GroupNorm",
        "HardSigmoid": "HSigmoid",
        "LayerNormalization": "LayerNorm",
        "Max": "Maximum",
        "Min": "Minimum",
        "Pad": "PadV3",
        "PRelu": "PReLU",
        "RMSNormalization": "RmsNorm",
        "Relu": "ReLU",
        "Selu": "SeLU",
        "SimplifiedLayerNormalization": "RmsNorm",
        "Slice": "StridedSlice",
        "Sum": "AddN",
        "Swish": "SiLU",
        "Unsqueeze": "ExpandDims",
        "Where": "Select",
    }
)  # fmt: skip
"""MindSpore's primitive for each kind that has one.

`Reshape` is left out on purpose: MindSpore refuses a strategy for it.
"""
