"""Reductions, softmax, normalisations, sorting and scanning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def axes_of(call: Call, value: Tensor, name: str = "dim") -> tuple[int, ...]:
    """Dimensions of a reduction; all where none are named."""
    rank = len(value.dims)
    asked = call.ints(name) if call.has(name) else ()
    return tuple(sorted({call.normal(d, rank) for d in asked})) or tuple(range(rank))


def reduced(call: Call, kind: str, value: Tensor, axes: Sequence[int]) -> Tensor:
    """A reduction that keeps its dimensions, with size 1."""
    dims = tuple(1 if i in axes else d for i, d in enumerate(value.dims))
    return call.step(kind, [value, call.shape(list(axes))], dims, keepdims=1)


@parametrised
def _reduce(call: Call, kind: str) -> None:
    """Over some dimensions or all of them, in the type of the result."""
    value = call.tensor("self")
    axes = axes_of(call, value)
    value = call.cast(value, call.result.dtype)
    if not value.dims:
        call.alias(value)
        return
    keep = int(call.flag("keepdim"))
    # ReduceMax and ReduceMin take axes as an operand like the others, from opset 18 on.
    call.emit(kind, [value, call.shape(axes)], keepdims=keep)


@parametrised
def _any_all(call: Call, kind: str) -> None:
    """Of flags: the largest or smallest of zeros and ones."""
    value = call.cast(call.cast(call.tensor("self"), "bool"), "int32")
    axes = axes_of(call, value)
    keep = int(call.flag("keepdim"))
    dims = call.result.dims
    most = call.step(kind, [value, call.shape(axes)], dims, keepdims=keep)
    call.finish(most)


@parametrised
def _extreme(call: Call, kind: str, index: str) -> None:
    """The largest along one dimension, and where it is."""
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims))
    keep = int(call.flag("keepdim"))
    dims = call.result.dims
    if call.wants(0):
        call.alias(call.step(kind, [value, call.shape([axis])], dims, keepdims=keep))
    if call.wants(1):
        place = call.step(index, [value], dims, "int64", axis=axis, keepdims=keep)
        call.alias(place, 1)


@parametrised
def _place(call: Call, kind: str) -> None:
    """Where the largest is: along one dimension, or in the flattened tensor."""
    value = call.tensor("self")
    if not call.has("dim"):
        flat = (math.prod(value.dims),)
        value = call.step("Reshape", [value, call.shape(flat)], flat)
        call.emit(kind, [value], axis=0, keepdims=0)
        return
    axis = call.axis("dim", len(value.dims))
    call.emit(kind, [value], axis=axis, keepdims=int(call.flag("keepdim")))


@parametrised
def _variance(call: Call, *, root: bool, mean: bool) -> None:
    """The mean square of what is left of the mean, over a count less the correction."""
    value = call.tensor("self")
    axes = axes_of(call, value)
    unbiased = call.get("unbiased", True)
    correction = call.float("correction", 1.0 if unbiased else 0.0)
    count = math.prod(value.dims[a] for a in axes)
    average = reduced(call, "ReduceMean", value, axes)
    rest = call.step("Sub", [value, average])
    power = call.step("Mul", [rest, rest])
    keep, result = int(call.flag("keepdim")), call.result
    spread = call.step("ReduceMean", [power, call.shape(axes)], result.dims, keepdims=keep)
    if correction and count > correction:
        factor = call.scalar(count / (count - correction), value.dtype)
        spread = call.step("Mul", [spread, factor])
    call.alias(call.step("Sqrt", [spread]) if root else spread)
    if mean and call.wants(1):
        same = average.dims == result.dims
        flat = call.shape(result.dims)
        call.alias(average if same else call.step("Reshape", [average, flat], result.dims), 1)


def _norm(call: Call) -> None:
    value = call.tensor("self")
    power = call.get("p", call.get("ord", 2))
    kinds: dict[object, str] = {1: "ReduceL1", 2: "ReduceL2"}
    kind = kinds.get(power) if isinstance(power, int | float) else None
    if kind is None:
        raise UnsupportedError(call.target)
    call.emit(kind, [value, call.shape(axes_of(call, value))], keepdims=int(call.flag("keepdim")))


def _log_sum_exp(call: Call) -> None:
    value = call.tensor("self")
    axes = call.shape(axes_of(call, value))
    call.emit("ReduceLogSumExp", [value, axes], keepdims=int(call.flag("keepdim")))


@parametrised
def _softmax(call: Call, kind: str) -> None:
    value = call.cast(call.tensor("self"), call.result.dtype)
    call.emit(kind, [value], axis=call.axis("dim", len(value.dims), -1))


@parametrised
def _scan(call: Call, kind: str) -> None:
    value = call.cast(call.tensor("self"), call.result.dtype)
    axis = call.writer.constant(call.axis("dim", len(value.dims)), "int64")
    call.emit(kind, [value, axis])


def _top(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    number = call.shape([call.int("k")])
    largest, order = int(call.flag("largest", default=True)), int(call.flag("sorted", default=True))
    call.emit("TopK", [value, number], axis=axis, largest=largest, sorted=order)


def _sort(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    number = call.shape([value.dims[axis] if value.dims else 1])
    call.emit("TopK", [value, number], axis=axis, largest=int(call.flag("descending")), sorted=1)


def _argsort(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    ordered = call.writer.tensor(f"{call.name}/sorted", value.dims, value.dtype)
    call.made[0] = call.result
    number = call.shape([value.dims[axis]])
    largest = int(call.flag("descending"))
    call.write(
        "TopK", [value, number], [ordered, call.result], axis=axis, largest=largest, sorted=1
    )


REDUCTIONS: Mapping[str, Converter] = MappingProxyType(
    {
        "sum(self, dtype)": _reduce("ReduceSum"),
        "sum.dim_IntList(self, dim, keepdim, dtype)": _reduce("ReduceSum"),
        "mean(self, dtype)": _reduce("ReduceMean"),
        "mean.dim(self, dim, keepdim, dtype)": _reduce("ReduceMean"),
        "amax(self, dim, keepdim)": _reduce("ReduceMax"),
        "amin(self, dim, keepdim)": _reduce("ReduceMin"),
        "max(self)": _reduce("ReduceMax"),
        "min(self)": _reduce("ReduceMin"),
        "prod(self, dtype)": _reduce("ReduceProd"),
        "prod.dim_int(self, dim, keepdim, dtype)": _reduce("ReduceProd"),
        "any(self)": _any_all("ReduceMax"),
        "any.{dim,dims}(self, dim, keepdim)": _any_all("ReduceMax"),
        "all(self)": _any_all("ReduceMin"),
        "all.{dim,dims}(self, dim, keepdim)": _any_all("ReduceMin"),
        "max.dim(self, dim, keepdim)": _extreme("ReduceMax", "ArgMax"),
        "min.dim(self, dim, keepdim)": _extreme("ReduceMin", "ArgMin"),
        "argmax(self, dim, keepdim)": _place("ArgMax"),
        "argmin(self, dim, keepdim)": _place("ArgMin"),
        "var(self, unbiased)": _variance(root=False, mean=False),
        "var.dim(self, dim, unbiased, keepdim)": _variance(root=False, mean=False),
        "var.correction(self, dim, correction, keepdim)": _variance(root=False, mean=False),
        "std(self, unbiased)": _variance(root=True, mean=False),
        "std.dim(self, dim, unbiased, keepdim)": _variance(root=True, mean=False),
        "std.correction(self, dim, correction, keepdim)": _variance(root=True, mean=False),
        "var_mean.dim(self, dim, unbiased, keepdim)": _variance(root=False, mean=True),
        "var_mean.correction(self, dim, correction, keepdim)": _variance(root=False, mean=True),
        "norm.Scalar(self, p)": _norm,
        "norm.ScalarOpt_dim(self, p, dim, keepdim)": _norm,
        "linalg_vector_norm(self, ord, dim, keepdim, dtype)": _norm,
        "logsumexp(self, dim, keepdim)": _log_sum_exp,
        "softmax.int(self, dim, dtype)": _softmax("Softmax"),
        "_softmax(self, dim, half_to_float)": _softmax("Softmax"),
        "_safe_softmax(self, dim, dtype)": _softmax("Softmax"),
        "log_softmax.int(self, dim, dtype)": _softmax("LogSoftmax"),
        "_log_softmax(self, dim, half_to_float)": _softmax("LogSoftmax"),
        "cumsum(self, dim, dtype)": _scan("CumSum"),
        "topk(self, k, dim, largest, sorted)": _top,
        "sort(self, dim, descending)": _sort,
        "sort.stable(self, stable, dim, descending)": _sort,
        "argsort(self, dim, descending)": _argsort,
        "argsort.stable(self, stable, dim, descending)": _argsort,
    }
)  # fmt: skip
