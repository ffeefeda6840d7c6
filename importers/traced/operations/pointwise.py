"""Element-wise operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from importers.errors import UnsupportedError
from importers.operators import Operators
from importers.parameters import parametrised
from importers.traced.call import Call, ElementType, with_arguments
from importers.traced.formulas import formula
from importers.traced.promotion import promoted
from importers.traced.table import spelled
from ir.graph import Tensor
from ir.ops.elementwise import OF_FLAGS


def _own(kind: str, dtype: str) -> str:
    return OF_FLAGS.get(kind, kind) if dtype == "bool" else kind


def _operands(call: Call, *names: str) -> list[Tensor]:
    """Arguments in the type of the result."""
    return [call.operand(name, call.result.dtype) for name in names]


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
    call.emit(_own(kind, call.result.dtype), _operands(call, "self", "other"))


def _promoted_pair(call: Call) -> list[Tensor]:
    """Two operands in the type that both fit in."""
    dtype = promoted([call.get("self"), call.get("other")])
    return [call.operand("self", dtype), call.operand("other", dtype)]


@parametrised
def compared(call: Call, kind: str) -> None:
    """Two operands in the type that both fit in."""
    call.emit(kind, _promoted_pair(call))


@spelled(
    aten="ne.{Tensor,Scalar}(self, other)",
    mindir="NotEqual(input as self, other)",
)
def unequal(call: Call) -> None:
    """Not equal."""
    call.answer.logical_not(call.equal(*_promoted_pair(call)))


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
spelled(mindir="Round(input as self, decimals)")(one("Round"))


spelled(aten="square(self)", mindir="Square(input as self)", stablehlo="chlo.square(self)")(
    formula("self * self")
)


@parametrised
def scaled(call: Call, kind: str) -> None:
    """Two operands, the second one times `alpha`."""
    dtype, alpha = call.result.dtype, call.get("alpha", 1)
    other = call.operand("other", dtype)
    if alpha != 1:
        other = call.mul(other, call.scalar(alpha, dtype))
    if not isinstance(call.get("other"), Tensor) and call.get("other") == 0:
        call.finish(call.tensor("self"))
    else:
        call.emit(_own(kind, dtype), [call.operand("self", dtype), other])


@spelled(aten="rsub.{Tensor,Scalar}(self, other, alpha)")
def _reversed(call: Call) -> None:
    dtype = call.result.dtype
    other, alpha = call.operand("other", dtype), call.get("alpha", 1)
    own = call.operand("self", dtype)
    if alpha != 1:
        own = call.mul(own, call.scalar(alpha, dtype))
    call.answer.sub(other, own)


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
        call.answer.div(*_operands(call, "self", "other"))
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
        call.answer.remainder(*_operands(call, "self", "other"), fmod=0)


@spelled(
    aten="fmod.{Tensor,Scalar}(self, other)",
    mindir="Mod(x as self, y as other)",
    stablehlo="stablehlo.remainder(self, other)",
)
def _c_remainder(call: Call) -> None:
    """With the sign of the dividend."""
    call.answer.remainder(*_operands(call, "self", "other"), fmod=1)


@spelled(
    aten="pow.{Tensor_Scalar,Tensor_Tensor,Scalar}(self, exponent)",
    mindir="Pow PowTensorScalar PowScalarTensor(input as self, exponent)",
)
def power(call: Call) -> None:
    """One operand to the power of the other."""
    call.answer.power(*_operands(call, "self", "exponent"))


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
    condition = call.operand("condition", "bool")
    call.answer.select(condition, *_operands(call, "self", "other"))


@spelled(
    aten="masked_fill.{Scalar,Tensor}(self, mask, value)",
    mindir="MaskedFill(input_x as self, mask, value); MaskedFillScalar(input as self, mask, value)",
)
def _fill_masked(call: Call) -> None:
    mask = call.operand("mask", "bool")
    call.answer.select(mask, *_operands(call, "value", "self"))


@spelled(
    aten="clamp.{default,Tensor} clip.{default,Tensor}(self, min, max);"
    "clamp_min.{default,Tensor}(self, min); clamp_max.{default,Tensor}(self, max)",
    mindir="ClampScalar ClampTensor(input as self, min, max)",
)
@spelled(
    aten="hardtanh(self, min_val as min=-1, max_val as max=1)",
    mindir="Hardtanh(input as self, min_val as min=-1, max_val as max=1)",
)
def _clamp(call: Call) -> None:
    """Between two numbers or tensors, either of which may be absent."""
    dtype = call.result.dtype
    value = call.cast(call.tensor("self"), dtype)
    bounds = [call.operand(n, dtype) if call.has(n) else None for n in ("min", "max")]
    if any(b is not None and b.dims for b in bounds):
        low, high = bounds
        value = value if low is None else call.maximum(value, low)
        call.finish(value if high is None else call.minimum(value, high))
    else:
        call.emit("Clip", [value, *bounds])


spelled(aten="relu6(self)", mindir="ReLU6(x as self)")(with_arguments(_clamp, min=0.0, max=6.0))


spelled(
    aten="log1p(self)", mindir="Log1p(input as self)", stablehlo="stablehlo.log_plus_one(self)"
)(formula("Log(self + 1.0)", same=True))


spelled(aten="expm1(self)", mindir="Expm1(input as self)")(formula("Exp(self) + -1.0", same=True))


for _base in (2, 10):
    spelled(aten=f"log{_base}(self)", mindir=f"Log{_base}(input as self)")(
        formula(f"Log(self) * {1 / math.log(_base)}", same=True)
    )


@parametrised
def _combined(call: Call, join: Callable[..., Tensor]) -> None:
    """`self + value * (tensor1 op tensor2)`."""
    dtype = call.result.dtype
    made = join(call, *_operands(call, "tensor1", "tensor2"))
    value = call.get("value", 1)
    if value != 1:
        made = call.mul(made, call.scalar(value, dtype))
    call.answer.add(call.operand("self", dtype), made)


spelled(
    aten="addcmul(self, tensor1, tensor2, value)",
    mindir="Addcmul AddcmulExt(input as self, tensor1, tensor2, value)",
)(_combined(Operators.mul))
spelled(
    aten="addcdiv(self, tensor1, tensor2, value)",
    mindir="Addcdiv AddcdivExt(input as self, tensor1, tensor2, value)",
)(_combined(Operators.div))


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
