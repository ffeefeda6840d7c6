"""Normalisations: their statistics are internal collectives of the operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ir.ops.elementwise import aligned_map
from ir.ops.registry import (
    Needs,
    OpView,
    RuleFunction,
    enter,
    forms,
    operator,
    per_result,
    primitives,
    show,
    spell,
    take_apart,
    write,
)
from ir.ops.spelling import Form, choices
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single

MEAN_VARIANCE_EPSILON = 1e-9
"""Added to the deviation. Source: ONNX, function body of MeanVarianceNormalization."""


def layer_norm_rule(view: OpView, statistics: int = 2) -> ShardingRule:
    """`x: n ... h ..., scale: h ..., bias: h ...`: mean and variance over the dimensions from
    `axis` on.
    """
    dims, axis = view.dims(0), view.int("axis", len(view.dims(0)) - 1)
    builder, factors = _statistics(view, range(len(dims))[axis:], statistics)
    data = single(factors)
    operands = [None if t is None else aligned_map(t.dims, dims, factors) for t in view.inputs[1:]]
    moments: FactorMap = tuple((f,) if i < axis else () for i, f in enumerate(factors))
    return builder.build([data, *operands], [data, *[moments] * (len(view.outputs) - 1)])


def _statistics(
    view: OpView, axes: Iterable[int], statistics: int
) -> tuple[RuleBuilder, list[int]]:
    """Factors of the first operand, with numbers of statistics over some of its axes, which are
    exchanged forward and as many backward.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    inner = tuple(factors[a] for a in axes)
    outer = tuple(f for f in factors if f not in inner)
    builder.internal.append(
        InternalCollective(inner, outer, forward=statistics, backward=statistics)
    )
    builder.uncut.update(inner)
    return builder, factors


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
    extra: list[FactorMap | None] = [(channel,)] * (len(view.outputs) - 1)
    return builder.build([single(factors), *_vectors(view, channel)], [single(factors), *extra])


def _vectors(view: OpView, channel: tuple[int, ...]) -> list[FactorMap | None]:
    """Maps of all operands but the first, which have a number for each channel."""
    return [None if t is None else (channel,) for t in view.inputs[1:]]


def rms_norm_rule(view: OpView) -> ShardingRule:
    """As a layer normalisation, with the mean square alone."""
    return layer_norm_rule(view, statistics=1)


def lp_norm_rule(view: OpView) -> ShardingRule:
    """One norm for each line along `axis`."""
    builder, factors = _statistics(view, (view.int("axis", len(view.dims(0)) - 1),), 1)
    return builder.build([single(factors)], [single(factors)])


def mean_variance_rule(view: OpView) -> ShardingRule:
    """Mean and variance over `axes`."""
    builder, factors = _statistics(view, view.ints("axes", (0, 2, 3)), 2)
    return builder.build([single(factors)], [single(factors)])


def instance_norm_rule(view: OpView) -> ShardingRule:
    """Statistics over the positions of one image and channel."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.internal.append(
        InternalCollective(tuple(factors[2:]), tuple(factors[:2]), forward=2, backward=2)
    )
    vectors = _vectors(view, (factors[1],))
    return builder.build([single(factors), *vectors], [single(factors)])


def group_norm_rule(view: OpView) -> ShardingRule:
    """Channels and positions of one image stay whole."""
    builder = RuleBuilder()
    dims = view.dims(0)
    factors = [builder.factor(d, locked=i > 0) for i, d in enumerate(dims)]
    return builder.build([single(factors), *_vectors(view, ())], [single(factors)])


def local_response_rule(view: OpView) -> ShardingRule:
    """A window over channels: the channel stays whole."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.locked.add(factors[1])
    return builder.build([single(factors)], [single(factors)])


_RULES: tuple[tuple[str, RuleFunction, tuple[int, ...], tuple[int, ...]], ...] = (
    ("RMSNormalization", rms_norm_rule, (1,), ()),
    ("SimplifiedLayerNormalization", rms_norm_rule, (1,), ()),
    ("LayerNormalization", layer_norm_rule, (1, 2), ()),
    ("BatchNormalization", batch_norm_rule, (1, 2), (3, 4)),
    ("InstanceNormalization", instance_norm_rule, (1, 2), ()),
    ("GroupNormalization", group_norm_rule, (1, 2), ()),
)
"""By kind its rule, operands that hold weights, and those that hold running statistics."""

LAYER_NORMS: Mapping[str, bool] = MappingProxyType(
    {"LayerNormalization": True, "RMSNormalization": False, "SimplifiedLayerNormalization": False}
)
"""Over the dimensions from an axis on, with a scale for each place; whether by their mean too."""

for _kind, _rule, _weights, _buffers in _RULES:
    enter(
        _kind, rule=_rule, flops=per_result(8), needs=Needs.ITSELF,
        differentiable=(0, *_weights), parameter_operands=_weights, buffer_operands=_buffers,
    )  # fmt: skip
enter("LpNormalization", rule=lp_norm_rule, flops=per_result(8), needs=Needs.ITSELF)
enter("MeanVarianceNormalization", rule=mean_variance_rule, flops=per_result(8), needs=Needs.ITSELF)


@operator("LRN", rule=local_response_rule, needs=Needs.OPERANDS_AND_RESULT, whole_at_any_size=True)
def _local_response_flops(view: OpView) -> int:
    return view.outputs[0].elements * (2 * view.int("size", 5) + 4)


_GROUPED = "input, num_groups, weight, bias, eps"
_NATIVE = "input, weight, bias, N, C, HxW, group as num_groups, eps"
_TRACKED = "running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled"
_MINDSPORE = "gamma as weight, beta as bias, mean, variance, epsilon as eps, momentum"

spell(
    Form.BY_CHANNEL,
    GroupNormalization=(
        f"group_norm({_GROUPED}, cudnn_enabled); native_group_norm({_NATIVE})",
        f"GroupNorm({_GROUPED})",
    ),
    InstanceNormalization=(
        f"instance_norm(input, weight, bias, {_TRACKED})",
        f"InstanceNorm(x as input, {_MINDSPORE})",
    ),
)

primitives(
    BatchNormalization="BatchNorm", GroupNormalization="GroupNorm",
    LayerNormalization="LayerNorm", RMSNormalization="RmsNorm",
    SimplifiedLayerNormalization="RmsNorm",
)  # fmt: skip
_CENTRED = "Sub(x, ReduceMean(x))"
_SPREAD = (
    f"ReduceMean(Mul({_CENTRED}, {_CENTRED}))",
    "Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x)))",
    "Max(Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x))), 0)",
    "Relu(Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x))))",
)
_SCALED = (
    "Mul(Mul({d}, Rsqrt(Add({v}, n_eps))), scale)", "Mul({d}, Mul(Rsqrt(Add({v}, n_eps)), scale))",
    "Mul(Div({d}, Sqrt(Add({v}, n_eps))), scale)",
)  # fmt: skip
_LAYER = tuple(e for s in _SCALED for e in choices(s, d=(_CENTRED,), v=_SPREAD))
_MEANT = "Sub(x, Reshape(mean))"

take_apart("LayerNormalization", *(f"Add({each}, bias)" for each in _LAYER), *_LAYER)
take_apart(
    "RMSNormalization",
    *(e for s in _SCALED for e in choices(s, d=("x",), v=("ReduceMean(Mul(x, x))",))),
)
take_apart(
    "BatchNormalization",
    f"Add(Mul(Mul({_MEANT}, Reshape(Rsqrt(Add(variance, n_eps)))), Reshape(scale)), Reshape(bias))",
    f"Add(Mul({_MEANT}, Reshape(Mul(Rsqrt(Add(variance, n_eps)), scale))), Reshape(bias))",
)
write(
    **dict.fromkeys(LAYER_NORMS, "layer_norm"), BatchNormalization="batch_norm",
    InstanceNormalization="instance_norm", LpNormalization="lp_norm",
    MeanVarianceNormalization="mean_variance", GroupNormalization="group_norm",
    LRN="local_response",
)  # fmt: skip
forms(LayerNormalization="layer_norm", LpNormalization="norm")
show(
    BatchNormalization="(float[2,4,6,8] x, float[4] s, float[4] b, float[4] m, float[4] v) => "
    "(y) {y = BatchNormalization(x, s, b, m, v)}",
    GroupNormalization="(float[2,12,6,8] x, float[12] s, float[12] b) => (float[2,12,6,8] y) {y "
    "= GroupNormalization<num_groups=4>(x, s, b)}",
    InstanceNormalization="(float[2,4,6,8] x, float[4] s, float[4] b) => (y) {y = "
    "InstanceNormalization(x, s, b)}",
    LRN="(float[2,4,6,8] x) => (y) {y = LRN<size=3>(x)}",
    LayerNormalization="(float[2,4,6] x, float[6] s, float[6] b) => (y) {y = "
    "LayerNormalization(x, s, b)}",
    MeanVarianceNormalization="(float[2,4,6,8] x) => (float[2,4,6,8] y) {y = "
    "MeanVarianceNormalization(x)}",
    RMSNormalization="(float[2,4,6] x, float[6] s) => (y) {y = RMSNormalization(x, s)}",
)  # fmt: skip
