"""Element-wise operators: one factor per dimension of the result, operands aligned right."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, operator
from ir.rule import FactorMap, RuleBuilder, ShardingRule


def aligned_map(dims: tuple[int, ...], result: tuple[int, ...], factors: list[int]) -> FactorMap:
    """Factors of an operand that broadcasts to `result`; a stretched dimension carries none."""
    shift = len(result) - len(dims)
    if shift < 0:
        raise ValueError(f"an operand {list(dims)} does not broadcast to {list(result)}")
    return tuple(
        (factors[shift + i],) if d == result[shift + i] else () for i, d in enumerate(dims)
    )


def pointwise_rule(view: OpView) -> ShardingRule:
    """Rule of an operator that treats every element alike, with NumPy broadcasting."""
    builder = RuleBuilder()
    result = view.result()
    factors = builder.factors(result)
    operands = [None if t is None else aligned_map(t.dims, result, factors) for t in view.inputs]
    return builder.build(operands, [aligned_map(t.dims, result, factors) for t in view.outputs])


def like_rule(view: OpView) -> ShardingRule:
    """A pointwise rule whose second operand gives its type, or one number, and has no layout."""
    builder = RuleBuilder()
    result = view.result()
    factors = builder.factors(result)
    others = [None] * (len(view.op.inputs) - 1)
    return builder.build(
        [aligned_map(view.dims(0), result, factors), *others],
        [aligned_map(t.dims, result, factors) for t in view.outputs],
    )


def bias_add_rule(view: OpView) -> ShardingRule:
    """`x: n c ..., bias: c -> n c ...`; the attribute `axis` says which dimension the bias has."""
    builder = RuleBuilder()
    factors = builder.factors(view.result())
    data: FactorMap = tuple((f,) for f in factors)
    return builder.build([data, ((factors[view.int("axis", 1)],),)], [data])


def _elements(view: OpView) -> int:
    return view.outputs[0].elements


@operator(
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Sqrt",
    "Reciprocal",
    rule=pointwise_rule,
    broadcasts=True,
    needs=Needs.RESULT,
    fusible=True,
)
def _from_result_flops(view: OpView) -> int:
    return _elements(view)


@operator(
    "Gelu", "HardSwish", "HardSigmoid", "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign", "Erf",
    "Log", "Abs", "Cos", "Sin", "Clip", "Swish", "Mish", "Celu", "ThresholdedRelu", "Tan", "Atan",
    "Sinh", "Cosh", "Asin", "Acos", "Asinh", "Acosh", "Atanh",
    "QuickGelu", "Shrink",
    rule=pointwise_rule, broadcasts=True, needs=Needs.ITSELF, differentiable=(0,), fusible=True,
)  # fmt: skip
def _from_operand_flops(view: OpView) -> int:
    return 4 * _elements(view)


@operator(
    "BiasGelu", "FastGelu",
    rule=pointwise_rule, broadcasts=True, needs=Needs.OPERANDS, fusible=True,
    parameter_operands=(1,),
)  # fmt: skip
def _biased_flops(view: OpView) -> int:
    """A bias is added first where there is one."""
    return 5 * _elements(view)


@operator(
    "Add",
    "Sub",
    "Sum",
    "Mean",
    "Neg",
    "Identity",
    "Cast",
    rule=pointwise_rule,
    broadcasts=True,
    fusible=True,
)
def _linear_flops(view: OpView) -> int:
    return _elements(view) * max(1, len(view.op.inputs) - 1)


@operator("CastLike", "Dropout", rule=like_rule, differentiable=(0,), fusible=True)
def _first_operand_linear_flops(view: OpView) -> int:
    return _elements(view)


@operator("BiasAdd", rule=bias_add_rule, parameter_operands=(1,), fusible=True)
def _bias_add_flops(view: OpView) -> int:
    return _elements(view)


@operator("Mul", rule=pointwise_rule, broadcasts=True, needs=Needs.OTHERS, fusible=True)
def _mul_flops(view: OpView) -> int:
    return _elements(view)


@operator(
    "Div",
    "Pow",
    "Max",
    "Min",
    "PRelu",
    "Mod",
    rule=pointwise_rule,
    broadcasts=True,
    needs=Needs.OPERANDS,
    fusible=True,
)
def _nonlinear_binary_flops(view: OpView) -> int:
    return _elements(view)


@operator(
    "Where",
    rule=pointwise_rule,
    broadcasts=True,
    needs=Needs.FIRST,
    differentiable=(1, 2),
    fusible=True,
)
def _where_flops(view: OpView) -> int:
    return _elements(view)


@operator(
    "And", "Or", "Xor", "Not", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN",
    "IsInf", "Sign", "Floor", "Ceil", "Round", "BitwiseAnd", "BitwiseOr", "BitwiseNot",
    "BitwiseXor", "BitShift", "BitCast",
    rule=pointwise_rule, broadcasts=True, differentiable=(), fusible=True,
)  # fmt: skip
def _no_gradient_flops(view: OpView) -> int:
    return _elements(view)
