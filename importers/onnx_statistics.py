"""Statistics, losses and recurrent networks: what their operators are, whatever the opset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from importers.onnx_node import NodeContext
from ir.graph import AttributeValue, Op

Converter = Callable[[NodeContext], list[Op]]

_USUAL_ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
)
_NETWORK_ATTRIBUTES = (
    "direction", "hidden_size", "layout", "activation_alpha", "activation_beta", "clip",
    "input_forget", "linear_before_reset",
)  # fmt: skip


def kept(context: NodeContext, *keys: str) -> dict[str, AttributeValue]:
    """Attributes of the node that it has."""
    found: dict[str, AttributeValue] = {}
    for key in keys:
        value = context.attributes.get(key)
        if isinstance(value, int | float | str):
            found[key] = value
        elif isinstance(value, list | tuple) and value:
            found[key] = tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return found


def _with(*keys: str, default: int | None = None) -> Converter:
    """The node with more of its attributes, and its axis if it has one."""

    def convert(context: NodeContext) -> list[Op]:
        more = kept(context, *keys)
        if default is not None:
            more["axis"] = context.axis(default)
        return [_marked(context.same()[0], more)]

    return convert


def _marked(op: Op, attributes: dict[str, AttributeValue]) -> Op:
    return replace(op, attributes={**op.attributes, **attributes})


def _batch_norm(context: NodeContext) -> list[Op]:
    """Statistics of the batch are results of the training form alone, of which the stored ones
    of opset 14 are the first; before it a node with them is in training.
    """
    named = sum(1 for n in context.node.output if n)
    trains = context.int("training_mode", 0) if context.opset >= 14 else int(named > 1)
    if not trains:
        op = context.same()[0]
        return [replace(op, outputs=op.outputs[:1])]
    op = _marked(context.same(training_mode=1)[0], kept(context, "momentum"))
    return [replace(op, outputs=op.outputs[:3])]


def _scan(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axis") or (0,)
    return context.same(1, axis=context.normal(axes[:1], len(context.dims()))[0])


def _mean_variance(context: NodeContext) -> list[Op]:
    axes = context.normal(context.attribute_ints("axes") or (0, 2, 3), len(context.dims()))
    return context.same(axes=tuple(sorted(set(axes))))


def _network(context: NodeContext) -> list[Op]:
    """Functions are named only where they are not the usual ones."""
    attributes = kept(context, *_NETWORK_ATTRIBUTES)
    functions = kept(context, "activations").get("activations", ())
    names = tuple(str(n).lower() for n in functions) if isinstance(functions, tuple) else ()
    usual = _USUAL_ACTIVATIONS[context.kind]
    if names and names not in {usual, usual * 2}:
        attributes["activations"] = names
    inputs = list(context.node.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    return [context.op(context.kind, inputs, attributes)]


STATISTICS: Mapping[str, Converter] = MappingProxyType(
    {
        **dict.fromkeys(("ArgMax", "ArgMin"), _with("select_last_index", default=0)),
        "LpNormalization": _with("p", default=-1),
        "LRN": _with("bias"),
        "MeanVarianceNormalization": _mean_variance,
        "BatchNormalization": _batch_norm,
        **dict.fromkeys(("CumSum", "CumProd"), _scan),
        **dict.fromkeys(
            ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
            _with("ignore_index", "reduction"),
        ),
        **dict.fromkeys(_USUAL_ACTIVATIONS, _network),
    }
)
