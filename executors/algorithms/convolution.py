"""Convolutions and pooling: the number of groups is that of the device, and neighbours send each
other the edges of positions that are split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from executors.algorithms.in_step import RankPart
from executors.device import with_attributes, with_groups
from executors.device_algorithms import DEVICE_ALGORITHMS
from executors.spmd import Algorithm, OperatorRun, Shards
from ir.graph import Op
from ir.ops import Engine, OpView, catalogue, lookup
from ir.ops.convolution import POOLS
from ir.ops.windows import FIRST
from ir.rule import Window

_CONVOLUTIONS = [
    kind
    for kind, entry in catalogue().items()
    if entry.engine is Engine.CONVOLUTION and kind not in DEVICE_ALGORITHMS
]


def _over_windows(task: OperatorRun) -> Shards:
    rule = lookup(task.op.kind).rule(OpView(task.op, task.graph))
    cut = [window for window in rule.windows if task.axes_of(0, [window.dim])]
    data = list(task.operand(0).shards)
    got = [[(0, 0)] * (data[0].ndim - FIRST) for _ in task.ranks]
    for window in cut:
        axes = tuple(a for a in task.operand(0).layout.dims[window.dim] if a >= 0)
        wider = task.exchange_edges(data, window.dim, axes, (window.before, window.after))
        for rank, (array, before, after) in enumerate(wider):
            data[rank], got[rank][window.dim - FIRST] = array, (before, after)
    out = []
    for rank in task.ranks:
        op = _padded(task, cut, rank, got[rank]) if cut else task.op
        op = with_groups(RankPart(task, rank), op)
        out.append(task.on(rank, op, [data[rank], *task.parts(rank)[1:]]))
    return out


def _padded(
    task: OperatorRun, cut: Sequence[Window], rank: int, got: Sequence[tuple[int, int]]
) -> Op:
    """The operator on a part of the image: padding is where the image ends, edges are inside.

    Behind, the extent of the result says how far a part reaches.
    """
    count = len(got)
    view = OpView(task.op, task.graph)
    strides = view.ints("strides", (1,) * count)
    pads = list(view.ints("pads") or (0,) * (2 * count))
    wider = task.op.kind == "ConvTranspose"
    for window in cut:
        i = window.dim - FIRST
        first, last = _ends(task, window.dim, rank)
        if wider:
            pads[i] += got[i][0] * strides[i]
        else:
            pads[i] = pads[i] if first else 0
        pads[count + i] = pads[count + i] if last else 0
    return with_attributes(task.op, pads=tuple(pads))


def _ends(task: OperatorRun, dim: int, rank: int) -> tuple[bool, bool]:
    """Whether a rank holds the first and the last positions."""
    data = task.operand(0)
    begin, end = data.box(rank)[dim]
    return begin == 0, end == data.dims[dim]


CONVOLUTION: Mapping[str, Algorithm] = MappingProxyType(
    dict.fromkeys((*_CONVOLUTIONS, *POOLS), _over_windows)
)
