"""Reductions, statistics along an axis, sorting and scanning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ir.ops.registry import (
    Needs,
    OpView,
    Resizing,
    enter,
    kinds_of,
    per_operand,
    per_result,
    primitives,
    show,
    spell,
    take_apart,
    write,
)
from ir.ops.spelling import Form
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single


def reduced_axes(view: OpView) -> tuple[int, ...]:
    """Axes that a reduction removes or shrinks to one; normalised by the importer."""
    return view.ints("axes", tuple(range(len(view.dims(0)))))


def _reduce_maps(view: OpView, builder: RuleBuilder) -> tuple[list[int], FactorMap]:
    dims, axes = view.dims(0), set(reduced_axes(view))
    factors = builder.factors(dims)
    keep = len(view.result()) == len(dims)
    result = tuple(
        (() if i in axes else (f,)) for i, f in enumerate(factors) if keep or i not in axes
    )
    return factors, result


def sum_rule(view: OpView) -> ShardingRule:
    """A split reduced axis leaves a partial sum; a mean is the sum over a known count."""
    builder = RuleBuilder()
    factors, result = _reduce_maps(view, builder)
    return builder.build([single(factors), *[None] * (len(view.op.inputs) - 1)], [result])


def internal_reduce_rule(view: OpView) -> ShardingRule:
    """A reduction that is no sum: a split reduced axis is reduced inside the operator."""
    return _internal_reduce_rule(view, backward=0)


def extreme_rule(view: OpView) -> ShardingRule:
    """Elements that are equally large share the gradient: backward they are counted."""
    return _internal_reduce_rule(view, backward=1)


def _internal_reduce_rule(view: OpView, backward: int) -> ShardingRule:
    builder = RuleBuilder()
    factors, result = _reduce_maps(view, builder)
    axes = set(reduced_axes(view))
    kept = tuple(f for i, f in enumerate(factors) if i not in axes)
    builder.internal.append(
        InternalCollective(tuple(factors[i] for i in sorted(axes)), kept, backward=backward)
    )
    return builder.build([single(factors), *[None] * (len(view.op.inputs) - 1)], [result])


def locked_axis_rule(view: OpView) -> ShardingRule:
    """Everything along `axis` stays on one device; results keep the other dimensions."""
    builder = RuleBuilder()
    dims, axis = view.dims(0), view.int("axis", len(view.dims(0)) - 1)
    factors = builder.factors(dims)
    builder.locked.update(factors[a] for a in statistics_axes(view))
    return builder.build(
        [single(factors), *[None] * (len(view.op.inputs) - 1)],
        [_follow(t.dims, dims, axis, factors) for t in view.outputs],
    )


def _follow(
    result: tuple[int, ...], dims: tuple[int, ...], axis: int, factors: list[int]
) -> FactorMap:
    if len(result) == len(dims):
        return tuple(
            (f,) if i != axis or result[i] == dims[i] else () for i, f in enumerate(factors)
        )
    return tuple((f,) for i, f in enumerate(factors) if i != axis)


def statistics_axes(view: OpView) -> tuple[int, ...]:
    """Axes over which softmax normalises."""
    rank = len(view.dims(0))
    axis = view.int("axis", rank - 1)
    return tuple(range(axis, rank)) if view.int("to_end") else (axis,)


def softmax_rule(view: OpView) -> ShardingRule:
    """A split axis exchanges maximum and sum forward, one sum backward.

    With the attribute `to_end` the dimensions from `axis` on are one, as before opset 13.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    axes = statistics_axes(view)
    summed = tuple(factors[a] for a in axes)
    others = tuple(f for i, f in enumerate(factors) if i not in axes)
    builder.internal.append(InternalCollective(summed, others, forward=2, backward=1))
    builder.uncut.update(summed)
    return builder.build([single(factors)], [single(factors)])


SUMS = ("ReduceSum", "ReduceMean")
"""Of a part they are a term of the whole."""
EXTREMES: Mapping[str, int] = MappingProxyType({"ReduceMax": 1, "ReduceMin": -1})
"""The sign with which each takes the largest element."""

enter(
    *SUMS,
    rule=sum_rule,
    differentiable=(0,),
    fusible=True,
    flops=per_operand(1),
)


enter(
    "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    rule=internal_reduce_rule, needs=Needs.OPERANDS_AND_RESULT, differentiable=(0,),
    flops=per_operand(2),
)  # fmt: skip
enter(
    *EXTREMES,
    rule=extreme_rule,
    needs=Needs.OPERANDS_AND_RESULT,
    differentiable=(0,),
    flops=per_operand(2),
)


REDUCTIONS = kinds_of("reduction")
"""What takes axes away, or leaves them with one element."""

MEANS = ("ReduceMean", "GlobalAveragePool")
SOFTMAXES: Mapping[str, bool] = MappingProxyType({"Softmax": False, "LogSoftmax": True})
"""Whether each takes the logarithm."""
PLACES = ("ArgMax", "ArgMin")
"""Where the largest or least element along an axis is."""
SCANS = ("CumSum", "CumProd")
"""Every element with all before it along an axis."""

# Maximum, difference, exponential, sum and quotient of each element.
enter(*SOFTMAXES, rule=softmax_rule, needs=Needs.RESULT, flops=per_result(5))


enter(
    *PLACES, rule=locked_axis_rule, differentiable=(), flops=per_operand(1), whole_at_any_size=True
)


enter(
    "TopK", rule=locked_axis_rule, needs=Needs.RESULT, differentiable=(0,), flops=per_operand(8),
    resizing=Resizing.RANKED,
)  # fmt: skip


enter(
    "CumProd",
    rule=locked_axis_rule,
    whole_at_any_size=True,
    needs=Needs.OPERANDS_AND_RESULT,
    differentiable=(0,),
    flops=per_operand(1),
)
enter(
    "CumSum", rule=locked_axis_rule, differentiable=(0,), flops=per_operand(1),
    whole_at_any_size=True,
)  # fmt: skip
enter(
    "Hardmax", rule=locked_axis_rule, differentiable=(), flops=per_operand(1),
    whole_at_any_size=True,
)  # fmt: skip


_DIMS = "axis as dim, keep_dims as keepdim"
_TYPED = "input as self, dim, keepdim, dtype"
_SCANNED = "axis as dim, exclusive, reverse"
"""Arguments of MindSpore's reductions, older and newer ones, and of its scans."""

spell(
    Form.REDUCTION,
    ReduceMax=("amax; max(self)", f"ReduceMax(x as self, {_DIMS}); Max(input as self)"),
    ReduceMin=("amin; min(self)", f"ReduceMin(x as self, {_DIMS}); Min(input as self)"),
    ReduceMean=(
        "mean(self, dtype); mean.dim(self, dim, keepdim, dtype)",
        f"ReduceMean(x as self, {_DIMS}); MeanExt({_TYPED})",
    ),
    ReduceProd=(
        "prod(self, dtype); prod.dim_int(self, dim, keepdim, dtype)",
        f"ReduceProd(x as self, {_DIMS}); ProdExt({_TYPED})",
    ),
    ReduceSum=(
        "sum(self, dtype); sum.dim_IntList(self, dim, keepdim, dtype)",
        f"ReduceSum(x as self, {_DIMS}, skip_mode); SumExt({_TYPED})",
    ),
    ReduceLogSumExp=("logsumexp", "LogSumExp"),
)
spell(
    Form.ALONG,
    Softmax=(
        "softmax.int _safe_softmax(self, dim, dtype); _softmax(self, dim, half_to_float)",
        "Softmax(input as self, axis as dim)",
    ),
    LogSoftmax=(
        "log_softmax.int(self, dim, dtype); _log_softmax(self, dim, half_to_float)",
        "LogSoftmax(logits as self, axis as dim); LogSoftmaxExt(input as self, dim, dtype)",
    ),
)
spell(
    Form.SCAN,
    CumSum=(
        "cumsum(self, dim, dtype)",
        f"CumSum(input as self, {_SCANNED}); CumsumExt(input as self, dim, dtype)",
    ),
    CumProd=("", f"CumProd(x as self, {_SCANNED})"),
)

_SHIFTED = "Sub(x, ReduceMax(x))"

take_apart("ReduceMean", "Div(ReduceSum(x), n_count)", "Mul(ReduceSum(x), n_share)")
take_apart(
    "Softmax", f"Div(Exp({_SHIFTED}), ReduceSum(Exp({_SHIFTED})))", "Div(Exp(x), ReduceSum(Exp(x)))"
)
take_apart("LogSoftmax", f"Sub({_SHIFTED}, Log(ReduceSum(Exp({_SHIFTED}))))")
write(
    ReduceSum="total", ReduceMean="average", ReduceMax="maximum",
    ReduceMin="minimum", Hardmax="hardmax", TopK="top_k", **dict.fromkeys(SOFTMAXES, "softmax"),
    **dict.fromkeys(PLACES, "place"), **dict.fromkeys(SCANS, "scan"), ReduceProd="reduction",
    ReduceL1="reduction", ReduceL2="reduction", ReduceSumSquare="reduction",
    ReduceLogSum="reduction", ReduceLogSumExp="reduction",
)  # fmt: skip
primitives(
    "CumProd", "CumSum", "LogSoftmax", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "Softmax", "TopK", ArgMax="Argmax", ArgMin="Argmin",
)  # fmt: skip
show(
    CumProd="(float[2,4,6] x) => (y) <int64 axis = {1}> {y = CumProd(x, axis)}",
    CumSum="(float[2,4,6] x) => (y) <int64 axis = {1}> {y = CumSum(x, axis)}",
    TopK="(float[2,4,6] x) => (y, i) <int64[1] k = {3}> {y, i = TopK(x, k)}",
)  # fmt: skip
