"""Tensors that follow from sizes alone, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.parameters import parametrised
from importers.traced.call import Argument, Call, Converter
from importers.traced.writer import type_code


def _filled(value: Argument) -> Converter:
    """One number throughout."""
    return lambda c: _fill(c, value)


def _fill(call: Call, value: Argument) -> None:
    one = call.scalar(value, call.result.dtype)
    if call.result.dims:
        call.emit("Expand", [one, call.shape(call.result.dims)])
    else:
        call.alias(one)


@parametrised
def _given(call: Call, name: str) -> None:
    value = call.arguments.get(name)
    _fill(call, value)


def _range(call: Call) -> None:
    dtype = call.result.dtype
    start, step = call.get("start", 0), call.get("step", 1)
    bounds = [call.scalar(v, dtype) for v in (start, call.get("end"), step)]
    call.emit("Range", bounds)


def _spaced(call: Call) -> None:
    """`linspace`: the numbers of a range, stretched."""
    dtype, count = call.result.dtype, call.result.dims[0]
    start, end = call.float("start", 0.0), call.float("end", 0.0)
    step = (end - start) / max(1, count - 1)
    numbers = [call.scalar(v, "float32") for v in (0, count, 1)]
    places = call.step("Range", numbers, (count,), "float32")
    wide = call.step("Mul", [call.cast(places, dtype), call.scalar(step, dtype)])
    call.emit("Add", [wide, call.scalar(start, dtype)])


@parametrised
def _drawn(call: Call, kind: str, *, like: bool) -> None:
    """Random numbers with these dims."""
    code = type_code(call.result.dtype)
    if like:
        call.emit(kind, [call.tensor("self")], dtype=code)
    else:
        call.emit(kind, [], dtype=code, shape=list(call.result.dims))


def _bernoulli(call: Call) -> None:
    call.emit("Bernoulli", [call.tensor("self")])


_OPTIONS = "dtype, layout, device, pin_memory"
_LIKE = f"{_OPTIONS}, memory_format"

CONSTANTS: Mapping[str, Converter] = MappingProxyType(
    {
        f"arange(end, {_OPTIONS})": _range,
        f"arange.start(start, end, {_OPTIONS})": _range,
        f"arange.start_step(start, end, step, {_OPTIONS})": _range,
        f"linspace(start, end, steps, {_OPTIONS})": _spaced,
        f"full(size, fill_value, {_OPTIONS})": _given("fill_value"),
        f"full_like(self, fill_value, {_LIKE})": _given("fill_value"),
        f"new_full(self, size, fill_value, {_OPTIONS})": _given("fill_value"),
        f"scalar_tensor(s, {_OPTIONS})": _given("s"),
        "fill.Scalar(self, value)": _given("value"),
        f"zeros(size, {_OPTIONS})": _filled(0),
        f"zeros_like(self, {_LIKE})": _filled(0),
        f"new_zeros(self, size, {_OPTIONS})": _filled(0),
        "zero(self)": _filled(0),
        f"ones(size, {_OPTIONS})": _filled(1),
        f"ones_like(self, {_LIKE})": _filled(1),
        f"new_ones(self, size, {_OPTIONS})": _filled(1),
        f"empty.memory_format(size, {_LIKE})": _filled(0),
        f"empty_like(self, {_LIKE})": _filled(0),
        f"new_empty(self, size, {_OPTIONS})": _filled(0),
        f"empty_permuted(size, physical_layout, {_OPTIONS})": _filled(0),
        f"rand(size, {_OPTIONS})": _drawn("RandomUniform", like=False),
        f"randn(size, {_OPTIONS})": _drawn("RandomNormal", like=False),
        f"rand_like(self, {_LIKE})": _drawn("RandomUniformLike", like=True),
        f"randn_like(self, {_LIKE})": _drawn("RandomNormalLike", like=True),
        "bernoulli(self, generator)": _bernoulli,
    }
)
