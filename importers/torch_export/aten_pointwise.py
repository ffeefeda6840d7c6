"""Element-wise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from importers.parameters import parametrised
from importers.traced.call import Call, Converter, ElementType, promoted, with_arguments
from ir.graph import Tensor


def one(kind: str, **attributes: Any) -> Converter:
    """One operand, in the type of the result."""
    return lambda c: c.emit(kind, [c.cast(c.tensor("self"), c.result.dtype)], **attributes)


@parametrised
def chain(call: Call, *kinds: str) -> None:
    """Operators of one operand, one behind the other."""
    value = call.cast(call.tensor("self"), call.result.dtype)
    for kind in kinds[:-1]:
        value = call.step(kind, [value])
    call.emit(kinds[-1], [value])


def _test(kind: str) -> Converter:
    """One operand of any type, a flag as result."""
    return lambda c: c.emit(kind, [c.tensor("self")])


@parametrised
def _pair(call: Call, kind: str) -> None:
    """Two operands in the type of the result."""
    dtype = call.result.dtype
    call.emit(kind, [call.operand("self", dtype), call.operand("other", dtype)])


@parametrised
def _scaled(call: Call, kind: str) -> None:
    """Two operands, the second one times `alpha`."""
    dtype, alpha = call.result.dtype, call.get("alpha", 1)
    other = call.operand("other", dtype)
    if alpha != 1:
        other = call.step("Mul", [other, call.scalar(alpha, dtype)], other.dims)
    if not isinstance(call.get("other"), Tensor) and call.get("other") == 0:
        call.finish(call.tensor("self"))
    else:
        call.emit(kind, [call.operand("self", dtype), other])


def _reversed(call: Call) -> None:
    dtype = call.result.dtype
    other, alpha = call.operand("other", dtype), call.get("alpha", 1)
    own = call.operand("self", dtype)
    if alpha != 1:
        own = call.step("Mul", [own, call.scalar(alpha, dtype)])
    call.emit("Sub", [other, own])


def _divide(call: Call) -> None:
    dtype, mode = call.result.dtype, call.text("rounding_mode", "")
    operands = [call.operand("self", dtype), call.operand("other", dtype)]
    if "float" not in dtype or not mode:
        call.emit("Div", operands)
        return
    quotient = call.step("Div", operands, call.result.dims)
    if mode == "floor":
        call.emit("Floor", [quotient])
    else:
        size = call.step("Floor", [call.step("Abs", [quotient])])
        call.emit("Mul", [call.step("Sign", [quotient]), size])


def _remainder(call: Call) -> None:
    """With the sign of the divisor."""
    dtype = call.result.dtype
    left, right = call.operand("self", dtype), call.operand("other", dtype)
    if "float" not in dtype:
        call.emit("Mod", [left, right], fmod=0)
        return
    whole = call.step("Floor", [call.step("Div", [left, right], call.result.dims)])
    call.emit("Sub", [left, call.step("Mul", [whole, right])])


def _c_remainder(call: Call) -> None:
    """With the sign of the dividend."""
    dtype = call.result.dtype
    call.emit("Mod", [call.operand("self", dtype), call.operand("other", dtype)], fmod=1)


@parametrised
def _compare(call: Call, kind: str, *, negated: bool = False) -> None:
    """Two operands in the type that both fit in."""
    dtype = promoted([call.get("self"), call.get("other")])
    operands = [call.operand("self", dtype), call.operand("other", dtype)]
    if negated:
        equal = call.step(kind, operands, call.result.dims, "bool")
        call.emit("Not", [equal])
    else:
        call.emit(kind, operands)


@parametrised
def _logical(call: Call, kind: str) -> None:
    operands = [call.operand("self", "bool")]
    if "other" in call.arguments:
        operands.append(call.operand("other", "bool"))
    call.emit(kind, operands)


@parametrised
def _bitwise(call: Call, name: str) -> None:
    """Flags have logical operators of their own."""
    dtype = call.result.dtype
    operands = [call.operand(n, dtype) for n in ("self", "other") if n in call.arguments]
    call.emit(name.removeprefix("Bitwise") if dtype == "bool" else name, operands)


def _power(call: Call) -> None:
    dtype = call.result.dtype
    call.emit("Pow", [call.operand("self", dtype), call.operand("exponent", dtype)])


def _cast(call: Call) -> None:
    call.finish(call.tensor(next(iter(call.arguments))))


def _same(call: Call) -> None:
    call.alias(call.tensor(next(iter(call.arguments))))


def _where(call: Call) -> None:
    dtype = call.result.dtype
    condition = call.operand("condition", "bool")
    call.emit("Where", [condition, call.operand("self", dtype), call.operand("other", dtype)])


def _fill_masked(call: Call) -> None:
    dtype = call.result.dtype
    mask = call.operand("mask", "bool")
    call.emit("Where", [mask, call.operand("value", dtype), call.operand("self", dtype)])


@parametrised
def _clamp(call: Call, low: str, high: str) -> None:
    """Between two numbers or tensors, either of which may be absent."""
    dtype = call.result.dtype
    value = call.cast(call.tensor("self"), dtype)
    bounds = [call.operand(n, dtype) if call.has(n) else None for n in (low, high)]
    if any(b is not None and b.dims for b in bounds):
        for kind, bound in zip(("Max", "Min"), bounds, strict=True):
            if bound is not None:
                value = call.step(kind, [value, bound], call.result.dims)
        call.finish(value)
    else:
        call.emit("Clip", [value, *bounds])


@parametrised
def _shifted(call: Call, kind: str, shift: float, *, first: bool) -> None:
    """`log1p` adds before, `expm1` takes away behind."""
    value = call.cast(call.tensor("self"), call.result.dtype)
    one = call.scalar(shift, value.dtype)
    if first:
        call.emit(kind, [call.step("Add", [value, one])])
    else:
        call.emit("Add", [call.step(kind, [value]), one])


@parametrised
def _logarithm(call: Call, base: float) -> None:
    value = call.cast(call.tensor("self"), call.result.dtype)
    log = call.step("Log", [value])
    call.emit("Mul", [log, call.scalar(1 / math.log(base), value.dtype)])


def _convert_type(call: Call) -> None:
    if not isinstance(call.get("dtype"), ElementType):
        raise call.fault("it names no element type")
    call.finish(call.tensor("a"))


@parametrised
def _combined(call: Call, first: str, second: str) -> None:
    """`self + value * (tensor1 op tensor2)`."""
    dtype = call.result.dtype
    pair = [call.operand("tensor1", dtype), call.operand("tensor2", dtype)]
    made = call.step(second, pair, call.result.dims)
    value = call.get("value", 1)
    if value != 1:
        made = call.step("Mul", [made, call.scalar(value, dtype)])
    call.emit(first, [call.operand("self", dtype), made])


def _interpolated(call: Call) -> None:
    """`self + weight * (end - self)`."""
    dtype = call.result.dtype
    start, end = call.operand("self", dtype), call.operand("end", dtype)
    step = call.step("Sub", [end, start], call.result.dims)
    part = call.step("Mul", [step, call.operand("weight", dtype)], call.result.dims)
    call.emit("Add", [start, part])


def _nan_to_num(call: Call) -> None:
    value = call.tensor("self")
    zero = call.scalar(call.float("nan", 0.0), value.dtype)
    bad = call.step("IsNaN", [value], dtype="bool")
    call.emit("Where", [bad, zero, value])


_DIRECT: Mapping[str, str] = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "sqrt": "Sqrt",
    "reciprocal": "Reciprocal", "erf": "Erf", "log": "Log", "abs": "Abs", "cos": "Cos",
    "sin": "Sin", "tan": "Tan", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin",
    "acos": "Acos", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "neg": "Neg",
    "sign": "Sign", "sgn": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "hardswish": "HardSwish", "mish": "Mish", "selu": "Selu",
}  # fmt: skip


def _each(names: Mapping[str, str], make: Callable[[str], Converter]) -> dict[str, Converter]:
    return {f"{name}(self)": make(kind) for name, kind in names.items()}


POINTWISE: Mapping[str, Converter] = MappingProxyType(
    {
        **_each(_DIRECT, one),
        "rsqrt(self)": chain("Sqrt", "Reciprocal"),
        "square(self)": lambda c: c.emit("Mul", [c.tensor("self"), c.tensor("self")]),
        "log1p(self)": _shifted("Log", 1.0, first=True),
        "expm1(self)": _shifted("Exp", -1.0, first=False),
        "log2(self)": _logarithm(2.0),
        "log10(self)": _logarithm(10.0),
        "isnan(self)": _test("IsNaN"),
        "isinf(self)": _test("IsInf"),
        "nan_to_num(self, nan, posinf, neginf)": _nan_to_num,
        "add.{Tensor,Scalar}(self, other, alpha)": _scaled("Add"),
        "sub.{Tensor,Scalar}(self, other, alpha)": _scaled("Sub"),
        "rsub.{Tensor,Scalar}(self, other, alpha)": _reversed,
        "mul.{Tensor,Scalar}(self, other)": _pair("Mul"),
        "div.{Tensor,Scalar}(self, other)": _divide,
        "div.{Tensor_mode,Scalar_mode}(self, other, rounding_mode)": _divide,
        "true_divide.Tensor(self, other)": _divide,
        "floor_divide.{default,Scalar}(self, other)":
            with_arguments(_divide, rounding_mode="floor"),
        "remainder.{Tensor,Scalar}(self, other)": _remainder,
        "fmod.{Tensor,Scalar}(self, other)": _c_remainder,
        "pow.{Tensor_Scalar,Tensor_Tensor,Scalar}(self, exponent)": _power,
        "maximum(self, other)": _pair("Max"),
        "minimum(self, other)": _pair("Min"),
        "max.other(self, other)": _pair("Max"),
        "min.other(self, other)": _pair("Min"),
        "eq.{Tensor,Scalar}(self, other)": _compare("Equal"),
        "ne.{Tensor,Scalar}(self, other)": _compare("Equal", negated=True),
        "lt.{Tensor,Scalar}(self, other)": _compare("Less"),
        "le.{Tensor,Scalar}(self, other)": _compare("LessOrEqual"),
        "gt.{Tensor,Scalar}(self, other)": _compare("Greater"),
        "ge.{Tensor,Scalar}(self, other)": _compare("GreaterOrEqual"),
        "logical_and(self, other)": _logical("And"),
        "logical_or(self, other)": _logical("Or"),
        "logical_xor(self, other)": _logical("Xor"),
        "logical_not(self)": _logical("Not"),
        "bitwise_and.{Tensor,Scalar}(self, other)": _bitwise("BitwiseAnd"),
        "bitwise_or.{Tensor,Scalar}(self, other)": _bitwise("BitwiseOr"),
        "bitwise_xor.{Tensor,Scalar}(self, other)": _bitwise("BitwiseXor"),
        "bitwise_not(self)": _bitwise("BitwiseNot"),
        "__and__.{Tensor,Scalar}(self, other)": _bitwise("BitwiseAnd"),
        "__or__.{Tensor,Scalar}(self, other)": _bitwise("BitwiseOr"),
        "__xor__.{Tensor,Scalar}(self, other)": _bitwise("BitwiseXor"),
        "where.{self,ScalarSelf,ScalarOther,Scalar}(condition, self, other)": _where,
        "masked_fill.{Scalar,Tensor}(self, mask, value)": _fill_masked,
        "clamp.{default,Tensor}(self, min, max)": _clamp("min", "max"),
        "clip.{default,Tensor}(self, min, max)": _clamp("min", "max"),
        "clamp_min.{default,Tensor}(self, min)": _clamp("min", "max"),
        "clamp_max.{default,Tensor}(self, max)": _clamp("min", "max"),
        "addcmul(self, tensor1, tensor2, value)": _combined("Add", "Mul"),
        "addcdiv(self, tensor1, tensor2, value)": _combined("Add", "Div"),
        "lerp.{Scalar,Tensor}(self, end, weight)": _interpolated,
        "to.dtype(self, dtype, non_blocking, copy, memory_format)": _cast,
        "to.device(self, device, dtype, non_blocking, copy, memory_format)": _cast,
        "to.dtype_layout(self, dtype, layout, device, pin_memory)": _cast,
        "to.other(self, other, non_blocking, copy, memory_format)": _cast,
        "_to_copy(self, dtype, layout, device, pin_memory)": _cast,
        "type_as(self, other)": _cast,
        "prims::convert_element_type(a, dtype)": _convert_type,
        "clone(self, memory_format)": _same,
        "contiguous(self, memory_format)": _same,
        "detach(self)": _same,
        "alias(self)": _same,
        "lift_fresh_copy(self)": _same,
        "lift_fresh(self)": _same,
        "detach_copy(self)": _same,
        "alias_copy(self)": _same,
        "requires_grad_(self, requires_grad)": _same,
    }
)  # fmt: skip
