"""Mixture of experts in its grouped form: tokens sorted by expert, one product per expert, and
back.

The load is taken as balanced: every expert has the same number of token slots.
"""

from __future__ import annotations

from ir.ops.registry import Engine, Needs, OpView, operator
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single


def dispatch_rule(view: OpView) -> ShardingRule:
    """`n ..., n -> e c ...`: a slice of the tokens becomes a slice of every expert's slots.

    A split of the experts leaves the gradient of the tokens partial; from split slots to split
    experts is an all-to-all.
    """
    builder = RuleBuilder()
    result = view.result()
    e, c = builder.factor(result[0]), builder.factor(result[1])
    rest = builder.factors(result[2:])
    index: FactorMap | None = ((c,), *((),) * (len(view.dims(1)) - 1)) if view.has(1) else None
    return builder.build([single([c, *rest]), index], [single([e, c, *rest])])


def combine_rule(view: OpView) -> ShardingRule:
    """`e c ... -> n ...`: split experts leave a partial sum."""
    builder = RuleBuilder()
    dims = view.dims(0)
    e, c = builder.factor(dims[0]), builder.factor(dims[1])
    rest = builder.factors(dims[2:])
    index: FactorMap | None = ((c,), *((),) * (len(view.dims(1)) - 1)) if view.has(1) else None
    return builder.build([single([e, c, *rest]), index], [single([c, *rest])])


def expert_matmul_rule(view: OpView) -> ShardingRule:
    """`e c h 1, e f h -> e c f 1`, or `e c 1 h, e h f -> e c 1 f` where `row` is set."""
    builder = RuleBuilder()
    tokens, weight = view.dims(0), view.dims(1)
    row = bool(view.int("row"))
    e, c = builder.factor(tokens[0]), builder.factor(tokens[1])
    h = builder.factor(weight[1] if row else weight[2])
    f = builder.factor(weight[2] if row else weight[1])
    if row:
        return builder.build(
            [((e,), (c,), (), (h,)), ((e,), (h,), (f,))],
            [((e,), (c,), (), (f,))],
            order=(e, c, h, f),
        )
    return builder.build(
        [((e,), (c,), (h,), ()), ((e,), (f,), (h,))], [((e,), (c,), (f,), ())], order=(e, c, h, f)
    )


@operator("Dispatch", rule=dispatch_rule, differentiable=(0,))
@operator("Combine", rule=combine_rule, differentiable=(0,))
def _permute_flops(_: OpView) -> int:
    return 0


@operator(
    "ExpertMatMul",
    rule=expert_matmul_rule,
    engine=Engine.MATRIX,
    needs=Needs.OTHERS,
    parameter_operands=(1,),
)
def expert_matmul_flops(view: OpView) -> int:
    """Two operations per token slot, row and column of one expert's weight."""
    tokens, weight = view.dims(0), view.dims(1)
    return 2 * tokens[0] * tokens[1] * weight[1] * weight[2]
