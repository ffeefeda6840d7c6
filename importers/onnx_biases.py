"""A product, its factor, and the bias behind it, as operators of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from importers.onnx_node import NodeContext
from ir.graph import AttributeValue, Op, unused_name
from ir.ops import SCALE


def with_bias(
    context: NodeContext,
    product: Op,
    add: str,
    attributes: Mapping[str, AttributeValue],
    operand: int,
) -> list[Op]:
    """A product, and the addition of an operand if there is one."""
    if not context.has(operand):
        return [product]
    return followed(context, [product], add, context.node.input[operand], attributes)


def followed(
    context: NodeContext,
    ops: list[Op],
    add: str,
    bias: str,
    attributes: Mapping[str, AttributeValue],
    name: str = "bias",
) -> list[Op]:
    """Operators whose last one makes the result, and the addition of a bias behind them."""
    between = context.new_tensor("/product")
    last = ops[-1]
    sum_of = Op(
        f"{context.name}/{name}", add, (between, bias), last.outputs, attributes, context.scope
    )
    return [*ops[:-1], replace(last, outputs=(between,)), sum_of]


def scaled(context: NodeContext, product: Op, factor: float) -> list[Op]:
    """A product, and its factor if that is not one."""
    if factor == 1.0:
        return [product]
    between = context.new_tensor("/unscaled")
    name = f"{context.name}/scale"
    times = Op(name, SCALE, (between,), product.outputs, {"scale": factor}, context.scope)
    return [replace(product, outputs=(between,)), times]


def scaled_operand(context: NodeContext, operand: str, factor: float) -> tuple[list[Op], str]:
    """An operand times a factor, and its name."""
    if factor == 1.0:
        return [], operand
    facts = context.facts
    name = unused_name(f"{context.node.output[0]}/scaled", facts.dims)
    facts.learn(name, facts.dims[operand], facts.code[operand])
    own = f"{context.name}/bias_scale"
    return [Op(own, SCALE, (operand,), (name,), {"scale": factor}, context.scope)], name
