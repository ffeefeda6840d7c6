"""Element-wise operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.stablehlo.call import Call, Converter
from importers.stablehlo.views import repeated

_BOOLEAN = MappingProxyType({"Max": "Or", "Min": "And", "Mul": "And", "Add": "Or"})
_COMPARED = MappingProxyType(
    {"LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual", "EQ": "Equal"}
)


@parametrised
def _same(call: Call, /, kind: str, **attributes: int) -> None:
    """The operator of that name; for flags the one that means the same."""
    dtype = call.dtype(call.operand(0))
    own = _BOOLEAN.get(kind, kind) if dtype == "bool" else kind
    call.finish(call.pointwise(own, call.operands, dtype, **attributes))


@parametrised
def _logical(call: Call, flags: str, bits: str) -> None:
    dtype = call.dtype(call.operand(0))
    call.finish(call.pointwise(flags if dtype == "bool" else bits, call.operands, dtype))


@parametrised
def _number_beside(call: Call, kind: str, number: float, then: str = "") -> None:
    """An operator with a constant as its second operand, and one more behind it."""
    view = call.operand(0)
    made = call.pointwise(kind, [view, call.number(number, call.dtype(view))], call.dtype(view))
    call.finish(call.pointwise(then, [made], call.dtype(made)) if then else made)


def _expm1(call: Call) -> None:
    view = call.operand(0)
    dtype = call.dtype(view)
    power = call.pointwise("Exp", [view], dtype)
    call.finish(call.pointwise("Sub", [power, call.number(1, dtype)], dtype))


def _square(call: Call) -> None:
    view = call.operand(0)
    call.finish(call.pointwise("Mul", [view, view], call.dtype(view)))


def _power(call: Call) -> None:
    view, exponent = call.operand(0), call.operand(1)
    if call.scalar(exponent) == 2:
        _square(call)
    else:
        call.finish(call.pointwise("Pow", [view, exponent], call.dtype(view)))


def _compare(call: Call) -> None:
    direction = next((w for w in call.operation.words if w in {*_COMPARED, "NE"}), "")
    given = call.operation.attributes.get("comparison_direction")
    direction = direction or str(given).rpartition(" ")[2]
    if direction == "NE":
        equal = call.pointwise("Equal", call.operands, "bool")
        call.finish(call.pointwise("Not", [equal], "bool"))
    elif direction in _COMPARED:
        call.finish(call.pointwise(_COMPARED[direction], call.operands, "bool"))
    else:
        raise call.fault("it names no comparison")


def _select(call: Call) -> None:
    """A choice; one between rows that were looked up and no numbers only guards the lookup."""
    condition, yes, no = (call.operand(i) for i in range(3))
    if not condition.dims and yes.dims:
        condition = repeated(condition, yes.dims, ())
    maker = call.draft.makers.get(yes.tensor)
    missing = call.scalar(no)
    if maker is not None and maker.kind.startswith("Gather") and missing is not None:
        index = maker.inputs[1]
        if missing != missing and _follows(call, condition.tensor, index):  # noqa: PLR0124
            call.finish(yes)
            return
    call.finish(call.pointwise("Where", [condition, yes, no], call.dtype(yes)))


def _follows(call: Call, name: str, source: str) -> bool:
    """Whether a tensor is made of a source, or of what the source is made of, by few steps."""
    makers = call.draft.makers
    roots = {source}
    if source in makers:
        roots.update(makers[source].inputs)
    known = call.draft.numbers
    roots = {r for r in roots if r not in known}
    front = {name}
    for _ in range(8):
        if front & roots:
            return True
        front = {n for each in front if each in makers for n in makers[each].inputs}
    return False


def _convert(call: Call) -> None:
    view, wanted = call.operand(0), call.result.dtype
    call.finish(call.pointwise("Cast", [view], wanted, to=wanted))


def _clamp(call: Call) -> None:
    low, view, high = (call.operand(i) for i in range(3))
    dtype = call.dtype(view)
    raised = call.pointwise("Max", [view, low], dtype)
    call.finish(call.pointwise("Min", [raised, high], dtype))


@parametrised
def _shift(call: Call, direction: str) -> None:
    dtype = call.dtype(call.operand(0))
    if not dtype.startswith("uint"):
        raise UnsupportedError
    call.finish(call.pointwise("BitShift", call.operands, dtype, direction=direction))


def _finite(call: Call) -> None:
    view = call.operand(0)
    bad = [call.pointwise(kind, [view], "bool") for kind in ("IsInf", "IsNaN")]
    call.finish(call.pointwise("Not", [call.pointwise("Or", bad, "bool")], "bool"))


POINTWISE: Mapping[str, Converter] = MappingProxyType(
    {
        "stablehlo.add": _same("Add"),
        "stablehlo.subtract": _same("Sub"),
        "stablehlo.multiply": _same("Mul"),
        "stablehlo.divide": _same("Div"),
        "stablehlo.maximum": _same("Max"),
        "stablehlo.minimum": _same("Min"),
        "stablehlo.power": _power,
        "stablehlo.remainder": _same("Mod", fmod=1),
        "stablehlo.negate": _same("Neg"),
        "stablehlo.abs": _same("Abs"),
        "stablehlo.sign": _same("Sign"),
        "stablehlo.floor": _same("Floor"),
        "stablehlo.ceil": _same("Ceil"),
        "stablehlo.round_nearest_even": _same("Round"),
        "stablehlo.exponential": _same("Exp"),
        "stablehlo.exponential_minus_one": _expm1,
        "stablehlo.log": _same("Log"),
        "stablehlo.log_plus_one": _number_beside("Add", 1, "Log"),
        "stablehlo.logistic": _same("Sigmoid"),
        "stablehlo.tanh": _same("Tanh"),
        "stablehlo.sine": _same("Sin"),
        "stablehlo.cosine": _same("Cos"),
        "stablehlo.tan": _same("Tan"),
        "stablehlo.sqrt": _same("Sqrt"),
        "stablehlo.rsqrt": _same("Rsqrt"),
        "stablehlo.cbrt": _number_beside("Pow", 1 / 3),
        "stablehlo.is_finite": _finite,
        "stablehlo.and": _logical("And", "BitwiseAnd"),
        "stablehlo.or": _logical("Or", "BitwiseOr"),
        "stablehlo.xor": _logical("Xor", "BitwiseXor"),
        "stablehlo.not": _logical("Not", "BitwiseNot"),
        "stablehlo.shift_left": _shift("LEFT"),
        "stablehlo.shift_right_logical": _shift("RIGHT"),
        "stablehlo.compare": _compare,
        "stablehlo.select": _select,
        "stablehlo.clamp": _clamp,
        "stablehlo.convert": _convert,
        "stablehlo.reduce_precision": lambda c: c.finish(c.operand(0)),
        "stablehlo.optimization_barrier": lambda c: c.finish(*c.operands),
        "sdy.sharding_constraint": lambda c: c.finish(c.operand(0)),
        "chlo.square": _square,
        "chlo.erf": _same("Erf"),
        "chlo.erfc": _same("Erfc"),
        "chlo.acos": _same("Acos"),
        "chlo.acosh": _same("Acosh"),
        "chlo.asin": _same("Asin"),
        "chlo.asinh": _same("Asinh"),
        "chlo.atan": _same("Atan"),
        "chlo.atanh": _same("Atanh"),
        "chlo.cosh": _same("Cosh"),
        "chlo.sinh": _same("Sinh"),
        "chlo.tan": _same("Tan"),
        "chlo.is_inf": _same("IsInf"),
    }
)
