"""Statistics, losses and recurrent networks: what their operators are, whatever the opset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from importers.onnx_node import NodeContext
from importers.parameters import parametrised
from ir.graph import AttributeValue, Op

_USUAL_ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
)
_NETWORK_ATTRIBUTES = (
    "direction", "hidden_size", "layout", "activation_alpha", "activation_beta", "clip",
    "input_forget", "linear_before_reset",
)  # fmt: skip


@parametrised
def _with(context: NodeContext, *keys: str, default: int | None = None) -> list[Op]:
    """The node with more of its attributes, and its axis if it has one."""
    more = context.kept(*keys)
    if default is not None:
        more["axis"] = context.axis(default)
    return [_marked(context.same()[0], more)]


def _marked(op: Op, attributes: dict[str, AttributeValue]) -> Op:
    return replace(op, attributes={**op.attributes, **attributes})


def batch_norm(context: NodeContext) -> list[Op]:
    """Statistics of the batch are results of the training form alone, of which the stored ones
    of opset 14 are the first; before it a node with them is in training.
    """
    named = sum(1 for n in context.node.output if n)
    trains = context.int("training_mode", 0) if context.opset >= 14 else int(named > 1)
    if not trains:
        op = context.same()[0]
        return [replace(op, outputs=op.outputs[:1])]
    op = _marked(context.same(training_mode=1)[0], context.kept("momentum"))
    return [replace(op, outputs=op.outputs[:3])]


def scan(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axis") or (0,)
    return context.same(1, axis=context.normal(axes[:1], len(context.dims()))[0])


def mean_variance(context: NodeContext) -> list[Op]:
    axes = context.normal(context.attribute_ints("axes") or (0, 2, 3), len(context.dims()))
    return context.same(axes=tuple(sorted(set(axes))))


def recurrent(context: NodeContext) -> list[Op]:
    """Functions are named only where they are not the usual ones."""
    attributes = context.kept(*_NETWORK_ATTRIBUTES)
    functions = context.attributes.get("activations")
    listed = functions if isinstance(functions, list) else []
    names = tuple((f.decode() if isinstance(f, bytes) else str(f)).lower() for f in listed)
    usual = _USUAL_ACTIVATIONS[context.kind]
    if names and names not in {usual, usual * 2}:
        attributes["activations"] = names
    inputs = list(context.node.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    return [context.op(context.kind, inputs, attributes)]


place = _with("select_last_index", default=0)
lp_norm = _with("p", default=-1)
local_response = _with("bias")
class_loss = _with("ignore_index", "reduction")
