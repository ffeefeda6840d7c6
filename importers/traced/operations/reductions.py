"""Reductions, softmax, sorting and scanning."""

from __future__ import annotations

import math

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, with_arguments
from importers.traced.table import spelled
from ir.graph import Tensor


def axes_of(call: Call, value: Tensor, name: str = "dim") -> tuple[int, ...]:
    """Dimensions of a reduction; all where none are named."""
    rank = len(value.dims)
    asked = call.ints(name) if call.has(name) else ()
    return tuple(sorted({call.normal(d, rank) for d in asked})) or tuple(range(rank))


@parametrised
def reduction(call: Call, kind: str) -> None:
    """Over some dimensions or all of them, in the type of the result."""
    value = call.tensor("self")
    axes = axes_of(call, value)
    value = call.cast(value, call.result.dtype)
    if not value.dims:
        call.alias(value)
        return
    # ReduceMax and ReduceMin take axes as an operand like the others, from opset 18 on.
    call.answer.reduce(kind, value, axes, keep=call.flag("keepdim"))


@parametrised
def _any_all(call: Call, kind: str) -> None:
    """Of flags: the largest or smallest of zeros and ones."""
    value = call.cast(call.cast(call.tensor("self"), "bool"), "int32")
    call.finish(call.reduce(kind, value, axes_of(call, value), keep=call.flag("keepdim")))


spelled(
    aten="any(self); any.{dim,dims}(self, dim, keepdim)",
    mindir="ReduceAny(x as self, axis as dim, keep_dims as keepdim)",
)(_any_all("ReduceMax"))
spelled(
    aten="all(self); all.{dim,dims}(self, dim, keepdim)",
    mindir="ReduceAll(input as self, axis as dim, keep_dims as keepdim)",
)(_any_all("ReduceMin"))


@parametrised
def _extreme(call: Call, *kinds: str) -> None:
    """The largest along one dimension and where it is, in the order of the results."""
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    keep = call.flag("keepdim")
    for place, kind in enumerate(kinds):
        if not call.is_read(place):
            continue
        if kind.startswith("Arg"):
            dims = call.result.dims
            found = call.op(kind, [value], dims, "int64", axis=axis, keepdims=int(keep))
        else:
            found = call.reduce(kind, value, [axis], keep=keep)
        call.finish(found, place)


spelled(aten="max.dim(self, dim, keepdim)", mindir="MaxDim(input as self, dim, keepdim)")(
    _extreme("ReduceMax", "ArgMax")
)
spelled(aten="min.dim(self, dim, keepdim)", mindir="MinDim(input as self, dim, keepdim)")(
    _extreme("ReduceMin", "ArgMin")
)
spelled(mindir="ArgMaxWithValue(input as self, axis as dim, keep_dims as keepdim)")(
    _extreme("ArgMax", "ReduceMax")
)
spelled(mindir="ArgMinWithValue(input as self, axis as dim, keep_dims as keepdim)")(
    _extreme("ArgMin", "ReduceMin")
)


@parametrised
def _place(call: Call, kind: str) -> None:
    """Where the largest is: along one dimension, or in the flattened tensor."""
    value = call.tensor("self")
    if not call.has("dim"):
        value = call.reshape(value, math.prod(value.dims))
        call.emit(kind, [value], axis=0, keepdims=0)
        return
    axis, keep = call.axis("dim", len(value.dims)), int(call.flag("keepdim"))
    call.emit_as("int64", kind, [value], axis=axis, keepdims=keep)


for _kind, _line in (("ArgMax", "Argmax(input_x"), ("ArgMin", "Argmin(x")):
    spelled(
        aten=f"{_kind.lower()}(self, dim, keepdim)",
        mindir=f"{_kind}Ext(input as self, dim, keepdim)",
    )(_place(_kind))
    spelled(mindir=f"{_line} as self, axis as dim, output_type)")(_place(_kind))


@parametrised
def _variance(call: Call, *, root: bool = False, mean: bool = False) -> None:
    """The mean square of what is left of the mean, over a count less the correction."""
    value = call.tensor("self")
    axes = axes_of(call, value)
    unbiased = call.get("unbiased", True)
    correction = call.float("correction", 1.0 if unbiased else 0.0)
    count = math.prod(value.dims[a] for a in axes)
    average = call.reduce_mean(value, *axes)
    rest = call.sub(value, average)
    spread = call.reduce_mean(call.mul(rest, rest), *axes, keep=call.flag("keepdim"))
    if correction and count > correction:
        spread = call.mul(spread, call.scalar(count / (count - correction), value.dtype))
    call.alias(call.sqrt(spread) if root else spread)
    if mean and call.is_read(1):
        dims = call.result.dims
        call.alias(average if average.dims == dims else call.reshape(average, *dims), 1)


_CORRECTED = "(input as self, dim, correction, keepdim)"
spelled(
    aten="var(self, unbiased); var.dim(self, dim, unbiased, keepdim);"
    "var.correction(self, dim, correction, keepdim)",
    mindir=f"Var{_CORRECTED}",
)(_variance())
spelled(
    aten="std(self, unbiased); std.dim(self, dim, unbiased, keepdim);"
    "std.correction(self, dim, correction, keepdim)",
    mindir=f"Std{_CORRECTED}",
)(_variance(root=True))
spelled(
    aten="var_mean.dim(self, dim, unbiased, keepdim);"
    "var_mean.correction(self, dim, correction, keepdim)",
    mindir=f"VarMean{_CORRECTED}",
)(_variance(mean=True))


@spelled(mindir="ReduceStd(x as self, axis as dim, unbiased, keep_dims as keepdim)")
def _deviation(call: Call) -> None:
    """The deviation, and the mean."""
    value, axes = call.tensor("self"), axes_of(call, call.tensor("self"))
    correction = 1.0 if call.flag("unbiased", default=True) else 0.0
    with_arguments(_variance(root=True), correction=correction)(call)
    mean = call.results[1]
    if mean is not None and call.is_read(1):
        call.alias(call.reduce_mean(value, *axes, keep=call.flag("keepdim")), 1)


@spelled(
    aten="norm.Scalar(self, p); norm.ScalarOpt_dim(self, p, dim, keepdim);"
    "linalg_vector_norm(self, ord as p, dim, keepdim, dtype)",
    mindir="Norm(input as self, p, dim, keepdim, dtype);"
    "LinalgVectorNorm(x as self, ord as p, dim, keepdim, dtype);"
    "LpNorm(input as self, axis as dim, p, keep_dims as keepdim, epsilon)",
)
def _norm(call: Call) -> None:
    value, power = call.tensor("self"), call.get("p", 2)
    kinds: dict[object, str] = {1: "ReduceL1", 2: "ReduceL2"}
    kind = kinds.get(power) if isinstance(power, int | float) else None
    if kind is None:
        raise UnsupportedError(call.target)
    call.emit(kind, [value, call.shape(axes_of(call, value))], keepdims=int(call.flag("keepdim")))


@spelled(mindir="L2Normalize(input_x as self, axis, epsilon)")
def _unit(call: Call) -> None:
    """Divided by its length along a dimension."""
    value = call.tensor("self")
    axes = call.ints("axis", (0,))
    if len(axes) != 1:
        raise UnsupportedError(call.target)
    call.emit("LpNormalization", [value], axis=call.normal(axes[0], len(value.dims)), p=2)


@parametrised
def along(call: Call, kind: str) -> None:
    """Over one dimension, which stays, in the type of the result."""
    value = call.cast(call.tensor("self"), call.result.dtype)
    call.emit(kind, [value], axis=call.axis("dim", len(value.dims), -1))


@parametrised
def scan(call: Call, kind: str) -> None:
    """Along one dimension, each result of all elements so far."""
    value = call.cast(call.tensor("self"), call.result.dtype)
    axis = call.writer.constant(call.axis("dim", len(value.dims)), "int64")
    names = ("exclusive", "reverse") if "exclusive" in call.arguments else ()
    flags = {n: int(call.flag(n)) for n in names}
    call.emit(kind, [value, axis], **flags)


def _ordered(call: Call, axis: int, count: int, largest: int, order: int = 1) -> None:
    """Numbers in order and where they were, in the type that the tracer notes."""
    value, (numbers, places) = call.tensor("self"), (*call.results, None)[:2]
    found = places
    if places is not None and places.dtype != "int64":
        found = call.writer.tensor(f"{call.name}/places", places.dims, "int64")
    call.write(
        "TopK", [value, call.shape([count])], [numbers, found],
        axis=axis, largest=largest, sorted=order,
    )  # fmt: skip
    if numbers is not None:
        call.alias(numbers)
    if found is not None:
        call.finish(found, 1)


@spelled(
    aten="topk(self, k, dim, largest, sorted)",
    mindir="TopK(input as self, k, sorted); TopkExt(input as self, k, dim, largest, sorted)",
)
def _top(call: Call) -> None:
    """Of the last dimension unless told."""
    axis = call.axis("dim", len(call.tensor("self").dims), -1)
    largest, order = (int(call.flag(n, default=True)) for n in ("largest", "sorted"))
    _ordered(call, axis, call.int("k"), largest, order)


@spelled(
    aten="sort(self, dim, descending); sort.stable(self, stable, dim, descending)",
    mindir="Sort(x as self, axis as dim, descending);"
    "SortExt(input as self, dim, descending, stable)",
)
def _sort(call: Call) -> None:
    dims = call.tensor("self").dims
    axis = call.axis("dim", len(dims), -1)
    _ordered(call, axis, dims[axis] if dims else 1, int(call.flag("descending")))


@spelled(aten="argsort(self, dim, descending); argsort.stable(self, stable, dim, descending)")
def _argsort(call: Call) -> None:
    value = call.tensor("self")
    ordered = call.writer.tensor(f"{call.name}/sorted", value.dims, value.dtype)
    call.results = (ordered, call.result)
    _sort(call)
    call.made = {0: call.made[1]}
