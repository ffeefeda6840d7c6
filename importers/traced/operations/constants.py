"""Tensors that follow from sizes alone, and random ones."""

from __future__ import annotations

from importers.onnx_checks import type_code
from importers.parameters import parametrised
from importers.traced.call import Call, with_arguments
from importers.traced.table import spelled
from ir.graph import Tensor

_OPTIONS = "dtype, layout, device, pin_memory"
_LIKE = f"{_OPTIONS}, memory_format"


@spelled(
    aten=f"full(size, fill_value as value, {_OPTIONS}); scalar_tensor(s as value, {_OPTIONS});"
    f"full_like(self, fill_value as value, {_LIKE}); fill.Scalar(self, value);"
    f"new_full(self, size, fill_value as value, {_OPTIONS})",
    mindir="Fill(type, shape, value); FillV2(shape, value);"
    "FillScalar(size, fill_value as value, dtype); FullLike(input, fill_value as value, dtype)",
)
def _filled(call: Call) -> None:
    """One number throughout."""
    value, dtype = call.get("value"), call.result.dtype
    one = call.cast(value, dtype) if isinstance(value, Tensor) else call.scalar(value, dtype)
    if call.result.dims:
        call.answer.expand(one, *call.result.dims)
    else:
        call.alias(one)


spelled(
    aten=f"zeros(size, {_OPTIONS}); zeros_like(self, {_LIKE}); new_zeros(self, size, {_OPTIONS});"
    f"zero(self); empty.memory_format(size, {_LIKE}); empty_like(self, {_LIKE});"
    f"new_empty(self, size, {_OPTIONS}); empty_permuted(size, physical_layout, {_OPTIONS})",
    mindir="Zeros(size, dtype); ZerosLike(x); ZerosLikeExt(input, dtype)",
)(with_arguments(_filled, value=0))
spelled(
    aten=f"ones(size, {_OPTIONS}); ones_like(self, {_LIKE}); new_ones(self, size, {_OPTIONS})",
    mindir="Ones(shape, dtype); OnesLike(x); OnesLikeExt(input, dtype)",
)(with_arguments(_filled, value=1))


@spelled(
    aten=f"arange(end, {_OPTIONS}); arange.start(start, end, {_OPTIONS});"
    f"arange.start_step(start, end, step, {_OPTIONS})",
    mindir="Range(start, end, step, maxlen); Arange(start, end, step, dtype)",
)
def _range(call: Call) -> None:
    dtype = call.result.dtype
    start, step = call.get("start", 0), call.get("step", 1)
    bounds = [call.scalar(v, dtype) for v in (start, call.get("end"), step)]
    call.emit("Range", bounds)


@spelled(
    aten=f"linspace(start, end, steps, {_OPTIONS})",
    mindir="LinSpace(start, stop as end, num as steps)",
)
def _spaced(call: Call) -> None:
    """The numbers of a range, stretched."""
    dtype, count = call.result.dtype, call.result.dims[0]
    start, end = call.float("start", 0.0), call.float("end", 0.0)
    step = (end - start) / max(1, count - 1)
    numbers = [call.scalar(v, "float32") for v in (0, count, 1)]
    places = call.op("Range", numbers, (count,), "float32")
    wide = call.mul(call.cast(places, dtype), call.scalar(step, dtype))
    call.answer.add(wide, call.scalar(start, dtype))


@parametrised
def _drawn(call: Call, kind: str) -> None:
    """Random numbers with these dims."""
    code = type_code(call.result.dtype)
    if kind.endswith("Like"):
        call.emit(kind, [call.tensor("self")], dtype=code)
    else:
        call.emit(kind, [], dtype=code, shape=list(call.result.dims))


spelled(aten=f"rand(size, {_OPTIONS})")(_drawn("RandomUniform"))
spelled(aten=f"randn(size, {_OPTIONS})")(_drawn("RandomNormal"))
spelled(aten=f"rand_like(self, {_LIKE})")(_drawn("RandomUniformLike"))
spelled(aten=f"randn_like(self, {_LIKE})")(_drawn("RandomNormalLike"))


@spelled(aten="bernoulli(self, generator)")
def _bernoulli(call: Call) -> None:
    call.emit("Bernoulli", [call.tensor("self")])
