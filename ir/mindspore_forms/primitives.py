"""Operators as the primitives that MindSpore runs for them: names, inputs, device matrices.

Source: MindSpore 2.7.0, `frontend/parallel/ops_info`: the names are those that have an `...Info`
class there, the device matrices are what its `InferDevMatrixShape` makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from types import MappingProxyType
from typing import TypeVar

from ir.graph import Tensor
from ir.mindspore_forms.foreign_kinds import primitive_of
from ir.ops import OpView, annotation, catalogue, lookup
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

    results: tuple[FactorMap, ...] = ()
    """For each result the factors that cut every dimension."""

    tensors: tuple[FactorMap, ...] = ()
    """The same of each input, where its strategy is not that of its own dimensions."""


def primitive_form(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """The primitive of an operator, or of a part of a composite.

    Args:
        view: the operator.
        rule: its rule, in the factors that the plan assigns axes to.
    """
    form: PrimitiveForm = globals()[lookup(view.op.kind).primitive_form or "_plain"](view, rule)
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
    results = tuple(mapping or () for mapping in rule.results)
    return PrimitiveForm(
        name=PRIMITIVES.get(view.op.kind, "") or _own_name(view),
        inputs=inputs,
        dims=tuple(dims for dims, _ in present),
        device_matrix=_matrix(rule, inputs, results),
        looked_up=rule.lookup,
        results=results,
    )


def _own_name(view: OpView) -> str:
    """The name of a primitive that is no operator of ONNX, where its rule is known."""
    return primitive_of(view.op.kind) if annotation(view.op) else ""


def _matrix(
    rule: ShardingRule, inputs: Sequence[FactorMap], results: Sequence[FactorMap]
) -> tuple[tuple[int, ...], ...]:
    """One axis for each dimension of the input or the result that has all factors in their order,
    those without a factor too; else one axis for each factor.
    """
    found = {factor for mapping in inputs for dim in mapping for factor in dim}
    ordered = [f for f in dict.fromkeys(rule.order or range(len(rule.sizes))) if f in found]
    for mapping in (*inputs[:1], *results[:1], *inputs[1:]):
        if [dim[0] for dim in mapping if dim] == ordered and all(len(dim) < 2 for dim in mapping):
            return mapping
    return tuple((factor,) for factor in ordered)


def product(view: OpView, rule: ShardingRule) -> PrimitiveForm:
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
    (result,) = plain.results
    if len(data_dims) > 2:
        data, data_dims = (rows, inner), (math.prod(data_dims[:-1]), data_dims[-1])
    return replace(
        plain,
        inputs=(data, weight),
        dims=(data_dims, weight_dims),
        device_matrix=(rows, inner, columns),
        results=((_joined(result[:-1]), result[-1]),),
    )


def whole_product(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """A product of more than matrices whose first operand is not flattened: `BatchMatMul`."""
    plain = _plain(view, rule)
    (data, weight), ((*rest, last),) = plain.inputs, plain.results
    inner = data[-2] if view.int("trans_a") else data[-1]
    name = "BatchMatMul" if len(data) > 2 and len(weight) > 1 else ""
    return replace(plain, name=name, device_matrix=(*rest, inner, last))


def _joined(dims: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(factor for dim in dims for factor in dim)


def expert_product(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`BatchMatMul` over the experts; the dimension of size 1 that exporters add is not there."""
    plain = _plain(view, rule)
    (tokens, weight), (tokens_dims, weight_dims) = plain.inputs, plain.dims
    unit = 2 if view.int("row") else 3
    kept = [d for d in range(len(tokens)) if d != unit]
    return replace(
        plain,
        inputs=(tuple(tokens[d] for d in kept), weight),
        dims=(tuple(tokens_dims[d] for d in kept), weight_dims),
        results=(tuple(plain.results[0][d] for d in kept),),
    )


def convolution(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """Images, channels, at most two dimensions of positions, channels of the result."""
    return _convolution(_plain(view, rule), 0, {4: "Conv2D", 5: "Conv3D"})


def transposed_convolution(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """The same; the channels of the result are the second dimension of the weight."""
    return _convolution(_plain(view, rule), 1, {4: "Conv2DTranspose"})


def _convolution(plain: PrimitiveForm, made: int, names: Mapping[int, str]) -> PrimitiveForm:
    data, weight = plain.inputs
    channels = tuple(f for f in weight[made] if f not in data[1])
    return replace(plain, name=names.get(len(data), ""), device_matrix=(*data[:4], channels))


def pool(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """One axis for each dimension of the image; the stride behind its positions is no axis."""
    plain = _plain(view, rule)
    return replace(plain, device_matrix=plain.inputs[0])


def layer_norm(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`LayerNorm` always takes a bias; the cell makes one of zeros where the model has none."""
    plain = _plain(view, rule)
    if len(plain.inputs) != 2:
        return plain
    return replace(
        plain, inputs=(*plain.inputs, plain.inputs[1]), dims=(*plain.dims, plain.dims[1])
    )


def alike(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """Primitives whose inputs have one shape; where an operand broadcasts, a network has others."""
    plain = _plain(view, rule)
    return plain if len(set(plain.dims)) == 1 else replace(plain, name="")


def pair(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """Primitives of exactly two inputs."""
    plain = _plain(view, rule)
    return plain if len(plain.inputs) == 2 else replace(plain, name="")


def single(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """Primitives of exactly one input."""
    plain = _plain(view, rule)
    return plain if len(plain.inputs) == 1 else replace(plain, name="")


def slopes(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`PReLU` has a slope for each channel, in a vector."""
    plain = _plain(view, rule)
    (data, slope), (data_dims, slope_dims) = plain.inputs, plain.dims
    channel = len(slope_dims) - len(data_dims) + 1
    if len(data_dims) < 2 or channel < 0 or math.prod(slope_dims) != data_dims[1] != 1:
        return replace(plain, name="")
    if slope_dims[channel] != data_dims[1]:
        return replace(plain, name="")
    return replace(plain, inputs=(data, (slope[channel],)), dims=(data_dims, data_dims[1:2]))


def one_hot(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """The strategy is that of the result; both values are whole, and the new axis comes last in
    the device matrix. Indices of more than a vector need it last in the result too.
    """
    plain = _plain(view, rule)
    indices, (result,) = plain.inputs[0], plain.results
    axis = view.int("axis", len(indices))
    last = axis == len(indices)
    return replace(
        plain,
        name="OneHot" if last or len(indices) == 1 else "",
        inputs=(result, (), ()),
        dims=(view.result(), (), ()),
        tensors=(indices, (), ()),
        device_matrix=(*indices, result[axis]),
    )


def regions(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """The number of its image stands before the corners of each region."""
    plain = _plain(view, rule)
    data, regions = plain.inputs[:2]
    count = plain.dims[1][0]
    return replace(
        plain,
        inputs=(data, regions),
        dims=(plain.dims[0], (count, 5)),
        device_matrix=(*data[:2], regions[0]),
    )


def samples(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`GridSampler2D` is of images; volumes have no such primitive."""
    plain = _plain(view, rule)
    return plain if len(plain.inputs[0]) == 4 else replace(plain, name="")


def triangle(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`Triu` keeps what is above a diagonal, `Tril` what is below."""
    return replace(single(view, rule), name="Triu" if view.int("upper", 1) else "Tril")


def shift(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """A primitive for either direction."""
    names = {"LEFT": "LeftShift", "RIGHT": "RightShift"}
    name = names.get(str(view.op.attributes.get("direction")), "")
    return replace(_plain(view, rule), name=name)


def scatter(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """A primitive for each reduction; the device matrix is that of the data."""
    name = _SCATTERS.get(str(view.op.attributes.get("reduction", "none")), "")
    plain = _plain(view, rule)
    return replace(plain, name=name, device_matrix=plain.inputs[0])


_SCATTERS = MappingProxyType(
    {
        "none": "TensorScatterUpdate",
        "add": "TensorScatterAdd",
        "mul": "TensorScatterMul",
        "max": "TensorScatterMax",
        "min": "TensorScatterMin",
    }
)
"""By what becomes of two updates of one place."""


def norm(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`L2Normalize` takes the sum of squares."""
    return replace(_plain(view, rule), name="L2Normalize" if view.int("p", 2) == 2 else "")


def gather_nd(view: OpView, rule: ShardingRule) -> PrimitiveForm:
    """`GatherNd` has no batch dimensions."""
    plain = _plain(view, rule)
    name = "" if view.int("batch_dims") else plain.name
    return replace(plain, name=name, device_matrix=plain.inputs[1])


PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {kind: entry.primitive for kind, entry in catalogue().items() if entry.primitive}
)
"""MindSpore's primitive for each kind that has one.

`Reshape` is left out on purpose: MindSpore refuses a strategy for it.
"""
