"""MindSpore's primitives as our operators need them: how each is made, and its constant arguments.

Runs where MindSpore is installed. `made` gives the primitive and where its constants stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import mindspore as ms
from mindspore import ops
from mindspore.ops.auto_generate import gen_ops_prim as generated

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """A primitive with the constants of its call: they stand after so many of the tensors."""

    primitive: Any
    constants: tuple[Any, ...] = ()
    after: int = 100
    as_tuple: bool = False
    """The tensors are one argument, a tuple."""


def made(case: Case) -> Made:
    """The primitive of a case of `write_operators`."""
    name = case["primitive"]
    return _MAKERS[name](case) if name in _MAKERS else Made(_plain(name))


def _plain(name: str) -> Any:
    if hasattr(ops, name):
        return getattr(ops, name)()
    return getattr(generated, name)()


def _attribute(case: Case, key: str, default: Any = 0) -> Any:
    return case["attributes"].get(key, default)


def _product(kind: Callable[..., Any]) -> Callable[[Case], Made]:
    def make(case: Case) -> Made:
        flags = (bool(_attribute(case, key)) for key in ("trans_a", "trans_b"))
        if case["kind"] == "ExpertMatMul":
            return Made(kind(transpose_b=not _attribute(case, "row")))
        return Made(kind(*flags))

    return make


def _reduction(kind: Callable[..., Any]) -> Callable[[Case], Made]:
    def make(case: Case) -> Made:
        keep = len(case["results"][0]) == len(case["inputs"][0]["dims"])
        return Made(kind(keep_dims=keep), (tuple(_attribute(case, "axes")),))

    return make


def _axis_after(kind: Callable[..., Any], after: int = 100) -> Callable[[Case], Made]:
    """The axis is the last argument of the call, or stands after so many tensors."""
    return lambda case: Made(kind(), (_attribute(case, "axis"),), after)


def _axis_within(kind: Callable[..., Any]) -> Callable[[Case], Made]:
    return lambda case: Made(kind(axis=_attribute(case, "axis")))


def _convolution(case: Case) -> Made:
    weight = case["inputs"][1]["dims"]
    pads, rank = _attribute(case, "pads"), len(weight) - 2
    sides = tuple(p for axis in range(rank) for p in (pads[axis], pads[axis + rank]))
    return Made(
        {2: ops.Conv2D, 3: ops.Conv3D}[rank](
            out_channel=weight[0],
            kernel_size=tuple(weight[2:]),
            pad_mode="pad" if any(pads) else "valid",
            pad=sides if any(pads) else 0,
            stride=tuple(_attribute(case, "strides")),
            dilation=tuple(_attribute(case, "dilations", (1,) * rank)),
            group=_attribute(case, "group", 1),
        )
    )


def _transposed_convolution(case: Case) -> Made:
    """MindSpore cuts positions where padding is `same`, which here adds none. What it calls the
    channels of the result are those that its gradient has, a convolution.
    """
    weight, stride = case["inputs"][1]["dims"], tuple(_attribute(case, "strides"))
    primitive = ops.Conv2DTranspose(
        out_channel=weight[0], kernel_size=tuple(weight[2:]), stride=stride,
        pad_mode="same" if tuple(weight[2:]) == stride else "valid",
    )  # fmt: skip
    return Made(primitive, (tuple(case["results"][0]),))


def _pool(kind: Callable[..., Any]) -> Callable[[Case], Made]:
    return lambda case: Made(
        kind(
            kernel_size=tuple(_attribute(case, "kernel_shape")),
            strides=tuple(_attribute(case, "strides")),
            pad_mode="valid",
        )
    )


def _layer_norm(case: Case) -> Made:
    axis = _attribute(case, "axis")
    return Made(ops.LayerNorm(axis, axis, 1e-5))


def _slice(case: Case) -> Made:
    begin = [0] * len(case["inputs"][0]["dims"])
    end, steps = list(case["inputs"][0]["dims"]), [1] * len(begin)
    keys = ("slice_axes", "starts", "ends", "steps")
    for axis, start, stop, step in zip(*(_attribute(case, key) for key in keys), strict=True):
        begin[axis], end[axis], steps[axis] = start, stop, step
    return Made(ops.StridedSlice(), (tuple(begin), tuple(end), tuple(steps)))


def _pad(case: Case) -> Made:
    rank = len(case["inputs"][0]["dims"])
    axes, pads = _attribute(case, "axes"), _attribute(case, "pads")
    sides = dict(zip(axes, zip(pads, pads[len(axes) :], strict=False), strict=True))
    listed: list[int] = []
    for axis in range(rank - 1, min(axes) - 1, -1):
        listed += sides.get(axis, (0, 0))
    return Made(ops.PadV3(), (tuple(listed), 0.0))


def _tile(case: Case) -> Made:
    sizes = zip(case["results"][0], case["inputs"][0]["dims"], strict=True)
    return Made(ops.Tile(), (tuple(result // size for result, size in sizes),))


def _split(case: Case) -> Made:
    return Made(ops.Split(_attribute(case, "axis"), len(case["results"])))


def _one_hot(case: Case) -> Made:
    axis = _attribute(case, "axis")
    rank = len(case["results"][0])
    depth = case["results"][0][axis]
    on, off = ms.Tensor(1.0, ms.float32), ms.Tensor(0.0, ms.float32)
    return Made(ops.OneHot(axis if axis < rank - 1 else -1), (depth, on, off))


def _region(case: Case) -> Made:
    height, width = case["results"][0][2:]
    return Made(ops.ROIAlign(height, width, 1.0))


def _group_norm(case: Case) -> Made:
    return Made(generated.GroupNorm(), (_attribute(case, "num_groups"),), 1)


_MAKERS: Mapping[str, Callable[[Case], Made]] = MappingProxyType(
    {
        "AddN": lambda _: Made(ops.AddN(), as_tuple=True),
        "Argmax": lambda case: Made(ops.Argmax(_attribute(case, "axis"))),
        "Argmin": lambda case: Made(ops.Argmin(_attribute(case, "axis"))),
        "AvgPool": _pool(ops.AvgPool),
        "BatchMatMul": _product(ops.BatchMatMul),
        "BatchNorm": lambda _: Made(ops.BatchNorm(is_training=True)),
        "BroadcastTo": lambda case: Made(ops.BroadcastTo(tuple(case["results"][0]))),
        "Cast": lambda _: Made(ops.Cast(), (ms.float16,)),
        "Concat": lambda case: Made(ops.Concat(_attribute(case, "axis")), as_tuple=True),
        "Conv2D": _convolution,
        "Conv2DTranspose": _transposed_convolution,
        "Conv3D": _convolution,
        "CumProd": _axis_after(ops.CumProd),
        "CumSum": _axis_after(ops.CumSum),
        "Dropout": lambda _: Made(ops.Dropout(0.5)),
        "ExpandDims": lambda case: Made(ops.ExpandDims(), (_attribute(case, "axes")[0],)),
        "Gather": _axis_after(ops.Gather),
        "GatherD": _axis_after(ops.GatherD, 1),
        "GroupNorm": _group_norm,
        "L2Normalize": _axis_within(ops.L2Normalize),
        "LayerNorm": _layer_norm,
        "LogSoftmax": _axis_within(ops.LogSoftmax),
        "MatMul": _product(ops.MatMul),
        "MaxPool": _pool(ops.MaxPool),
        "OneHot": _one_hot,
        "PadV3": _pad,
        "ROIAlign": _region,
        "ReduceMax": _reduction(ops.ReduceMax),
        "ReduceMean": _reduction(ops.ReduceMean),
        "ReduceMin": _reduction(ops.ReduceMin),
        "ReduceProd": _reduction(ops.ReduceProd),
        "ReduceSum": _reduction(ops.ReduceSum),
        "Softmax": _axis_within(ops.Softmax),
        "Split": _split,
        "Squeeze": lambda case: Made(ops.Squeeze(tuple(_attribute(case, "axes")))),
        "StridedSlice": _slice,
        "Tile": _tile,
        "TopK": lambda case: Made(ops.TopK(), (case["results"][0][-1],)),
        "Transpose": lambda case: Made(ops.Transpose(), (tuple(_attribute(case, "perm")),)),
    }
)
