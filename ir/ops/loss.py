"""The ends of a graph: a loss in training, a delivered result in inference."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, enter, no_flops, per_operand, write
from ir.rule import InternalCollective, RuleBuilder, ShardingRule, single

LOSS = "Loss"
OUTPUT = "Output"


def loss_rule(view: OpView) -> ShardingRule:
    """Softmax cross-entropy over the last dimension; the value is a partial sum of a scalar.

    A split last dimension (vocabulary) exchanges maximum, sum and target logit forward, nothing
    backward. Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    if len(factors) > 1:
        builder.internal.append(
            InternalCollective((factors[-1],), tuple(factors[:-1]), forward=3, backward=0)
        )
    return builder.build([single(factors)], [()])


def output_rule(view: OpView) -> ShardingRule:
    """Any layout, but no partial sum."""
    builder = RuleBuilder()
    return builder.build([single(builder.factors(view.dims(0)))], [])


enter(LOSS, rule=loss_rule, needs=Needs.ITSELF, flops=per_operand(6))


enter(OUTPUT, rule=output_rule, differentiable=(), touched_bytes=no_flops)


write(**{LOSS: "loss", OUTPUT: "output"})
