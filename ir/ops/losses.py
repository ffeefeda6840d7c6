"""Losses that a model computes itself."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, enter, per_operand, show, write
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single


def divides_by_weights(view: OpView) -> bool:
    """Whether the mean is over weights that only the targets tell."""
    mean = view.op.attributes.get("reduction", "mean") == "mean"
    return mean and (view.has(2) or "ignore_index" in view.op.attributes)


def likelihood_rule(view: OpView) -> ShardingRule:
    """`x: n c ..., target: n ..., weight: c`: a device has the terms of its classes, others are
    zero. Every device holds all weights.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    return _loss_rule(view, builder, factors)


def cross_entropy_rule(view: OpView) -> ShardingRule:
    """As a negative log-likelihood; split classes exchange maximum, sum and the target's logit.

    Backward the sum is exchanged for the second result, the logarithms of the probabilities.
    Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    rows = (factors[0], *factors[2:])
    backward = len(view.outputs) - 1
    builder.internal.append(InternalCollective((factors[1],), rows, forward=3, backward=backward))
    return _loss_rule(view, builder, factors)


def _loss_rule(view: OpView, builder: RuleBuilder, factors: list[int]) -> ShardingRule:
    """A weighted mean exchanges the sum and that of the weights; any other sum stays partial."""
    rows = [factors[0], *factors[2:]]
    if divides_by_weights(view):
        builder.internal.append(InternalCollective(tuple(rows), (), forward=2, backward=0))
    each = view.op.attributes.get("reduction", "mean") == "none"
    weight: list[FactorMap | None] = [((),) if view.has(2) else None]
    operands = [single(factors), single(rows), *weight[: len(view.op.inputs) - 2]]
    loss = single(rows) if each else ()
    return builder.build(operands, [loss, *[single(factors)] * (len(view.outputs) - 1)])


enter(
    "NegativeLogLikelihoodLoss",
    rule=likelihood_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    flops=per_operand(2, 1),
)


enter(
    "SoftmaxCrossEntropyLoss",
    rule=cross_entropy_rule,
    needs=Needs.OPERANDS,
    differentiable=(0,),
    flops=per_operand(6),
)

CROSS_ENTROPY = "SoftmaxCrossEntropyLoss"
CLASS_LOSSES = ("NegativeLogLikelihoodLoss", CROSS_ENTROPY)
"""Of scores or their logarithms for each class, and the class of each row."""

write(**dict.fromkeys(CLASS_LOSSES, "class_loss"))
show(
    NegativeLogLikelihoodLoss="(float[4,6] x, int64[4] t) => (y) {y = "
    "NegativeLogLikelihoodLoss(x, t)}",
    SoftmaxCrossEntropyLoss="(float[4,6] x, int64[4] t) => (y) {y = SoftmaxCrossEntropyLoss(x, "
    "t)}",
)  # fmt: skip
