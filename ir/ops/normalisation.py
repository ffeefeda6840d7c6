"""Normalisations: their statistics are internal collectives of the operator."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, operator
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single

MEAN_VARIANCE_EPSILON = 1e-9
"""Added to the deviation. Source: ONNX, function body of MeanVarianceNormalization."""


def rms_norm_rule(view: OpView) -> ShardingRule:
    """As a layer normalisation, with the mean square alone."""
    return _norm_rule(view, statistics=1)


def layer_norm_rule(view: OpView) -> ShardingRule:
    """`x: n ... h ..., scale: h ..., bias: h ...`: mean and variance over the dimensions from
    `axis` on.
    """
    return _norm_rule(view, statistics=2)


def _norm_rule(view: OpView, statistics: int) -> ShardingRule:
    """Numbers of statistics for each row, exchanged forward and as many backward."""
    builder = RuleBuilder()
    dims, axis = view.dims(0), view.int("axis", len(view.dims(0)) - 1)
    factors = builder.factors(dims)
    outer, inner = tuple(factors[:axis]), tuple(factors[axis:])
    builder.internal.append(
        InternalCollective(inner, outer, forward=statistics, backward=statistics)
    )
    builder.uncut.update(inner)
    data = single(factors)
    operands: list[FactorMap | None] = [data]
    for index in range(1, len(view.op.inputs)):
        if not view.has(index):
            operands.append(None)
            continue
        own = view.dims(index)
        shift = len(dims) - len(own)
        operands.append(
            tuple((factors[shift + i],) if d == dims[shift + i] else () for i, d in enumerate(own))
        )
    moments: FactorMap = tuple((f,) if i < axis else () for i, f in enumerate(factors))
    return builder.build(operands, [data, *[moments] * (len(view.outputs) - 1)])


def batch_norm_rule(view: OpView) -> ShardingRule:
    """Statistics over all but the channel, as in training: two numbers per channel forward, two
    backward. A tensor of one dimension has one channel.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    channel = tuple(factors[1:2])
    others = tuple(f for f in factors if f not in channel)
    if view.int("training", 1):
        builder.internal.append(InternalCollective(others, channel, forward=2, backward=2))
    vectors: list[FactorMap | None] = [
        (channel,) if view.has(i) else None for i in range(1, len(view.op.inputs))
    ]
    extra: list[FactorMap | None] = [(channel,)] * (len(view.outputs) - 1)
    return builder.build([single(factors), *vectors], [single(factors), *extra])


def lp_norm_rule(view: OpView) -> ShardingRule:
    """One norm for each line along `axis`."""
    return _over(view, (view.int("axis", len(view.dims(0)) - 1),), statistics=1)


def mean_variance_rule(view: OpView) -> ShardingRule:
    """Mean and variance over `axes`."""
    return _over(view, view.ints("axes", (0, 2, 3)), statistics=2)


def _over(view: OpView, axes: tuple[int, ...], statistics: int) -> ShardingRule:
    """Statistics over some axes of the only operand, exchanged forward and as many backward."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    inner = tuple(factors[a] for a in axes)
    outer = tuple(f for f in factors if f not in inner)
    builder.internal.append(
        InternalCollective(inner, outer, forward=statistics, backward=statistics)
    )
    builder.uncut.update(inner)
    return builder.build([single(factors)], [single(factors)])


def instance_norm_rule(view: OpView) -> ShardingRule:
    """Statistics over the positions of one image and channel."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.internal.append(
        InternalCollective(tuple(factors[2:]), tuple(factors[:2]), forward=2, backward=2)
    )
    vectors: list[FactorMap | None] = [
        ((factors[1],),) if view.has(i) else None for i in range(1, len(view.op.inputs))
    ]
    return builder.build([single(factors), *vectors], [single(factors)])


def group_norm_rule(view: OpView) -> ShardingRule:
    """Channels and positions of one image stay whole."""
    builder = RuleBuilder()
    dims = view.dims(0)
    factors = [builder.factor(d, locked=i > 0) for i, d in enumerate(dims)]
    vectors: list[FactorMap | None] = [
        ((),) if view.has(i) else None for i in range(1, len(view.op.inputs))
    ]
    return builder.build([single(factors), *vectors], [single(factors)])


def local_response_rule(view: OpView) -> ShardingRule:
    """A window over channels: the channel stays whole."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.locked.add(factors[1])
    return builder.build([single(factors)], [single(factors)])


@operator(
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    rule=rms_norm_rule,
    needs=Needs.ITSELF,
    differentiable=(0, 1),
    parameter_operands=(1,),
)
@operator(
    "LayerNormalization",
    rule=layer_norm_rule,
    needs=Needs.ITSELF,
    differentiable=(0, 1, 2),
    parameter_operands=(1, 2),
)
@operator(
    "BatchNormalization",
    rule=batch_norm_rule,
    needs=Needs.ITSELF,
    differentiable=(0, 1, 2),
    parameter_operands=(1, 2),
    buffer_operands=(3, 4),
)
@operator(
    "InstanceNormalization",
    rule=instance_norm_rule,
    needs=Needs.ITSELF,
    differentiable=(0, 1, 2),
    parameter_operands=(1, 2),
)
@operator(
    "GroupNormalization",
    rule=group_norm_rule,
    needs=Needs.ITSELF,
    differentiable=(0, 1, 2),
    parameter_operands=(1, 2),
)
@operator("LpNormalization", rule=lp_norm_rule, needs=Needs.ITSELF)
@operator("MeanVarianceNormalization", rule=mean_variance_rule, needs=Needs.ITSELF)
def _normalisation_flops(view: OpView) -> int:
    return 8 * view.outputs[0].elements


@operator("LRN", rule=local_response_rule, needs=Needs.OPERANDS_AND_RESULT)
def _local_response_flops(view: OpView) -> int:
    return view.outputs[0].elements * (2 * view.int("size", 5) + 4)
