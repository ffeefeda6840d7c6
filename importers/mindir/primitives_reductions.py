"""Reductions, softmax, sorting and scanning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten import aten
from importers.torch_export.aten_reductions import axes_of
from importers.traced.call import Call, Converter


@parametrised
def _extreme(call: Call, kind: str, index: str) -> None:
    """Where the largest along a dimension is, and the largest itself."""
    value = call.tensor("self")
    axis = call.axis("axis", len(value.dims), 0)
    keep = int(call.flag("keep_dims"))
    for place, wanted in enumerate(call.results):
        if wanted is None or not call.wants(place):
            continue
        if place == 0:
            found = call.step(index, [value], wanted.dims, "int64", axis=axis, keepdims=keep)
        else:
            found = call.step(kind, [value, call.shape([axis])], wanted.dims, keepdims=keep)
        call.finish(found, place)


@parametrised
def _place(call: Call, kind: str) -> None:
    value = call.tensor("self")
    axis = call.axis("axis", len(value.dims), -1)
    found = call.step(kind, [value], call.result.dims, "int64", axis=axis, keepdims=0)
    call.finish(found)


def _top(call: Call) -> None:
    """Of the last dimension unless told; places in the type that the file notes."""
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    largest, order = (int(call.flag(n, default=True)) for n in ("largest", "sorted"))
    _ordered(call, axis, call.int("k"), largest, order)


def _sort(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    _ordered(call, axis, value.dims[axis], int(call.flag("descending")), 1)


def _ordered(call: Call, axis: int, count: int, largest: int, order: int) -> None:
    value, made = call.tensor("self"), []
    for index, wanted in enumerate(call.results[:2]):
        if wanted is None:
            raise call.fault("it makes no tensors")
        exact = index == 0 or wanted.dtype == "int64"
        name = f"{call.name}/places"
        made.append(wanted if exact else call.writer.tensor(name, wanted.dims, "int64"))
    call.write("TopK", [value, call.shape([count])], made, axis=axis, largest=largest, sorted=order)
    call.alias(made[0])
    call.finish(made[1], 1)


def _deviation(call: Call) -> None:
    """The deviation, and the mean."""
    value, axes = call.tensor("self"), axes_of(call, call.tensor("self"))
    correction = 1.0 if call.flag("unbiased", default=True) else 0.0
    call.arguments = {**call.arguments, "correction": correction}
    aten("std.correction")(call)
    mean = call.results[1]
    if mean is not None and call.wants(1):
        keep = int(call.flag("keepdim"))
        call.alias(call.step("ReduceMean", [value, call.shape(axes)], mean.dims, keepdims=keep), 1)


def _unit(call: Call) -> None:
    """Divided by its length along a dimension."""
    value = call.tensor("self")
    axes = call.ints("axis", (0,))
    if len(axes) != 1:
        raise UnsupportedError(call.target)
    call.emit("LpNormalization", [value], axis=call.normal(axes[0], len(value.dims)), p=2)


@parametrised
def _scan(call: Call, kind: str) -> None:
    value = call.tensor("self")
    axis = call.writer.constant(call.axis("axis", len(value.dims)), "int64")
    call.emit(
        kind, [value, axis], exclusive=int(call.flag("exclusive")),
        reverse=int(call.flag("reverse")),
    )  # fmt: skip


_KEEP = "axis as dim, keep_dims as keepdim"

REDUCTIONS: Mapping[str, Converter] = MappingProxyType(
    {
        f"ReduceSum(x as self, {_KEEP}, skip_mode)": aten("sum.dim_IntList"),
        f"ReduceMean(x as self, {_KEEP})": aten("mean.dim"),
        f"ReduceMax(x as self, {_KEEP})": aten("amax"),
        f"ReduceMin(x as self, {_KEEP})": aten("amin"),
        f"ReduceProd(x as self, {_KEEP})": aten("prod.dim_int"),
        f"ReduceAll(input as self, {_KEEP})": aten("all.dims"),
        f"ReduceAny(x as self, {_KEEP})": aten("any.dims"),
        "SumExt(input as self, dim, keepdim, dtype)": aten("sum.dim_IntList"),
        "MeanExt(input as self, dim, keepdim, dtype)": aten("mean.dim"),
        "ProdExt(input as self, dim, keepdim, dtype)": aten("prod.dim_int"),
        "Max(input as self)": aten("max"),
        "Min(input as self)": aten("min"),
        "Norm(input as self, p, dim, keepdim, dtype)": aten("norm.ScalarOpt_dim"),
        "LinalgVectorNorm(x as self, ord, dim, keepdim, dtype)": aten("linalg_vector_norm"),
        "LpNorm(input as self, axis as dim, p, keep_dims as keepdim, epsilon)":
            aten("norm.ScalarOpt_dim"),
        "L2Normalize(input_x as self, axis, epsilon)": _unit,
        "LogSumExp(input as self, dim, keepdim)": aten("logsumexp"),
        "ReduceStd(x as self, axis as dim, unbiased, keep_dims as keepdim)": _deviation,
        "Var(input as self, dim, correction, keepdim)": aten("var.correction"),
        "Std(input as self, dim, correction, keepdim)": aten("std.correction"),
        "VarMean(input as self, dim, correction, keepdim)": aten("var_mean.correction"),
        "ArgMaxWithValue(input as self, axis, keep_dims)": _extreme("ReduceMax", "ArgMax"),
        "ArgMinWithValue(input as self, axis, keep_dims)": _extreme("ReduceMin", "ArgMin"),
        "MaxDim(input as self, dim, keepdim)": aten("max.dim"),
        "MinDim(input as self, dim, keepdim)": aten("min.dim"),
        "Argmax(input_x as self, axis, output_type)": _place("ArgMax"),
        "Argmin(x as self, axis, output_type)": _place("ArgMin"),
        "ArgMaxExt(input as self, dim, keepdim)": aten("argmax"),
        "ArgMinExt(input as self, dim, keepdim)": aten("argmin"),
        "TopK(input as self, k, sorted)": _top,
        "TopkExt(input as self, k, dim, largest, sorted)": _top,
        "Sort(x as self, axis as dim, descending)": _sort,
        "SortExt(input as self, dim, descending, stable)": _sort,
        "Softmax(input as self, axis as dim)": aten("softmax.int"),
        "LogSoftmax(logits as self, axis as dim)": aten("log_softmax.int"),
        "LogSoftmaxExt(input as self, dim, dtype)": aten("log_softmax.int"),
        "CumSum(input as self, axis, exclusive, reverse)": _scan("CumSum"),
        "CumsumExt(input as self, dim, dtype)": aten("cumsum"),
        "CumProd(x as self, axis, exclusive, reverse)": _scan("CumProd"),
    }
)  # fmt: skip
