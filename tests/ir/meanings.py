"""What every kind of the catalogue computes, on a whole tensor or on a shard of it.

Most kinds are ONNX's and go to its reference evaluator. Kinds with an internal collective are
written as shards that exchange messages; their results on one device are held against ONNX too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ir.ops import OpView, catalogue, lookup
from ir.ops.reduction import reduced_axes, statistics_axes
from tests.ir import structured
from tests.ir.oracle import onnx_results
from tests.ir.shards import Array, Meaning, Shard

Dims = Sequence[tuple[int, ...]]
Operands = Sequence[Array | None]

_OWN = {"axes", "slice_axes", "starts", "ends", "steps", "to_end", "label", "row"}
"""Attributes of the normal form that ONNX does not have."""


def _plain(view: OpView, operands: Operands, dims: Dims, _: int) -> Shard:
    yield from ()
    attributes = {k: v for k, v in view.op.attributes.items() if k not in _OWN}
    return onnx_results(view.op.kind, operands, attributes, len(dims))


def _computed(function: Callable[..., object]) -> Meaning:
    """A meaning without communication: a function of the view, the operands, dims and the shard."""

    def meaning(view: OpView, operands: Operands, dims: Dims, part: int) -> Shard:
        yield from ()
        found = function(view, operands, dims, part)
        return [np.asarray(f) for f in (found if isinstance(found, list) else [found])]

    return meaning


def _pure(function: Callable[..., object]) -> Meaning:
    return _computed(lambda _view, operands, _dims, _part: function(*operands))


def _with_operand(make: Callable[[OpView, Operands, Dims], Iterable[object]]) -> Meaning:
    """ONNX's operator with operands that the normal form keeps as attributes or dims."""

    def function(view: OpView, operands: Operands, dims: Dims, _: int) -> list[Array]:
        extra = [None if e is None else np.asarray(e) for e in make(view, operands, dims)]
        attributes = {
            k: v
            for k, v in view.op.attributes.items()
            if k not in _OWN and k not in {"pads", "allowzero"}
        }
        whole = [*operands[:1], *extra]
        if view.op.kind == "Split":
            attributes.pop("num_outputs", None)
        return onnx_results(view.op.kind, whole, attributes, len(dims))

    return _computed(function)


def _ints(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int64)


def _slice_operands(view: OpView, _: Operands, __: Dims) -> list[object]:
    return [_ints(view.ints(k)) for k in ("starts", "ends", "slice_axes", "steps")]


def _matmul(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    a, b = (np.asarray(o) for o in operands[:2])
    a = np.swapaxes(a, -1, -2) if view.int("trans_a") else a
    b = np.swapaxes(b, -1, -2) if view.int("trans_b") else b
    return np.asarray(a @ b)


def _padded(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    """Padding with zeros; negative padding crops."""
    data, pads = np.asarray(operands[0]), view.ints("pads")
    low, high = pads[: data.ndim], pads[data.ndim :]
    inner = tuple(
        slice(max(0, -a), size - max(0, -b))
        for a, b, size in zip(low, high, data.shape, strict=True)
    )
    wide = [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)]
    return np.pad(data[inner], wide)


def _group_norm(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    data, scale, bias = (np.asarray(o) for o in operands)
    grouped = data.reshape(data.shape[0], view.int("num_groups"), -1)
    mean, variance = (f(grouped, axis=2, keepdims=True) for f in (np.mean, np.var))
    flat = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(data.shape)
    return np.asarray(flat * _per_channel(view, scale) + _per_channel(view, bias))


def _bias_add(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    data, bias = (np.asarray(o) for o in operands)
    axis = view.int("axis", 1)
    return np.asarray(data + bias.reshape([-1 if i == axis else 1 for i in range(data.ndim)]))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf)(x)).astype(x.dtype)


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.sqrt(2))))


def _fast_gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _nearest(_: OpView, operands: Operands, dims: Dims, __: int) -> Array:
    out = np.asarray(operands[0])
    for axis, size in enumerate(dims[0]):
        out = np.repeat(out, size // out.shape[axis], axis=axis)
    return out


def _mean_of_known_count(view: OpView, operands: Operands, dims: Dims, _: int) -> Array:
    """A sum over the whole count, so that the shards of a mean add up to it."""
    data = np.asarray(operands[0])
    axes = reduced_axes(view) if view.op.kind == "ReduceMean" else tuple(range(2, data.ndim))
    count = math.prod(view.dims(0)[a] for a in axes)
    return np.asarray(data.sum(axis=axes).reshape(dims[0]) / count)


def _sum(view: OpView, operands: Operands, dims: Dims, _: int) -> Array:
    return np.asarray(np.asarray(operands[0]).sum(axis=reduced_axes(view)).reshape(dims[0]))


def _internal_reduce(
    operation: str, before: Callable[..., Array], after: Callable[..., Array]
) -> Meaning:
    def meaning(view: OpView, operands: Operands, dims: Dims, _: int) -> Shard:
        local = before(np.asarray(operands[0]), axis=reduced_axes(view))
        total = yield operation, np.asarray(local)
        return [np.asarray(after(total)).reshape(dims[0])]

    return meaning


def _softmax(*, logarithm: bool) -> Meaning:
    def meaning(view: OpView, operands: Operands, _: Dims, __: int) -> Shard:
        x, axes = np.asarray(operands[0]), statistics_axes(view)
        top = yield "max", x.max(axis=axes, keepdims=True)
        shifted = x - top
        total = yield "sum", np.exp(shifted).sum(axis=axes, keepdims=True)
        return [shifted - np.log(total) if logarithm else np.exp(shifted) / total]

    return meaning


def _norm(
    axes_of: Callable[[OpView], tuple[int, ...]], place: Callable[[OpView, Array], Array]
) -> Meaning:
    """Mean and variance over some axes, exchanged as two sums, then scale and bias."""

    def meaning(view: OpView, operands: Operands, dims: Dims, _: int) -> Shard:
        x, axes = np.asarray(operands[0]), axes_of(view)
        count = math.prod(view.dims(0)[a] for a in axes)
        square = (yield "sum", (x * x).sum(axis=axes, keepdims=True)) / count
        mean = np.zeros_like(square)
        if view.op.kind not in {"RMSNormalization", "SimplifiedLayerNormalization"}:
            mean = (yield "sum", x.sum(axis=axes, keepdims=True)) / count
        scale = 1 / np.sqrt(square - mean**2 + float(view.op.attributes.get("epsilon", 1e-5)))  # type: ignore[arg-type]
        out = (x - mean) * scale
        for operand, join in zip(operands[1:3], (np.multiply, np.add), strict=False):
            out = out if operand is None else join(out, place(view, operand))
        return [out, mean, scale][: len(dims)]

    return meaning


def _normalised(view: OpView) -> tuple[int, ...]:
    rank = len(view.dims(0))
    return tuple(range(view.int("axis", rank - 1), rank))


def _per_channel(view: OpView, vector: Array) -> Array:
    return vector.reshape(1, -1, *[1] * (len(view.dims(0)) - 2))


def _all_but_channel(view: OpView) -> tuple[int, ...]:
    return (0, *range(2, len(view.dims(0))))


def _positions(view: OpView) -> tuple[int, ...]:
    return tuple(range(2, len(view.dims(0))))


def _loss(view: OpView, operands: Operands, _: Dims, part: int) -> Shard:
    """Softmax cross-entropy against class 1, summed."""
    x = np.asarray(operands[0])
    if x.ndim < 2:
        return [np.asarray((x * x).sum())]
    top = yield "max", x.max(axis=-1)
    total = yield "sum", np.exp(x - top[..., None]).sum(axis=-1)
    first = part * x.shape[-1] if x.shape[-1] < view.dims(0)[-1] else 0
    target = x[..., 1] if first == 0 else np.zeros(x.shape[:-1], x.dtype)
    logit = yield "sum", target
    return [np.asarray((np.log(total) + top - logit).sum())]


def _fused(view: OpView, operands: Operands, _: Dims, part: int) -> Shard:
    """The parts one after the other; a sum inside is complete before the next part reads it."""
    known = dict(zip(view.op.inputs, operands, strict=True))
    for op in view.op.parts:
        inner = OpView(op, view.graph)
        local = [known[n] if n else None for n in op.inputs]
        shape = _broadcast_dims(inner, local)
        results = yield from meaning_of(op.kind)(inner, local, [shape], part)
        rule = lookup(op.kind).rule(inner)
        kept = {f for dim in rule.results[0] or () for f in dim}
        summed = any(f not in kept for m in rule.operands if m for dim in m for f in dim)
        last = op.outputs[0] in view.op.outputs
        if summed and (not last or _completes_last(view)):
            results = [(yield "sum", results[0])]
        known[op.outputs[0]] = results[0]
    return [np.asarray(known[n]) for n in view.op.outputs]


def _completes_last(view: OpView) -> bool:
    """Whether the rule has as many collectives as the parts have sums, the last one included."""
    sums = sum("axes" in p.attributes and p.kind.startswith("Reduce") for p in view.op.parts)
    return len(lookup(view.op.kind).rule(view).internal) == sums


def _broadcast_dims(view: OpView, operands: Operands) -> tuple[int, ...]:
    """Dims of the local result of a fusible part."""
    rule = lookup(view.op.kind).rule(view)
    sizes: dict[int, int] = {}
    for mapping, operand in zip(rule.operands, operands, strict=True):
        shape = np.asarray(operand).shape if mapping else ()
        for dim, size in zip(mapping or (), shape, strict=True):
            sizes.update(dict.fromkeys(dim, size))
    whole = view.result()
    return tuple(
        sizes[dim[0]] if dim and dim[0] in sizes else size
        for dim, size in zip(rule.results[0] or (), whole, strict=True)
    )


def _none(_: OpView, operands: Operands, dims: Dims, __: int) -> list[Array]:
    """Results whose numbers do not matter: nothing of the operator is split."""
    return [np.zeros(d) for d in dims]


_MEANINGS: dict[str, Meaning] = {
    "Identity": _pure(lambda x: x),
    "Cast": _pure(lambda x: x),
    "CastLike": _pure(lambda x, _: x),
    "Dropout": _pure(lambda x: x),
    "Clip": _pure(lambda x: np.clip(x, 0.3, 0.6)),
    "FastGelu": _pure(lambda x, bias=0.0: _fast_gelu(x + bias)),
    "QuickGelu": _pure(lambda x: x * _sigmoid(1.702 * x)),
    "BiasGelu": _pure(lambda x, b: _gelu(x + b)),
    "BiasAdd": _computed(_bias_add),
    "MatMul": _computed(_matmul),
    "Conv": _computed(structured.conv),
    "ConvTranspose": _computed(structured.conv),
    "Attention": _computed(structured.attention),
    "ExpertMatMul": _computed(structured.expert_matmul),
    "Dispatch": _computed(structured.dispatch),
    "Combine": _computed(structured.combine),
    "Gather": _computed(structured.gather),
    "GatherND": _computed(structured.gather_nd),
    "GatherElements": _computed(structured.gather_elements),
    "ScatterND": _computed(structured.scatter_nd),
    "Upsample": _computed(_nearest),
    "Resize": _with_operand(lambda _, __, dims: [None, None, _ints(dims[0])]),
    "Reshape": _with_operand(lambda _, __, dims: [_ints(dims[0])]),
    "Flatten": _computed(lambda _, x, dims, __: np.asarray(x[0]).reshape(dims[0])),
    "Expand": _with_operand(lambda _, __, dims: [_ints(dims[0])]),
    "Tile": _with_operand(
        lambda _, x, dims: [
            _ints(b // a for a, b in zip(np.asarray(x[0]).shape, dims[0], strict=True))
        ]
    ),
    "Pad": _computed(_padded),
    "Slice": _with_operand(_slice_operands),
    "Squeeze": _with_operand(lambda view, _, __: [_ints(view.ints("axes"))]),
    "Unsqueeze": _with_operand(lambda view, _, __: [_ints(view.ints("axes"))]),
    "Split": _with_operand(lambda view, _, dims: [_ints(d[view.int("axis")] for d in dims)]),
    "TopK": _with_operand(lambda view, _, dims: [_ints([dims[0][view.int("axis")]])]),
    "CumSum": _computed(lambda view, x, _, __: np.cumsum(x[0], axis=view.int("axis"))),
    "ReduceSum": _computed(_sum),
    "ReduceMean": _computed(_mean_of_known_count),
    "GlobalAveragePool": _computed(_mean_of_known_count),
    "ReduceMax": _internal_reduce("max", np.max, np.asarray),
    "ReduceMin": _internal_reduce("min", np.min, np.asarray),
    "ReduceProd": _internal_reduce("prod", np.prod, np.asarray),
    "ReduceL1": _internal_reduce("sum", lambda x, axis: np.abs(x).sum(axis=axis), np.asarray),
    "ReduceL2": _internal_reduce("sum", lambda x, axis: (x * x).sum(axis=axis), np.sqrt),
    "ReduceSumSquare": _internal_reduce("sum", lambda x, axis: (x * x).sum(axis=axis), np.asarray),
    "ReduceLogSum": _internal_reduce("sum", np.sum, np.log),
    "ReduceLogSumExp": _internal_reduce("sum", lambda x, axis: np.exp(x).sum(axis=axis), np.log),
    "Softmax": _softmax(logarithm=False),
    "LogSoftmax": _softmax(logarithm=True),
    "LayerNormalization": _norm(_normalised, lambda _, v: v),
    "RMSNormalization": _norm(_normalised, lambda _, v: v),
    "SimplifiedLayerNormalization": _norm(_normalised, lambda _, v: v),
    "BatchNormalization": _norm(_all_but_channel, _per_channel),
    "InstanceNormalization": _norm(_positions, _per_channel),
    "GroupNormalization": _computed(_group_norm),
    "Loss": _loss,
    "Output": _computed(lambda *_: []),
    "Fused": _fused,
    **dict.fromkeys(
        ("Shape", "Size", "Range", "ConstantOfShape", "Constant", "EyeLike"), _computed(_none)
    ),
}


def meaning_of(kind: str) -> Meaning:
    """What a kind computes."""
    return _MEANINGS.get(kind, _plain)


def has_onnx_oracle(kind: str) -> bool:
    """Whether ONNX's reference evaluator can judge our own meaning of a kind."""
    return kind in _MEANINGS and kind in catalogue() and kind in _ORACLE


_ORACLE: dict[str, Callable[[OpView], tuple[list[object], dict[str, object]]]] = {
    **dict.fromkeys(
        (k for k in _MEANINGS if k.startswith("Reduce")),
        lambda view: (
            [_ints(reduced_axes(view))],
            {"keepdims": int(len(view.result()) == len(view.dims(0)))},
        ),
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax"), lambda view: ([], {"axis": view.int("axis")})),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization"),
        lambda view: ([], {"axis": view.int("axis"), "epsilon": 1e-5}),
    ),
    "InstanceNormalization": lambda _: ([], {"epsilon": 1e-5}),
    "GlobalAveragePool": lambda _: ([], {}),
    "Gather": lambda view: ([], {"axis": view.int("axis")}),
    "Attention": lambda view: ([], dict(view.op.attributes)),
}


def onnx_oracle(view: OpView, operands: Operands) -> list[Array]:
    """Results of ONNX's own operator for a kind that has a meaning of ours."""
    extra, attributes = _ORACLE[view.op.kind](view)
    arrays = [*operands, *(np.asarray(e) for e in extra)]
    return onnx_results(view.op.kind, arrays, attributes, len(view.outputs))
