"""Sizes that are known only when the model runs: what decides them, and what `--bind` may say.

A size may be bound by the name of its tensor and axis, `y.0`. An input of one whole number or truth
value may be bound to a value, such as the number of rounds of a Loop or the condition of an If.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from importers.errors import EXAMPLE_SIZE, ModelError, bind_option
from importers.onnx_checks import captured, describe
from importers.onnx_values import Array

_WHOLE = {
    getattr(onnx.TensorProto, name)
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}
_TRUTH = onnx.TensorProto.BOOL
_DECIDED_BY: Mapping[str, tuple[int, ...]] = {"If": (0,), "Loop": (0, 1), "Reshape": (1,)}
"""Operands on which the size of a result depends, where these are not all."""
_MOST_NAMED = 4


def value_inputs(model: onnx.ModelProto) -> dict[str, int]:
    """Inputs of one whole number or truth value, with their element types."""
    stored = {t.name for t in model.graph.initializer}
    dimensions = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim}
    return {
        value.name: value.type.tensor_type.elem_type
        for value in model.graph.input
        if value.name not in stored | dimensions
        and all(d.dim_value == 1 for d in value.type.tensor_type.shape.dim)
        and value.type.tensor_type.elem_type in {*_WHOLE, _TRUTH}
    }


def bound_value(value: int, code: int, dims: Sequence[int]) -> Array:
    """An input's value as an array."""
    return np.full(dims, value, helper.tensor_dtype_to_np_dtype(code))


def loop_types(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    dims: Mapping[str, tuple[int, ...]],
    value: Mapping[str, Array],
) -> Mapping[str, onnx.TypeProto]:
    """What a Loop makes, with more sizes than ONNX's inference tells.

    What it collects has as many rows as it has rounds, where these are known. What it carries has
    the sizes that it begins with, where its body says that they stay; the others are open.
    """
    body = next((a.g for a in node.attribute if a.name == "body"), None)
    if body is None:
        return types
    rounds, out = _rounds(node, body, value), dict(types)
    carried = list(node.input[2:])
    for place, name in enumerate(node.output):
        if name not in out or place + 1 >= len(body.output):
            continue
        known = onnx.TypeProto.FromString(out[name].SerializeToString())
        shape = known.tensor_type.shape
        if place >= len(carried) and rounds is not None and shape.dim:
            shape.dim[0].dim_value = rounds
        elif place < len(carried) and carried[place] in dims and not shape.dim:
            before, after = (side[place + at] for side, at in ((body.input, 2), (body.output, 1)))
            shape.CopyFrom(_staying(dims[carried[place]], before, after))
        out[name] = known
    return out


def _staying(
    dims: Sequence[int], before: onnx.ValueInfoProto, after: onnx.ValueInfoProto
) -> onnx.TensorShapeProto:
    """Sizes of a tensor that a Loop carries; those that its body may change are open."""
    given, made = (list(v.type.tensor_type.shape.dim) for v in (before, after))
    shape = onnx.TensorShapeProto()
    for axis, size in enumerate(dims):
        dim = shape.dim.add()
        if axis < len(made):
            named = axis < len(given) and made[axis].dim_param and made[axis] == given[axis]
            if named or made[axis].dim_value == size:
                dim.dim_value = size
    return shape


def _rounds(node: onnx.NodeProto, body: onnx.GraphProto, value: Mapping[str, Array]) -> int | None:
    """How often a Loop runs; `None` where that is open, or its condition may end it before."""
    if node.input[0] not in value or value[node.input[0]].size != 1:
        return None
    given = len(node.input) > 1 and node.input[1]
    if given and not (given in value and value[given].all()):
        return None
    if not body.output or not _goes_on(body):
        return None
    return max(0, int(value[node.input[0]].reshape(-1)[0]))


def _goes_on(body: onnx.GraphProto) -> bool:
    """Whether the condition that a body computes is the one that it was given, or true."""
    makers = {name: child for child in body.node for name in child.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if len(body.input) > 1 and name == body.input[1].name:
        return True
    stored = {t.name: t for t in body.initializer}
    if name in makers and makers[name].op_type == "Constant":
        stored[name] = next(a.t for a in makers[name].attribute if a.name == "value")
    return name in stored and bool(onnx.numpy_helper.to_array(stored[name]).all())


def unknown_size(
    node: onnx.NodeProto,
    tensor: str,
    sizes: Sequence[str],
    values: Mapping[str, Array],
    model: onnx.ModelProto,
) -> ModelError:
    """The error for a size that only a run tells, with the inputs that decide it.

    Args:
        node: what makes the tensor.
        tensor: its name.
        sizes: names of its open dimensions; none where not even their number is known.
        values: tensors whose values are known.
        model: the whole model.
    """
    places = _DECIDED_BY.get(node.op_type, range(len(node.input)))
    open_ones = [n for i in places if i < len(node.input) and (n := node.input[i]) not in values]
    deciding = [n for n in open_ones if n] or [n for n in node.input if n]
    inputs = _origins(deciding, model)
    unknown = [n for n in inputs if n not in values]
    named = ", ".join(repr(n) for n in inputs[:_MOST_NAMED]) + ", ..." * (len(inputs) > _MOST_NAMED)
    where = f"{describe(node)}: its size follows from {', '.join(map(repr, deciding))}"
    if inputs and inputs != deciding:
        where += f", and that from the input{'s' * (len(inputs) > 1)} {named}"
    return ModelError(
        f"the size of {tensor!r} cannot be known before the model runs",
        where,
        " or ".join(_ways(sizes, [] if _carried(node, tensor) else unknown, value_inputs(model))),
    )


def _carried(node: onnx.NodeProto, tensor: str) -> bool:
    """Whether a Loop hands a tensor from round to round: their number does not tell its size."""
    return node.op_type == "Loop" and tensor in node.output[: max(0, len(node.input) - 2)]


def _ways(sizes: Sequence[str], inputs: Sequence[str], values: Mapping[str, int]) -> list[str]:
    ways: list[str] = []
    if inputs and all(n in values for n in inputs):
        given = {n: "true" if values[n] == _TRUTH else EXAMPLE_SIZE for n in inputs}
        ways.append(f"give the value, such as {bind_option(given)},")
    if sizes:
        given = dict.fromkeys(sizes, EXAMPLE_SIZE)
        ways.append(f"give the size, such as {bind_option(given)},")
    return [*ways, "export with static shapes, or annotate the tensor in value_info"]


def _origins(names: Iterable[str], model: onnx.ModelProto) -> list[str]:
    """Inputs of the model from which tensors are computed, in the order of the model."""
    import networkx as nx  # noqa: PLC0415  a tenth of a second that only this error needs

    reads = ((node, (*node.input, *captured(node))) for node in model.graph.node)
    graph = nx.DiGraph(
        (name, made) for node, read in reads for name in read for made in node.output if made
    )
    graph.add_nodes_from(names := set(names))
    seen = names.union(*(nx.ancestors(graph, name) for name in names))
    stored = {t.name for t in model.graph.initializer}
    return [v.name for v in model.graph.input if v.name in seen and v.name not in stored]
