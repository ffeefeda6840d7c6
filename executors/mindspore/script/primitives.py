"""For each operator the MindSpore primitives that run it, with the plan's strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from executors.mindspore.script import images
from executors.mindspore.script.loss import SoftmaxLoss
from executors.mindspore.script.step import (
    NotTranslatedError,
    Primitive,
    Step,
    View,
    dtype_at,
    dtype_of,
    sharded,
)


def step_of(view: View) -> Step:
    """The form of an operator.

    Raises:
        NotTranslatedError: there is none.
    """
    kind, name = view.op["kind"], view.op["primitive"]
    if kind in _OWN:
        return _OWN[kind](view)
    make = getattr(ops, name, None) or getattr(auto_generate, name, None)
    form = _FORMS.get(make) or (_pointwise if view.op["plain"] else None)
    if make is None or form is None:
        raise NotTranslatedError(f"no MindSpore form of {kind} is known here")
    return form(view, make)


def _pointwise(view: View, make: Primitive) -> Step:
    """`AddN` takes its operands as a tuple."""
    names = ", ".join(f"x{i}" for i in view.present)
    return sharded(make(), view, f"self.f(({names},))" if make is ops.AddN else f"self.f({names})")


def _gelu(view: View, _: Primitive) -> Step:
    return _pointwise(view, ops.GeLU)


def _where(view: View, make: Primitive) -> Step:
    """`Select` takes tensors of one size; where they are stretched it is products and a sum."""
    dims = view.result()
    if all(view.dims(i) == dims for i in range(3)):
        return sharded(make(), view, "self.f(x0, x1, x2)")
    cond, yes, no = view.strategy
    first, second = (_stretched(view, (0, i)) for i in (1, 2))
    held = {
        "cast": ops.Cast().shard((cond,)),
        "to": dtype_of(view.tensors[view.op["outputs"][0]]["dtype"]),
        "yes": ops.Mul().shard((cond, yes)),
        "less": ops.Sub().shard(((), cond)),
        "no": ops.Mul().shard((cond, no)),
        "add": ops.Add().shard((first, second)),
    }
    held["one"] = ms.Tensor(1, held["to"])
    kept, left = "self.cast(x0, self.to)", "self.less(self.one, self.cast(x0, self.to))"
    return Step(held, f"self.add(self.yes({kept}, x1), self.no({left}, x2))")


def _stretched(view: View, operands: tuple[int, ...]) -> tuple[int, ...]:
    """Cuts of what some operands make together, aligned right."""
    rank = max(len(view.dims(i)) for i in operands)
    out = [1] * rank
    for i in operands:
        shift = rank - len(view.dims(i))
        for dim, cut in enumerate(view.cuts(i)):
            out[shift + dim] = max(out[shift + dim], cut)
    return tuple(out)


def _product(view: View, _: Primitive) -> Step:
    """`MatMul` for matrices, `BatchMatMul` for more; a matrix of weights flattens what it meets."""
    a, b = view.dims(0), view.dims(1)
    turned = {
        "transpose_a": bool(view.attributes.get("trans_a", 0)),
        "transpose_b": bool(view.attributes.get("trans_b", 0)),
    }
    if len(a) < 2 or len(b) < 2:
        raise NotTranslatedError("MindSpore has no product with a vector that takes a strategy")
    if len(a) == len(b) == 2:
        return sharded(ops.MatMul(**turned), view, "self.f(x0, x1)")
    return sharded(ops.BatchMatMul(**turned), view, "self.f(x0, x1)")


def _softmax(view: View, make: Primitive) -> Step:
    if view.attributes.get("to_end"):
        raise NotTranslatedError("a softmax over several dimensions")
    return sharded(make(view.axis(len(view.dims(0)) - 1)), view, "self.f(x0)")


def _layer_norm(view: View, make: Primitive) -> Step:
    """`LayerNorm` always takes a bias: one of zeros where the model has none."""
    axis = view.axis(len(view.dims(0)) - 1)
    epsilon = float(view.attributes.get("epsilon", 1e-5))
    norm = make(axis, axis, epsilon)
    if len(view.present) == 3:
        return sharded(norm, view, "self.f(x0, x1, x2)[0]")
    zeros = ms.Tensor(np.zeros(view.dims(1)), dtype_at(view, 1))
    held = {"f": norm.shard((*view.strategy, view.cuts(1))), "zeros": zeros}
    return Step(held, "self.f(x0, x1, self.zeros)[0]")


def _rms_norm(view: View, make: Primitive) -> Step:
    epsilon = float(view.attributes.get("epsilon", 1e-5))
    return sharded(make(epsilon), view, "self.f(x0, x1)[0]")


def _transpose(view: View, make: Primitive) -> Step:
    rank = len(view.dims(0))
    order = tuple(view.attributes.get("perm", range(rank)[::-1]))
    return sharded(make(), view, f"self.f(x0, {order})")


def _reshape(view: View) -> Step:
    """Takes no strategy: it follows its neighbours."""
    return Step({"f": ops.Reshape()}, f"self.f(x0, {view.result()})")


def _squeeze(view: View, make: Primitive) -> Step:
    return sharded(make(tuple(view.attributes["axes"])), view, "self.f(x0)")


def _unsqueeze(view: View, make: Primitive) -> Step:
    (axis, *more) = view.attributes["axes"]
    if more:
        raise NotTranslatedError("several dimensions of size 1 at once")
    return sharded(make(), view, f"self.f(x0, {axis})")


def _concat(view: View, make: Primitive) -> Step:
    names = ", ".join(f"x{i}" for i in view.present)
    return sharded(make(view.axis(0)), view, f"self.f(({names},))")


def _split(view: View, make: Primitive) -> Step:
    axis, parts = view.axis(0), len(view.op["outputs"])
    if len({view.result(i)[axis] for i in range(parts)}) > 1:
        raise NotTranslatedError("parts of several sizes")
    return sharded(make(axis, parts), view, "self.f(x0)")


def _slice(view: View, make: Primitive) -> Step:
    dims, axes = view.dims(0), tuple(view.attributes["axes"])
    starts, ends = [0] * len(dims), list(dims)
    steps = [1] * len(dims)
    given = view.attributes.get("steps", [1] * len(axes))
    for axis, start, end, step in zip(
        axes, view.attributes["starts"], view.attributes["ends"], given, strict=True
    ):
        if step < 1:
            raise NotTranslatedError("a slice that goes backwards")
        size = dims[axis]
        starts[axis] = min(max(start + size * (start < 0), 0), size)
        ends[axis] = min(max(end + size * (end < 0), 0), size)
        steps[axis] = step
    call = f"self.f(x0, {tuple(starts)}, {tuple(ends)}, {tuple(steps)})"
    return sharded(make(), view, call)


def _reduction(view: View, make: Primitive) -> Step:
    dims = view.dims(0)
    axes = tuple(view.attributes.get("axes", range(len(dims))))
    keep = len(view.result()) == len(dims)
    if make in {ops.ReduceMax, ops.ReduceMin} and len(axes) == 1:
        axes = axes[0]
    return Step({"f": make(keep_dims=keep).shard((view.cuts(0),))}, f"self.f(x0, {axes})")


def _gather(view: View, make: Primitive) -> Step:
    """MindSpore looks rows that are cut up by indices of 32 bits."""
    call = f"self.f(x0, x1, {view.axis(0)})"
    narrow = view.tensors[view.op["inputs"][1]]["dtype"] != "int64"
    if narrow or view.cuts(0)[view.axis(0)] == 1:
        return sharded(make(), view, call)
    cast = {"g": ops.Cast().shard((view.cuts(1),)), "to": ms.int32}
    step = sharded(make(), view, call.replace("x1", "self.g(x1, self.to)"))
    return Step({**step.held, **cast}, step.expression)


def _cast(view: View, make: Primitive) -> Step:
    name = view.tensors[view.op["outputs"][0]]["dtype"]
    held = {"f": make().shard((view.cuts(0),)), "to": dtype_of(name)}
    return Step(held, "self.f(x0, self.to)")


def _expand(view: View, make: Primitive) -> Step:
    if len(view.dims(0)) != len(view.result()):
        raise NotTranslatedError("a broadcast that adds dimensions")
    return Step({"f": make(view.result()).shard((view.cuts(0),))}, "self.f(x0)")


def _loss(view: View) -> Step:
    """What is one number already is the loss itself."""
    if not view.dims(0):
        return Step({"f": ops.Cast(), "to": ms.float32}, "self.f(x0, self.to)")
    return Step({"f": SoftmaxLoss(view.dims(0), view.cuts(0), dtype_at(view, 0))}, "self.f(x0)")


def _is_nan(view: View) -> Step:
    """What differs from itself: `IsNan` takes no strategy."""
    return Step({"f": ops.NotEqual().shard((view.cuts(0),) * 2)}, "self.f(x0, x0)")


def _identity(_: View, __: Primitive) -> Step:
    return Step({}, "x0")


def _attention(view: View) -> Step:
    """The parts of attention whose heads are a dimension, and none of them shared."""
    query, key = view.dims(0), view.dims(1)
    if len(view.present) > 3 or len(query) != 4 or query[1] != key[1]:
        raise NotTranslatedError(
            "attention with a mask, or with heads that share keys or a dimension"
        )
    batch, heads, rows, _ = view.cuts(0)
    whole, cut = (batch, heads, 1, 1), (batch, heads, rows, 1)
    held = {
        "scores": ops.BatchMatMul(transpose_b=True).shard((cut, whole)),
        "scale": ops.Mul().shard((cut, ())),
        "factor": ms.Tensor(query[-1] ** -0.5, dtype_at(view, 0)),
        "softmax": ops.Softmax(3).shard((cut,)),
        "mix": ops.BatchMatMul().shard((cut, whole)),
    }
    scores = "self.scale(self.scores(x0, x1), self.factor)"
    return Step(held, f"self.mix(self.softmax({scores}), x2)")


def _output(view: View) -> Step:
    """What is delivered, in the layout that the plan gives it."""
    return Step({"f": ops.Neg().shard((view.cuts(0),))}, "self.f(x0)")


def _pin(view: View) -> Step:
    """An operator that MindSpore does not take away before it looks at layouts."""
    names = tuple(f"a{i}" for i in range(len(view.op["matrix"])))
    layout = ms.Layout(tuple(view.op["matrix"]), names)
    dims = [tuple(names[i] for i in axes) for axes in view.op["map"]]
    at = layout(*(each if len(each) > 1 else each[0] if each else "None" for each in dims))
    primitive = ops.Neg()
    primitive.add_prim_attr("self_define_shard", True)  # else it takes cut counts alone
    return Step({"f": primitive.shard((at,), (at,))}, "self.f(x0)")


_OWN: Mapping[str, Callable[[View], Step]] = {
    **images.OWN,
    "Attention": _attention,
    "Flatten": _reshape,
    "IsNaN": _is_nan,
    "Loss": _loss,
    "Output": _output,
    "Pin": _pin,
    "Reshape": _reshape,
}
"""By kind, where no primitive takes the operator's strategy, or that depends on attributes."""
_FORMS: Mapping[Primitive | None, Callable[[View, Primitive], Step]] = {
    **images.FORMS,
    ops.BroadcastTo: _expand,
    ops.Cast: _cast,
    ops.Concat: _concat,
    ops.ExpandDims: _unsqueeze,
    ops.FastGeLU: _gelu,
    ops.Gather: _gather,
    ops.GeLU: _gelu,
    ops.Identity: _identity,
    ops.LayerNorm: _layer_norm,
    ops.LogSoftmax: _softmax,
    ops.MatMul: _product,
    ops.ReduceMax: _reduction,
    ops.ReduceMean: _reduction,
    ops.ReduceMin: _reduction,
    ops.ReduceSum: _reduction,
    ops.RmsNorm: _rms_norm,
    ops.Select: _where,
    auto_generate.SiLU: _pointwise,
    ops.Softmax: _softmax,
    ops.Split: _split,
    ops.Squeeze: _squeeze,
    ops.StridedSlice: _slice,
    ops.Transpose: _transpose,
}
"""By the primitive that takes the operator's strategy, where it takes more than operands."""
