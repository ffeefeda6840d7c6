"""Networks in the form of mindspore_cases.json, as graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir.graph import OpGraph, Role
from planner.constraints.pins import RESULT
from planner.request import Cuts
from tests.builders import GraphBuilder

KINDS = {
    "ReLU": "Relu", "PReLU": "PRelu", "RmsNorm": "RMSNormalization", "Conv2D": "Conv",
    "BatchNorm": "BatchNormalization", "Conv2DTranspose": "ConvTranspose", "FloorDiv": "Div",
    "LpNorm": "LpNormalization", "StridedSlice": "Slice", "GeLU": "Gelu", "BatchMatMul": "MatMul",
    "LayerNorm": "LayerNormalization",
}  # fmt: skip
Pins = tuple[tuple[str, Cuts], ...]
Dims = tuple[int, ...]
Made = tuple[Dims, dict[str, Any]]
"""Dims of a result, and the attributes of its operator."""


class Network:
    """A network: the first operand of an operator is data unless it is called `w`, the others are
    weights, unless all come from the dataset or `data` says which do.
    """

    def __init__(self, net: Mapping[str, Any], *, fed: bool = False) -> None:
        self.shapes, self.fed, self.data = net["shapes"], fed, net.get("data")
        self.ops: Sequence[Mapping[str, Any]] = net["ops"]
        self.build = GraphBuilder("case")
        self.made: dict[str, str] = {}
        self.pins: list[tuple[str, Cuts]] = []
        for op in self.ops:
            self._add(op)
        read = {name for op in self.ops for name in op["inputs"]}
        self.ends = [op["out"] for op in self.ops if op["out"] not in read]
        whole = _given(net.get("shard_fn", {}))
        if whole:
            self.pins.append((f"op_{self.ends[-1]}", whole))

    def graph(self) -> OpGraph:
        return self.build.build(*[self.made[name] for name in self.ends])

    def _add(self, op: Mapping[str, Any]) -> None:
        inputs = [self._operand(name, place) for place, name in enumerate(op["inputs"])]
        kind = KINDS.get(op["op"], op["op"])
        if kind == "BatchNormalization":
            channels = self.build.tensors[inputs[0]].dims[1:2]
            inputs += [self.build.weight(f"{op['out']}.{n}", channels) for n in ("scale", "shift")]
            for name in ("mean", "variance"):
                inputs.append(self.build.tensor(f"{op['out']}.{name}", channels, Role.BUFFER))
        dims = [self.build.tensors[name].dims for name in inputs]
        result, attributes = _result(kind, dims, op)
        name = op["out"]
        self.made[name] = self.build.op(kind, tuple(inputs), result, name=name, **attributes)
        if "user_strategy" in op:
            self.pins.append((f"op_{name}", tuple(tuple(own) for own in op["user_strategy"])))
        if "user_out_strategy" in op:
            result_cuts = tuple(tuple(own) for own in op["user_out_strategy"])
            self.pins.append((f"op_{name}{RESULT}", result_cuts))

    def _operand(self, name: str, place: int) -> str:
        if name not in self.made:
            is_weight = (place or name == "w") and not self.fed
            if self.data is not None:
                is_weight = name not in self.data
            make = self.build.weight if is_weight else self.build.input
            self.made[name] = make(name, tuple(self.shapes[name]))
        return self.made[name]


def _given(shard: Mapping[str, Any]) -> Cuts:
    """The strategy of a call of `shard`, or the layouts as the cuts that they are."""
    if "in_layout" not in shard:
        return tuple(tuple(own) for own in shard.get("in_strategy", ()))
    layout = shard["in_layout"]
    sizes = dict(zip(layout["alias"], layout["device_matrix"], strict=True)) | {"None": 1}
    return tuple(tuple(sizes[axis] for axis in own) for own in layout["maps"])


def _result(kind: str, dims: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    first, *others = dims
    if kind in _RESULTS:
        return _RESULTS[kind](first, others, op)
    longest = max(dims, key=len) if kind in {"Div", "Add", "Mul", "Sub"} else first
    return longest, {"axis": len(first) - 1} if kind in _NORMS else {}


_NORMS = {"RMSNormalization", "LayerNormalization", "LpNormalization", "Softmax"}


def _product(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    turned = bool(op.get("transpose_b"))
    return (*first[:-1], others[0][-2 if turned else -1]), {"trans_b": int(turned)}


def _reshape(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    known = -math.prod(op["shape"]) if -1 in op["shape"] else 1
    return tuple(math.prod(first) // known if s == -1 else s for s in op["shape"]), {}


def _transpose(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    return tuple(first[axis] for axis in op["perm"]), {"perm": tuple(op["perm"])}


def _slice(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    kept = tuple(end - begin for begin, end in zip(op["begin"], op["end"], strict=True))
    return kept, {"axes": tuple(i for i, size in enumerate(first) if size != kept[i])}


def _unsqueezed(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    axes = tuple(op["new_axes"])
    return (*(1,) * len(axes), *first), {"axes": axes}


def _reduction(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    left = tuple(size for axis, size in enumerate(first) if axis not in op["axis"])
    return left, {"axes": tuple(op["axis"]), "keepdims": 0}


def _lookup(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del op
    return (*others[0], *first[1:]), {"axis": 0}


def _convolution(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    """Positions stay as many: `pad_mode` is `same`."""
    size = op["kernel"]
    pads = ((size - 1) // 2,) * 2 + (size // 2,) * 2
    return (first[0], others[0][0], *first[2:]), {"kernel_shape": (size, size), "pads": pads}


def _pooling(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    size, step = op["kernel"], op["stride"]
    result = (*first[:2], *(extent // step for extent in first[2:]))
    return result, {"kernel_shape": (size, size), "strides": (step, step)}


def _back(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    """A transposed convolution to twice the positions, as in the test; `pad_mode` is `same`."""
    del op
    size = others[0][-1]
    result = (first[0], others[0][1], *(2 * extent for extent in first[2:]))
    pad = (size - 2) // 2
    return result, {"kernel_shape": (size, size), "strides": (2, 2), "pads": (pad,) * 4}


_RESULTS: Mapping[str, Callable[[Dims, Sequence[Dims], Mapping[str, Any]], Made]] = {
    "Conv": _convolution,
    "ConvTranspose": _back,
    "Gather": _lookup,
    "MatMul": _product,
    "MaxPool": _pooling,
    "ReduceMean": _reduction,
    "Reshape": _reshape,
    "Slice": _slice,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueezed,
}
