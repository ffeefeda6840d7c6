"""Reductions, windows and orders of JAX in operations of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.stablehlo.jaxpr.body import Call, Converter
from importers.stablehlo.program import Operation, Region, TensorType

_STARTS = MappingProxyType({"add": "0", "multiply": "1", "and": "true", "or": "false"})
_SCALAR: tuple[int, ...] = ()


def _start(call: Call, applied: str) -> str:
    """What a reduction starts with: the neutral number of its type."""
    dtype = call.type_of(0).dtype
    kind = TensorType(_SCALAR, dtype)
    if applied in _STARTS:
        text = _STARTS[applied]
    elif dtype == "bool":
        text = "false" if applied == "maximum" else "true"
    elif "int" not in dtype:
        text = "-inf" if applied == "maximum" else "inf"
    else:
        bits = int(dtype.removeprefix("u").removeprefix("int"))
        signed = not dtype.startswith("u")
        low = -(2 ** (bits - 1)) if signed else 0
        text = str(low if applied == "maximum" else 2 ** (bits - signed) - 1)
    return call.body.number(text, kind)


def _reduce(applied: str) -> Converter:
    def convert(call: Call) -> None:
        start = _start(call, applied)
        call.finish(
            "stablehlo.reduce", [call.operands[0], start],
            applies=f"stablehlo.{applied}", dimensions=call.ints("axes"),
        )  # fmt: skip

    return convert


def _place_of_best(direction: str, applied: str) -> Converter:
    """The place of the largest number: one side of a reduction that compares."""

    def convert(call: Call) -> None:
        axes, value = call.ints("axes"), call.type_of(0)
        if len(axes) != 1 or not 0 <= axes[0] < len(value.dims):
            raise call.body.fault(f"{call.equation.primitive} is not along one dimension")
        places = TensorType(value.dims, call.kind.dtype)
        counted = call.body.step("stablehlo.iota", [], places, dim=axes[0])
        starts = [
            _start(call, applied), call.body.number("0", TensorType(_SCALAR, call.kind.dtype)),
        ]  # fmt: skip
        compared = Operation(
            "stablehlo.compare", (), ("%better",), (TensorType(_SCALAR, "bool"),), {}, (direction,)
        )
        best = f"%best.{len(call.body.operations)}"
        results = {best: TensorType(call.kind.dims, value.dtype), **call.results}
        call.body.add(
            "stablehlo.reduce", [call.operands[0], counted, *starts], results,
            regions=(Region((), (compared,)),), dimensions=axes,
        )  # fmt: skip

    return convert


def _window(applied: str) -> Converter:
    def convert(call: Call) -> None:
        rank = len(call.type_of(0).dims)
        ones = (1,) * rank
        _windowed(
            call, call.operands[0], applied, call.results,
            window_dimensions=call.ints("window_dimensions"),
            window_strides=call.ints("window_strides", ones),
            base_dilations=call.ints("base_dilation", ones),
            window_dilations=call.ints("window_dilation", ones),
            padding=tuple(n for pair in call.pairs("padding") for n in pair),
        )  # fmt: skip

    return convert


def _windowed(
    call: Call, operand: str, applied: str, results: Mapping[str, TensorType],
    **attributes: tuple[int, ...],
) -> None:  # fmt: skip
    call.body.add(
        "stablehlo.reduce_window", [operand, _start(call, applied)], results,
        {"applies": f"stablehlo.{applied}", **attributes},
    )  # fmt: skip


def _running_sum(call: Call) -> None:
    """A window as long as the dimension, that ends where one stands."""
    axis, kind = call.int("axis"), call.kind
    if not 0 <= axis < len(kind.dims):
        raise call.body.fault("cumsum is along no dimension")
    size = kind.dims[axis]
    ones = (1,) * len(kind.dims)
    before = (0, size - 1) if call.param("reverse") is True else (size - 1, 0)
    if before[0] == 0 and size > 1:
        turned = call.body.step("stablehlo.reverse", call.operands, kind, dims=(axis,))
        made = f"%sum.{len(call.body.operations)}"
        _along(call, turned, axis, {made: kind}, ones)
        call.finish("stablehlo.reverse", [made], dims=(axis,))
        return
    _along(call, call.operands[0], axis, call.results, ones)


def _along(
    call: Call, operand: str, axis: int, results: Mapping[str, TensorType], ones: tuple[int, ...]
) -> None:
    size = call.kind.dims[axis]
    padding = [0] * (2 * len(ones))
    padding[2 * axis] = size - 1
    _windowed(
        call, operand, "add", results,
        window_dimensions=tuple(size if i == axis else 1 for i in range(len(ones))),
        window_strides=ones, base_dilations=ones, window_dilations=ones, padding=tuple(padding),
    )  # fmt: skip


def _top(call: Call) -> None:
    last = len(call.type_of(0).dims) - 1
    axis = call.param("axis")
    if isinstance(axis, int) and axis not in {-1, last}:
        call.finish("jax.top_k", call.operands)
        return
    call.finish("chlo.top_k", call.operands, k=call.int("k"))


def _sort(call: Call) -> None:
    compared = Operation(
        "stablehlo.compare", (), ("%less",), (TensorType(_SCALAR, "bool"),), {}, ("LT",)
    )
    call.body.add(
        "stablehlo.sort", call.operands, call.results, regions=(Region((), (compared,)),),
        dimension=call.int("dimension"),
    )  # fmt: skip


REDUCTIONS: Mapping[str, Converter] = MappingProxyType(
    {
        "reduce_sum": _reduce("add"), "reduce_max": _reduce("maximum"),
        "reduce_min": _reduce("minimum"), "reduce_prod": _reduce("multiply"),
        "reduce_and": _reduce("and"), "reduce_or": _reduce("or"),
        "argmax": _place_of_best("GT", "maximum"), "argmin": _place_of_best("LT", "minimum"),
        "reduce_window_sum": _window("add"), "reduce_window_max": _window("maximum"),
        "reduce_window_min": _window("minimum"), "cumsum": _running_sum, "top_k": _top,
        "sort": _sort,
    }
)  # fmt: skip
