"""Element-wise operators: one factor per dimension of the result, operands aligned right."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ir.ops.registry import (
    Needs,
    OpView,
    compute,
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
from ir.rule import FactorMap, RuleBuilder, ShardingRule

BIAS_ADD = "BiasAdd"
ARITHMETIC = ("Add", "Sub", "Mul", "Div")
COMMUTATIVE = frozenset(
    {
        "Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal", "BitwiseAnd",
        "BitwiseOr", "BitwiseXor",
    }
)  # fmt: skip
"""The order of the operands makes no difference."""
NEUTRAL: Mapping[str, float] = MappingProxyType(
    {
        "Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0, "And": 1.0, "Or": 0.0,
        "Max": float("-inf"), "Min": float("inf"),
    }
)  # fmt: skip
"""The second operand that leaves the first as it is."""
OF_FLAGS: Mapping[str, str] = MappingProxyType(
    {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
)
"""The logic that means the same of flags."""


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


_POINTWISE: tuple[tuple[Needs, tuple[int, ...] | None, int, tuple[str, ...]], ...] = (
    (Needs.RESULT, None, 1, ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal")),
    (Needs.ITSELF, (0,), 4, (
        "Gelu", "HardSwish", "HardSigmoid", "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign",
        "Erf", "Log", "Abs", "Cos", "Sin", "Clip", "Swish", "Mish", "Celu", "ThresholdedRelu",
        "Tan", "Atan", "Sinh", "Cosh", "Asin", "Acos", "Asinh", "Acosh", "Atanh", "QuickGelu",
        "Shrink",
    )),
    (Needs.OTHERS, None, 1, ("Mul",)),
    (Needs.OPERANDS, None, 1, ("Div", "Pow", "Max", "Min", "PRelu", "Mod")),
    (Needs.FIRST, (1, 2), 1, ("Where",)),
    (Needs.NOTHING, (), 1, (
        "And", "Or", "Xor", "Not", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
        "IsNaN", "IsInf", "Sign", "Floor", "Ceil", "Round", "BitwiseAnd", "BitwiseOr", "BitwiseNot",
        "BitwiseXor", "BitShift", "BitCast",
    )),
)  # fmt: skip
"""What gradients need, which operands have one, and FLOPs for each element, by kinds."""

COPIES = frozenset({"Cast", "Identity"})
"""Kinds whose result has the elements of their operand, each in its place."""
TESTS = frozenset({"IsNaN", "IsInf"})
"""Kinds that say of each element whether it is no finite number."""
BIASED_GELUS = {"BiasGelu": "none", "FastGelu": "tanh"}
"""Kinds that are the Gelu of data and a bias, and how it is approximated."""
SWISHES = {"Swish": 1.0, "QuickGelu": 1.702}
"""Kinds that are `x * sigmoid(slope * x)`, and the slope where the operator has no `alpha`."""

for _needs, _differentiable, _count, _kinds in _POINTWISE:
    enter(
        *_kinds, rule=pointwise_rule, flops=per_result(_count), needs=_needs,
        differentiable=_differentiable, broadcasts=True, fusible=True,
    )  # fmt: skip
# A bias is added first where there is one.
enter(
    *BIASED_GELUS, rule=pointwise_rule, flops=per_result(5), needs=Needs.OPERANDS,
    broadcasts=True, fusible=True, parameter_operands=(1,),
)  # fmt: skip
enter(
    "Dropout", rule=like_rule, flops=per_result(1), differentiable=(0,), fusible=True, draws=True,
)  # fmt: skip
enter(BIAS_ADD, rule=bias_add_rule, flops=per_result(1), parameter_operands=(1,), fusible=True)


@operator(
    "Add", "Sub", "Sum", "Mean", "Neg", "Identity", "Cast",
    rule=pointwise_rule, broadcasts=True, fusible=True,
)  # fmt: skip
def _linear_flops(view: OpView) -> int:
    return view.outputs[0].elements * max(1, len(view.op.inputs) - 1)


compute(
    1, Abs=("abs", "abs"), Acos=("arccos",), Acosh=("arccosh",), Asin=("arcsin",),
    Asinh=("arcsinh",), Atan=("arctan",), Atanh=("arctanh",), BitwiseNot=("invert",),
    Ceil=("ceil",), Cos=("cos", "cos"), Cosh=("cosh",), Erf=("", "erf"), Exp=("exp", "exp"),
    Floor=("floor", "floor"), IsInf=("isinf",), IsNaN=("isnan", "isnan"), Log=("log", "log"),
    Mish=("", "nn.functional.mish"), Neg=("negative", "neg"), Not=("logical_not", "logical_not"),
    Reciprocal=("reciprocal", "reciprocal"), Relu=("", "relu"), Round=("round",),
    Sigmoid=("", "sigmoid"), Sign=("sign", "sign"), Sin=("sin", "sin"), Sinh=("sinh",),
    Softplus=("", "nn.functional.softplus"), Sqrt=("sqrt", "sqrt"), Tan=("tan",),
    Tanh=("tanh", "tanh"),
)  # fmt: skip
compute(
    2, Add=("add", "add"), And=("logical_and", "logical_and"), BitwiseAnd=("bitwise_and",),
    BitwiseOr=("bitwise_or",), BitwiseXor=("bitwise_xor",), Div=(),
    Equal=("equal", "eq"), Greater=("greater", "gt"), GreaterOrEqual=("greater_equal", "ge"),
    Less=("less", "lt"), LessOrEqual=("less_equal", "le"), Max=("maximum", "maximum"),
    Min=("minimum", "minimum"), Mul=("multiply", "mul"), Or=("logical_or", "logical_or"),
    Pow=("power",), Sub=("subtract", "sub"), Sum=("add", "add"), Xor=("logical_xor",),
)  # fmt: skip
spell(
    Form.ONE,
    Abs=("abs", "Abs", "stablehlo.abs"),
    Acos=("acos", "ACos AcosExt", "chlo.acos"),
    Acosh=("acosh", "Acosh AcoshExt", "chlo.acosh"),
    Asin=("asin", "Asin AsinExt", "chlo.asin"),
    Asinh=("asinh", "Asinh AsinhExt", "chlo.asinh"),
    Atan=("atan", "Atan AtanExt", "chlo.atan"),
    Atanh=("atanh", "Atanh", "chlo.atanh"),
    Ceil=("ceil", "Ceil", "stablehlo.ceil"),
    Celu=("celu(self, alpha=1.0)", "CeLU(x as self, alpha=1.0)"),
    Cos=("cos", "Cos", "stablehlo.cosine"),
    Cosh=("cosh", "Cosh", "chlo.cosh"),
    Elu=("", "Elu(input_x as self, alpha=1.0); EluExt(input as self, alpha=1.0)"),
    Erf=("erf", "Erf", "chlo.erf"),
    Exp=("exp", "Exp", "stablehlo.exponential"),
    Floor=("floor", "Floor", "stablehlo.floor"),
    HardSwish=("hardswish", "HSwish"),
    LeakyRelu=(
        "leaky_relu(self, negative_slope as alpha=0.01)",
        "LeakyReLUExt(input as self, negative_slope as alpha=0.01)",
    ),
    Log=("log", "Log", "stablehlo.log"),
    Mish=("mish", "Mish(x as self); MishExt"),
    Neg=("neg", "Neg", "stablehlo.negate"),
    Reciprocal=("reciprocal", "Reciprocal; Inv(x as self)"),
    Relu=("relu", "ReLU"),
    Round=("round", "Rint(x as self)", "stablehlo.round_nearest_even"),
    Selu=("selu", "SeLU(input_x as self); SeLUExt"),
    Sigmoid=("sigmoid", "Sigmoid", "stablehlo.logistic"),
    Sign=("sign sgn", "Sign", "stablehlo.sign"),
    Sin=("sin", "Sin", "stablehlo.sine"),
    Sinh=("sinh", "Sinh", "chlo.sinh"),
    Softplus=("", "Softplus(x as self)"),
    Softsign=("", "Softsign(x as self)"),
    Sqrt=("sqrt", "Sqrt(x as self)", "stablehlo.sqrt"),
    Tan=("tan", "Tan", "stablehlo.tan chlo.tan"),
    Tanh=("tanh", "Tanh", "stablehlo.tanh"),
)
spell(
    Form.TWO,
    Max=("maximum max.other", "Maximum", "stablehlo.maximum"),
    Min=("minimum min.other", "Minimum", "stablehlo.minimum"),
    Mul=("mul.{Tensor,Scalar}", "Mul Muls", "stablehlo.multiply"),
)
spell(
    Form.SCALED,
    Add=(
        "add.{Tensor,Scalar}",
        "Add(input as self, other); AddExt AddScalar",
        "stablehlo.add(self, other)",
    ),
    Sub=(
        "sub.{Tensor,Scalar}",
        "Sub(input as self, other); SubExt SubScalar",
        "stablehlo.subtract(self, other)",
    ),
)
spell(Form.TEST, IsNaN=("isnan", "IsNan(x as self)"), IsInf=("isinf", "IsInf", "chlo.is_inf"))
spell(
    Form.COMPARISON,
    Equal=("eq.{Tensor,Scalar}", "Equal EqScalar"),
    Greater=("gt.{Tensor,Scalar}", "Greater"),
    GreaterOrEqual=("ge.{Tensor,Scalar}", "GreaterEqual GreaterEqualScalar"),
    Less=("lt.{Tensor,Scalar}", "Less LessScalar"),
    LessOrEqual=("le.{Tensor,Scalar}", "LessEqual"),
)
spell(Form.NOT, Not=("logical_not", "LogicalNot"))
spell(
    Form.LOGIC,
    And=("logical_and", "LogicalAnd(x as self, y as other)"),
    Or=("logical_or", "LogicalOr(x as self, y as other)"),
    Xor=("logical_xor", "LogicalXor"),
)
spell(Form.BITS, BitwiseNot=("bitwise_not", "BitwiseNot; Invert(x as self)", "stablehlo.not"))
spell(
    Form.BITWISE,
    BitwiseAnd=(
        "bitwise_and.{Tensor,Scalar} __and__.{Tensor,Scalar}",
        "BitwiseAnd(x as self, y as other); BitwiseAndTensor BitwiseAndScalar",
        "stablehlo.and",
    ),
    BitwiseOr=(
        "bitwise_or.{Tensor,Scalar} __or__.{Tensor,Scalar}",
        "BitwiseOr(x as self, y as other); BitwiseOrTensor BitwiseOrScalar",
        "stablehlo.or",
    ),
    BitwiseXor=(
        "bitwise_xor.{Tensor,Scalar} __xor__.{Tensor,Scalar}",
        "BitwiseXor(x as self, y as other); BitwiseXorTensor BitwiseXorScalar",
        "stablehlo.xor",
    ),
)

_ERF = (
    "Erfc(Mul(Neg(x), 0.70710678))", "Erfc(Neg(Mul(x, 0.70710678)))",
    "Add(1, Erf(Mul(x, 0.70710678)))", "Add(1, Erf(Div(x, 1.41421356)))",
    "Erfc(Div(Neg(x), 1.41421356))", "Erfc(Neg(Div(x, 1.41421356)))",
)  # fmt: skip
_TANH = choices(
    "Add(1, Tanh(Mul(0.79788456, Add(x, Mul(0.044715, {cube})))))",
    cube=("Mul(Mul(x, x), x)", "Pow(x, 3)"),
)
_HALF = ("Mul(Mul(0.5, x), {e})", "Mul(x, Mul(0.5, {e}))", "Mul(0.5, Mul(x, {e}))",
         "Div(Mul(x, {e}), 2)")  # fmt: skip
"""`0.5 * x * e` in every order of the factors."""

take_apart("Relu", "Max(x, 0)")
take_apart("Sigmoid", "Div(1, Add(1, Exp(Neg(x))))")
for _approximate, _inner in (("none", _ERF), ("tanh", tuple(_TANH))):
    _every = (each for half in _HALF for each in choices(half, e=_inner))
    take_apart("Gelu", *_every, approximate=_approximate)

write(
    Relu="relu", Sigmoid="logistic", Gelu="gaussian", HardSwish="hard_swish",
    HardSigmoid="hard_sigmoid", Elu="elu", Celu="celu", Selu="selu", LeakyRelu="leaky_relu",
    PRelu="p_relu", ThresholdedRelu="thresholded_relu", Shrink="shrink", Mish="mish",
    Softplus="softplus", Softsign="softsign", Erf="error", Clip="clip", Identity="same",
    Cast="cast", Dropout="dropout", Div="quotient", Mod="remainder", Mean="mean",
    IsInf="is_infinite", Where="where", BiasAdd="bias_add",
    **dict.fromkeys(BIASED_GELUS, "biased_gaussian"), **dict.fromkeys(SWISHES, "swish"),
)  # fmt: skip
primitives(
    "Abs", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", BIAS_ADD, "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Cos", "Cosh", "Dropout", "Elu", "Equal", "Erf",
    "Exp", "Floor", "Greater", "Identity", "Less", "Log", "Mish", "Mod", "Mul", "Neg", "Pow",
    "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Sub", "Tan", "Tanh", Acos="ACos", And="LogicalAnd", BitwiseNot="Invert", Div="RealDiv",
    FastGelu="FastGeLU", Gelu="GeLU", GreaterOrEqual="GreaterEqual", HardSigmoid="HSigmoid",
    LessOrEqual="LessEqual", Max="Maximum", Min="Minimum", Not="LogicalNot", Or="LogicalOr",
    PRelu="PReLU", Relu="ReLU", Selu="SeLU", Sum="AddN", Swish="SiLU", Where="Select",
)  # fmt: skip
forms(
    Max="pair", Min="pair", PRelu="slopes", Where="alike", Sum="alike", BitShift="shift",
    FastGelu="single",
)  # fmt: skip
show(
    BiasGelu="(float[2,4,6] x, float[6] b) => (float[2,4,6] y) {y = com.microsoft.BiasGelu(x, b)}",
    BitCast="(float[2,4,6] x) => (y) {y = BitCast<to=6>(x)}",
    BitShift='(uint8[2,4] x, uint8[2,4] n) => (y) {y = BitShift<direction="LEFT">(x, n)}',
    Cast="(float[2,4,6] x) => (y) {y = Cast<to=10>(x)}",
    Clip="(float[2,4,6] x, float low, float high) => (y) {y = Clip(x, low, high)}",
    FastGelu="(float[2,4,6] x, float[6] b) => (float[2,4,6] y) {y = com.microsoft.FastGelu(x, b)}",
    PRelu="(float[2,4,6] x, float[4,1] s) => (y) {y = PRelu(x, s)}",
    Where="(bool[2,4,6] c, float[2,4,6] x, float[6] z) => (y) {y = Where(c, x, z)}",
)  # fmt: skip
