"""Element-wise primitives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.mindir.calls import cast
from importers.torch_export.aten import aten
from importers.torch_export.aten_activations import halves
from importers.traced.call import Call, Converter


def _one(kind: str) -> Converter:
    return lambda c: c.emit(kind, [c.tensor("self")])


def _gelu(call: Call) -> None:
    """Of the primitive: by the hyperbolic tangent."""
    call.emit("Gelu", [call.tensor("self")], approximate="tanh")


def _gelu_ext(call: Call) -> None:
    words = {0: "none", 1: "tanh"}
    form = call.get("approximate", 0)
    word = words.get(form, "") if isinstance(form, int) else str(form)
    call.emit("Gelu", [call.tensor("self")], approximate=word)


def _fast_gelu(call: Call) -> None:
    """`x * sigmoid(1.702 x)`."""
    value = call.tensor("self")
    scaled = call.step("Mul", [value, call.scalar(1.702, value.dtype)])
    call.emit("Mul", [value, call.step("Sigmoid", [scaled])])


def _squared_difference(call: Call) -> None:
    dtype = call.result.dtype
    rest = call.step(
        "Sub", [call.operand("self", dtype), call.operand("other", dtype)], call.result.dims
    )
    call.emit("Mul", [rest, rest])


def _divide_or_zero(call: Call) -> None:
    """Zero where the divisor is."""
    dtype = call.result.dtype
    left, right = call.operand("self", dtype), call.operand("other", dtype)
    zero = call.scalar(0, dtype)
    nothing = call.step("Equal", [right, zero], right.dims, "bool")
    whole = call.step("Div", [left, right], call.result.dims)
    call.emit("Where", [nothing, zero, whole])


def _dropout(call: Call) -> None:
    """In training only: a network that is exported to predict has none."""
    ratio = 1.0 - call.float("keep_prob", 0.5)
    operands = [call.tensor("self"), call.scalar(ratio, "float32"), call.scalar(True, "bool")]
    call.emit("Dropout", operands, count=2 if call.wants(1) else 1)


def _finite(call: Call) -> None:
    """Neither infinite nor undefined."""
    value = call.tensor("self")
    bad = call.step(
        "Or",
        [call.step("IsNaN", [value], dtype="bool"), call.step("IsInf", [value], dtype="bool")],
    )
    call.emit("Not", [bad])


def _gated(call: Call) -> None:
    """`Swiglu`: the first half through SiLU, times the second."""
    value = call.tensor("self")
    first, second = halves(call, value, call.axis("dim", len(value.dims), -1))
    gate = call.step("Mul", [first, call.step("Sigmoid", [first])])
    call.emit("Mul", [gate, second])


def _sum(call: Call) -> None:
    """Of all tensors of a tuple."""
    call.emit("Sum", call.tensors("self"))


def _slopes(call: Call) -> None:
    """A slope for each channel, the second dimension."""
    value, weight = call.tensor("self"), call.tensor("weight")
    if len(value.dims) > 2:
        shape = (weight.dims[0], *[1] * (len(value.dims) - 2))
        weight = call.step("Reshape", [weight, call.shape(shape)], shape)
    call.emit("PRelu", [value, weight])


_UNARY: Mapping[str, str] = {
    "Abs": "abs", "ACos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Expm1": "expm1", "Floor": "floor", "HSigmoid": "hardsigmoid",
    "HSwish": "hardswish", "IsInf": "isinf", "Log": "log", "Log1p": "log1p",
    "LogSigmoid": "log_sigmoid", "LogicalNot": "logical_not", "MishExt": "mish",
    "Neg": "neg", "ReLU": "relu", "Reciprocal": "reciprocal", "Rsqrt": "rsqrt",
    "SeLUExt": "selu", "SiLU": "silu", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Sinh": "sinh", "Square": "square", "Tan": "tan", "Tanh": "tanh",
    "BitwiseNot": "bitwise_not", "Log2": "log2", "Log10": "log10",
}  # fmt: skip
"""Primitives of one operand, with PyTorch's name."""

_OPERANDS: Mapping[str, Converter] = {
    **{f"{name}(input as self)": aten(target) for name, target in _UNARY.items()},
    **{
        f"{name}(input as self, other)": aten(target)
        for names, target in (
            (("Add",), "add.Tensor"), (("Sub",), "sub.Tensor"),
            (("Mul", "Muls"), "mul.Tensor"), (("Div", "Divs"), "div.Tensor"),
            (("FloorDiv", "FloorDivScalar"), "floor_divide"),
            (("RemainderTensorTensor", "RemainderTensorScalar"), "remainder.Tensor"),
            (("Maximum",), "maximum"), (("Minimum",), "minimum"), (("NotEqual",), "ne.Tensor"),
            (("LogicalXor",), "logical_xor"),
            (("BitwiseAndTensor", "BitwiseAndScalar"), "bitwise_and.Tensor"),
            (("BitwiseOrTensor", "BitwiseOrScalar"), "bitwise_or.Tensor"),
            (("BitwiseXorTensor", "BitwiseXorScalar"), "bitwise_xor.Tensor"),
            (("Equal", "EqScalar"), "eq.Tensor"), (("Greater",), "gt.Tensor"),
            (("GreaterEqual", "GreaterEqualScalar"), "ge.Tensor"),
            (("Less", "LessScalar"), "lt.Tensor"), (("LessEqual",), "le.Tensor"),
        )
        for name in names
    },
}  # fmt: skip

POINTWISE: Mapping[str, Converter] = MappingProxyType(
    {
        **_OPERANDS,
        "AddExt(input as self, other, alpha)": aten("add.Tensor"),
        "SubExt(input as self, other, alpha)": aten("sub.Tensor"),
        "AddScalar(input as self, other, alpha)": aten("add.Tensor"),
        "SubScalar(input as self, other, alpha)": aten("sub.Tensor"),
        "RealDiv(x as self, y as other)": aten("div.Tensor"),
        "DivNoNan(x1 as self, x2 as other)": _divide_or_zero,
        "FloorMod(x as self, y as other)": aten("remainder.Tensor"),
        "Mod(x as self, y as other)": aten("fmod.Tensor"),
        "Pow(input as self, exponent)": aten("pow.Tensor_Tensor"),
        "PowTensorScalar(input as self, exponent)": aten("pow.Tensor_Tensor"),
        "PowScalarTensor(input as self, exponent)": aten("pow.Tensor_Tensor"),
        "SquaredDifference(x as self, y as other)": _squared_difference,
        "LogicalAnd(x as self, y as other)": aten("logical_and"),
        "LogicalOr(x as self, y as other)": aten("logical_or"),
        "BitwiseAnd(x as self, y as other)": aten("bitwise_and.Tensor"),
        "BitwiseOr(x as self, y as other)": aten("bitwise_or.Tensor"),
        "BitwiseXor(x as self, y as other)": aten("bitwise_xor.Tensor"),
        "IsNan(x as self)": aten("isnan"),
        "IsFinite(input as self)": _finite,
        "Mish(x as self)": aten("mish"),
        "Rint(x as self)": aten("round"),
        "Sqrt(x as self)": aten("sqrt"),
        "Invert(x as self)": aten("bitwise_not"),
        "Inv(x as self)": aten("reciprocal"),
        "SeLU(input_x as self)": aten("selu"),
        "Round(input as self, decimals)": aten("round"),
        "Select(condition, input as self, other)": aten("where.self"),
        "MaskedFill(input_x as self, mask, value)": aten("masked_fill.Scalar"),
        "MaskedFillScalar(input as self, mask, value)": aten("masked_fill.Scalar"),
        "ClampScalar(input as self, min, max)": aten("clamp"),
        "ClampTensor(input as self, min, max)": aten("clamp"),
        "Lerp(input as self, end, weight)": aten("lerp.Tensor"),
        "LerpScalar(input as self, end, weight)": aten("lerp.Scalar"),
        "Addcmul(input as self, tensor1, tensor2, value)": aten("addcmul"),
        "AddcmulExt(input as self, tensor1, tensor2, value)": aten("addcmul"),
        "Addcdiv(input as self, tensor1, tensor2, value)": aten("addcdiv"),
        "AddcdivExt(input as self, tensor1, tensor2, value)": aten("addcdiv"),
        "AddN(x as self)": _sum,
        "AccumulateNV2(inputs as self)": _sum,
        "ReLU6(x as self)": aten("relu6"),
        "GeLU(input as self)": _gelu,
        "GeluExt(input as self, approximate)": _gelu_ext,
        "FastGeLU(x as self)": _fast_gelu,
        "Swiglu(input as self, dim)": _gated,
        "GLU(x as self, axis as dim)": aten("glu"),
        "Elu(input_x as self, alpha)": aten("elu"),
        "EluExt(input as self, alpha)": aten("elu"),
        "LeakyReLUExt(input as self, negative_slope)": aten("leaky_relu"),
        "Hardtanh(input as self, min_val, max_val)": aten("hardtanh"),
        "Softplus(x as self)": _one("Softplus"),
        "SoftplusExt(input as self, beta, threshold)": aten("softplus"),
        "Softsign(x as self)": _one("Softsign"),
        "PReLU(input as self, weight)": _slopes,
        "Dropout(x as self, keep_prob, Seed0, Seed1)": _dropout,
        "Cast(input_x as self, dtype)": cast,
        "ToDtype(input as self, dtype, non_blocking, copy)": cast,
    }
)  # fmt: skip
