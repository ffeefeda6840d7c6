"""Element-wise operators."""

from __future__ import annotations

import math

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, ElementType, promoted, with_arguments
from importers.traced.formulas import formula
from importers.traced.table import spelled
from ir.graph import Tensor

_FLAGS = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
"""Operators of flags that mean the same."""


def _own(kind: str, dtype: str) -> str:
    return _FLAGS.get(kind, kind) if dtype == "bool" else kind


def _emit(call: Call, kind: str, *names: str) -> None:
    """An operator of these arguments, in the type of the result."""
    dtype = call.result.dtype
    call.emit(_own(kind, dtype), [call.operand(name, dtype) for name in names])


@parametrised
def one(call: Call, /, kind: str, *names: str, **attributes: float) -> None:
    """One operand, in the type of the result; arguments of these names are attributes."""
    more = {name: call.float(name, 0.0) for name in names}
    value = call.cast(call.tensor("self"), call.result.dtype)
    call.emit(kind, [value], count=0, **more, **attributes)


@parametrised
def tested(call: Call, kind: str) -> None:
    """One operand of any type, a flag as result."""
    call.emit(kind, [call.tensor("self")])


@parametrised
def pair(call: Call, kind: str) -> None:
    """Two operands in the type of the result."""
    _emit(call, kind, "self", "other")


@parametrised
def compared(call: Call, kind: str, *, negated: bool = False) -> None:
    """Two operands in the type that both fit in."""
    dtype = promoted([call.get("self"), call.get("other")])
    operands = [call.operand("self", dtype), call.operand("other", dtype)]
    if negated:
        equal = call.step(kind, operands, call.result.dims, "bool")
        call.emit("Not", [equal])
    else:
        call.emit(kind, operands)


@parametrised
def logical(call: Call, kind: str) -> None:
    """One or two flags."""
    names = [n for n in ("self", "other") if n in call.arguments]
    call.emit(kind, [call.operand(n, "bool") for n in names])


@parametrised
def bitwise(call: Call, kind: str) -> None:
    """One or two operands; flags have logical operators of their own."""
    dtype = call.result.dtype
    operands = [call.operand(n, dtype) for n in ("self", "other") if n in call.arguments]
    call.emit(kind.removeprefix("Bitwise") if dtype == "bool" else kind, operands)


_PAIR = "input as self, other"

spelled(aten="rsqrt(self)", mindir="Rsqrt(input as self)")(
    formula("Reciprocal(Sqrt(self))", same=True)
)
spelled(aten="ne.{Tensor,Scalar}(self, other)", mindir=f"NotEqual({_PAIR})")(
    compared("Equal", negated=True)
)
spelled(mindir="Round(input as self, decimals)")(one("Round"))


spelled(aten="square(self)", mindir="Square(input as self)", stablehlo="chlo.square(self)")(
    formula("self * self")
)


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
        call.emit(_own(kind, dtype), [call.operand("self", dtype), other])


spelled(
    aten="add.{Tensor,Scalar}(self, other, alpha)",
    mindir=f"Add({_PAIR}); AddExt AddScalar({_PAIR}, alpha)",
    stablehlo="stablehlo.add(self, other)",
)(_scaled("Add"))
spelled(
    aten="sub.{Tensor,Scalar}(self, other, alpha)",
    mindir=f"Sub({_PAIR}); SubExt SubScalar({_PAIR}, alpha)",
    stablehlo="stablehlo.subtract(self, other)",
)(_scaled("Sub"))


@spelled(aten="rsub.{Tensor,Scalar}(self, other, alpha)")
def _reversed(call: Call) -> None:
    dtype = call.result.dtype
    other, alpha = call.operand("other", dtype), call.get("alpha", 1)
    own = call.operand("self", dtype)
    if alpha != 1:
        own = call.step("Mul", [own, call.scalar(alpha, dtype)])
    call.emit("Sub", [other, own])


_FLOORED = formula("Floor(self / other)", same=True)
_TRUNCATED = formula("all = self / other; size = Floor(Abs(all)); Sign(all) * size", same=True)


@spelled(
    aten="div.{Tensor,Scalar} true_divide.Tensor(self, other);"
    "div.{Tensor_mode,Scalar_mode}(self, other, rounding_mode)",
    mindir=f"Div Divs({_PAIR}); RealDiv(x as self, y as other)",
    stablehlo="stablehlo.divide(self, other)",
)
def _divide(call: Call) -> None:
    mode = call.text("rounding_mode", "")
    if "float" not in call.result.dtype or not mode:
        _emit(call, "Div", "self", "other")
    else:
        (_FLOORED if mode == "floor" else _TRUNCATED)(call)


spelled(
    aten="floor_divide.{default,Scalar}(self, other)",
    mindir=f"FloorDiv FloorDivScalar({_PAIR})",
)(with_arguments(_divide, rounding_mode="floor"))


spelled(mindir="DivNoNan(x1 as self, x2 as other)")(
    formula("Where(other == 0.0, 0.0, self / other)", same=True)
)


_OVER = formula("whole = Floor(self / other); self - whole * other", same=True)


@spelled(
    aten="remainder.{Tensor,Scalar}(self, other)",
    mindir=f"RemainderTensorTensor RemainderTensorScalar({_PAIR}); FloorMod(x as self, y as other)",
)
def _remainder(call: Call) -> None:
    """With the sign of the divisor."""
    if "float" in call.result.dtype:
        _OVER(call)
    else:
        dtype = call.result.dtype
        call.emit("Mod", [call.operand("self", dtype), call.operand("other", dtype)], fmod=0)


@spelled(
    aten="fmod.{Tensor,Scalar}(self, other)",
    mindir="Mod(x as self, y as other)",
    stablehlo="stablehlo.remainder(self, other)",
)
def _c_remainder(call: Call) -> None:
    """With the sign of the dividend."""
    dtype = call.result.dtype
    call.emit("Mod", [call.operand("self", dtype), call.operand("other", dtype)], fmod=1)


@spelled(
    aten="pow.{Tensor_Scalar,Tensor_Tensor,Scalar}(self, exponent)",
    mindir="Pow PowTensorScalar PowScalarTensor(input as self, exponent)",
)
def power(call: Call) -> None:
    """One operand to the power of the other."""
    _emit(call, "Pow", "self", "exponent")


spelled(mindir="SquaredDifference(x as self, y as other)")(
    formula("rest = self - other; rest * rest", same=True)
)


@spelled(mindir="AddN(x as self); AccumulateNV2(inputs as self)")
def _sum(call: Call) -> None:
    """Of all tensors of a tuple."""
    call.emit("Sum", call.tensors("self"))


@spelled(
    aten="to.dtype(self, dtype, non_blocking, copy, memory_format);"
    "to.device(self, device, dtype, non_blocking, copy, memory_format);"
    "to.dtype_layout(self, dtype, layout, device, pin_memory);"
    "to.other(self, other, non_blocking, copy, memory_format);"
    "_to_copy(self, dtype, layout, device, pin_memory); type_as(self, other)",
    mindir="Cast(input_x as self, dtype); ToDtype(input as self, dtype, non_blocking, copy)",
    stablehlo="stablehlo.convert(self)",
)
def _cast(call: Call) -> None:
    """In the type that the tracer notes."""
    call.finish(call.tensor(next(iter(call.arguments))))


@spelled(aten="prims::convert_element_type(a, dtype)")
def _convert_type(call: Call) -> None:
    if not isinstance(call.get("dtype"), ElementType):
        raise call.fault("it names no element type")
    call.finish(call.tensor("a"))


@spelled(
    aten="clone contiguous(self, memory_format); requires_grad_(self, requires_grad);"
    "detach alias lift_fresh_copy lift_fresh detach_copy alias_copy(self)",
    stablehlo="stablehlo.reduce_precision sdy.sharding_constraint(self)",
)
def _same(call: Call) -> None:
    call.alias(call.tensor(next(iter(call.arguments))))


@spelled(
    aten="where.{self,ScalarSelf,ScalarOther,Scalar}(condition, self, other)",
    mindir="Select(condition, input as self, other)",
)
def _where(call: Call) -> None:
    dtype = call.result.dtype
    condition = call.operand("condition", "bool")
    call.emit("Where", [condition, call.operand("self", dtype), call.operand("other", dtype)])


@spelled(
    aten="masked_fill.{Scalar,Tensor}(self, mask, value)",
    mindir="MaskedFill(input_x as self, mask, value); MaskedFillScalar(input as self, mask, value)",
)
def _fill_masked(call: Call) -> None:
    dtype = call.result.dtype
    mask = call.operand("mask", "bool")
    call.emit("Where", [mask, call.operand("value", dtype), call.operand("self", dtype)])


@spelled(
    aten="clamp.{default,Tensor} clip.{default,Tensor}(self, min, max);"
    "clamp_min.{default,Tensor}(self, min); clamp_max.{default,Tensor}(self, max)",
    mindir="ClampScalar ClampTensor(input as self, min, max)",
)
def _clamp(call: Call) -> None:
    """Between two numbers or tensors, either of which may be absent."""
    dtype = call.result.dtype
    value = call.cast(call.tensor("self"), dtype)
    bounds = [call.operand(n, dtype) if call.has(n) else None for n in ("min", "max")]
    if any(b is not None and b.dims for b in bounds):
        for kind, bound in zip(("Max", "Min"), bounds, strict=True):
            if bound is not None:
                value = call.step(kind, [value, bound], call.result.dims)
        call.finish(value)
    else:
        call.emit("Clip", [value, *bounds])


spelled(
    aten="log1p(self)", mindir="Log1p(input as self)", stablehlo="stablehlo.log_plus_one(self)"
)(formula("Log(self + 1.0)", same=True))


spelled(aten="expm1(self)", mindir="Expm1(input as self)")(formula("Exp(self) + -1.0", same=True))


for _base in (2, 10):
    spelled(aten=f"log{_base}(self)", mindir=f"Log{_base}(input as self)")(
        formula(f"Log(self) * {1 / math.log(_base)}", same=True)
    )


@parametrised
def _combined(call: Call, first: str, second: str) -> None:
    """`self + value * (tensor1 op tensor2)`."""
    dtype = call.result.dtype
    operands = [call.operand("tensor1", dtype), call.operand("tensor2", dtype)]
    made = call.step(second, operands, call.result.dims)
    value = call.get("value", 1)
    if value != 1:
        made = call.step("Mul", [made, call.scalar(value, dtype)])
    call.emit(first, [call.operand("self", dtype), made])


spelled(
    aten="addcmul(self, tensor1, tensor2, value)",
    mindir="Addcmul AddcmulExt(input as self, tensor1, tensor2, value)",
)(_combined("Add", "Mul"))
spelled(
    aten="addcdiv(self, tensor1, tensor2, value)",
    mindir="Addcdiv AddcdivExt(input as self, tensor1, tensor2, value)",
)(_combined("Add", "Div"))


spelled(
    aten="lerp.{Scalar,Tensor}(self, end, weight)",
    mindir="Lerp LerpScalar(input as self, end, weight)",
)(formula("self + (end - self) * weight", same=True))


spelled(aten="nan_to_num(self, nan, posinf, neginf)")(
    formula("Where(IsNaN(self), nan, self)", nan=0.0)
)


# Neither infinite nor undefined.
spelled(mindir="IsFinite(input as self)")(formula("Not(Or(IsNaN(self), IsInf(self)))"))
spelled(stablehlo="stablehlo.is_finite(self)")(formula("Not(Or(IsInf(self), IsNaN(self)))"))


@parametrised
def _shift(call: Call, direction: str) -> None:
    """Of bits; only numbers without a sign have it."""
    value = call.tensor("self")
    if not value.dtype.startswith("uint"):
        raise UnsupportedError(call.target)
    call.emit("BitShift", [value, call.tensor("other")], direction=direction)


spelled(stablehlo="stablehlo.shift_left(self, other)")(_shift("LEFT"))
spelled(stablehlo="stablehlo.shift_right_logical(self, other)")(_shift("RIGHT"))
