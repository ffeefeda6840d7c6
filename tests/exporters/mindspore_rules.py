"""MindSpore's own rules, written down a second time: which rank holds which slice.

Nothing here is shared with the exporter. A slice is the range of each dimension that a rank holds.
Sources: the slice rule and the optimizer's share of `parallel/_tensor.py`, the device matrices and
tensor maps of `frontend/parallel/ops_info`, MindSpore 2.7.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from exporters.mindspore.strategy import ParameterLayout, StrategyCheckpoint, StrategyItem
from ir.plan import NamedLayout, Plan

Slice = tuple[tuple[int, int], ...]
"""First index and end of each dimension."""

Cuts = Sequence[Sequence[int]]


def item(checkpoint: StrategyCheckpoint, key: str) -> StrategyItem:
    return next(each for each in checkpoint.strategies if each.key == key)


def layout(checkpoint: StrategyCheckpoint, name: str) -> ParameterLayout:
    return next(each for each in checkpoint.layouts if each.name == name)


def coordinates(rank: int, matrix: Sequence[int]) -> list[int]:
    """Place of a rank in a device matrix; the last axis varies fastest."""
    found: list[int] = []
    for size in reversed(matrix):
        found.insert(0, rank % size)
        rank //= size
    return found


def cut_slices(
    matrix: Sequence[int], tensor_map: Sequence[int], shape: Sequence[int]
) -> list[Slice]:
    """For each rank the slice that a layout gives it."""
    slices: list[Slice] = []
    for rank in range(math.prod(matrix)):
        place = coordinates(rank, matrix)
        ranges = []
        for size, axis in zip(shape, tensor_map, strict=True):
            count = 1 if axis == -1 else matrix[len(matrix) - 1 - axis]
            index = 0 if axis == -1 else place[len(matrix) - 1 - axis]
            assert size % count == 0
            ranges.append((index * (size // count), (index + 1) * (size // count)))
        slices.append(tuple(ranges))
    return slices


def resting_slices(layout: ParameterLayout) -> list[Slice]:
    """For each rank what it keeps of a parameter, the optimizer's share included.

    The share is made of whole repeated axes, innermost first; right of the innermost lie as many
    ranks as the step says, and no other repeated axis has so many there.
    """
    matrix, tensor_map, shape = layout.device_matrix, layout.tensor_map, layout.tensor_shape
    assert shape is not None
    plain = [axis for axis in tensor_map if isinstance(axis, int)]
    slices = cut_slices(matrix, plain, shape)
    step, size = layout.opt_weight_shard_step, layout.opt_weight_shard_size
    assert (step == 0) == (size == 0)
    if not size:
        return slices
    used = {len(matrix) - 1 - axis for axis in plain if axis != -1}
    repeated = [axis for axis in range(len(matrix)) if axis not in used and matrix[axis] > 1]
    shared = [repeated.pop()]
    while math.prod(matrix[axis] for axis in shared) < size:
        shared.insert(0, repeated.pop())
    assert math.prod(matrix[axis] for axis in shared) == size
    fitting = [a for a in (*repeated, *shared) if math.prod(matrix[a + 1 :]) == step]
    assert fitting == shared[-1:]
    out: list[Slice] = []
    for rank, ranges in enumerate(slices):
        place = coordinates(rank, matrix)
        share = 0
        for axis in shared:
            share = share * matrix[axis] + place[axis]
        first, end = ranges[0]
        part = (end - first) // size
        assert part * size == end - first
        out.append(((first + share * part, first + (share + 1) * part), *ranges[1:]))
    return out


def planned_slices(
    plan: Plan, layout: NamedLayout, dims: Sequence[int], permutation: Sequence[int] = ()
) -> list[Slice]:
    """For each rank what the plan gives it, dimensions in the order of the file."""
    sizes = {name: size for name, size, _ in plan.mesh}
    names = list(sizes)
    slices: list[Slice] = []
    for rank in range(plan.devices):
        place = dict(zip(names, coordinates(rank, list(sizes.values())), strict=True))
        ranges = []
        for size, axes in zip(dims, layout.dims, strict=True):
            index = count = 0
            count = 1
            for axis in axes:
                index, count = index * sizes[axis] + place[axis], count * sizes[axis]
            ranges.append((index * (size // count), (index + 1) * (size // count)))
        order = permutation or range(len(dims))
        slices.append(tuple(r for _, r in sorted(zip(order, ranges, strict=True))))
    return slices


def strategy_slices(
    primitive: str,
    cuts: Cuts,
    shapes: Cuts,
    devices: int,
    *,
    axis: int = 0,
    transposed: bool = False,
) -> list[list[Slice]]:
    """For each input and rank the slice that MindSpore makes of a strategy."""
    matrix, maps = _MATRICES.get(primitive, _broadcast)(cuts, axis, transposed)
    used = math.prod(matrix)
    assert devices % used == 0
    repeated = devices // used
    if repeated > 1:
        looked_up = primitive == "Gather" and cuts[0][axis] > 1
        if looked_up and used != 1:
            matrix = [repeated, *matrix]
        else:
            matrix = [*matrix, repeated]
            maps = [[a + 1 if a != -1 else -1 for a in each] for each in maps]
    return [cut_slices(matrix, m, s) for m, s in zip(maps, shapes, strict=True)]


_Matrix = tuple[list[int], list[list[int]]]


def _broadcast(cuts: Cuts, axis: int, transposed: bool) -> _Matrix:
    """Element-wise, normalisation and everything of one input: the cuts, aligned right."""
    rank = max(len(each) for each in cuts)
    aligned = [[1] * (rank - len(each)) + list(each) for each in cuts]
    matrix = [max(each) for each in zip(*aligned, strict=True)]
    maps = [
        [rank - 1 - d if each[d] == matrix[d] else -1 for d in range(rank - len(own), rank)]
        for own, each in zip(cuts, aligned, strict=True)
    ]
    return matrix, maps


def _product(cuts: Cuts, axis: int, transposed: bool) -> _Matrix:
    (*batch, i, k), (*_, p, q) = cuts
    j = p if transposed else q
    assert k == (q if transposed else p)
    n = len(batch)
    first = [*range(n + 2, 2, -1), 2, 1]
    second = [*range(n + 2, 2, -1), *([0, 1] if transposed else [1, 0])]
    return [*batch, i, k, j], [first, second[-len(cuts[1]) :]]


def _convolution(cuts: Cuts, axis: int, transposed: bool) -> _Matrix:
    (n, ci, h, w), (co, ci_again, *kernel) = cuts
    assert ci == ci_again
    assert math.prod(kernel) == 1
    return [n, ci, h, w, co], [[4, 3, 2, 1], [0, 3, -1, -1]]


def _channels(cuts: Cuts, axis: int, transposed: bool) -> _Matrix:
    """Vectors along dimension 1: bias, slopes and batch normalisation."""
    rank = len(cuts[0])
    assert all(list(each) == [cuts[0][1]] for each in cuts[1:])
    return list(cuts[0]), [list(range(rank - 1, -1, -1)), *[[rank - 2]] * (len(cuts) - 1)]


def _gather(cuts: Cuts, axis: int, transposed: bool) -> _Matrix:
    table, indices = cuts
    whole = [-1] * len(indices)
    if table[axis] > 1 and math.prod(indices) == 1:
        return list(table), [list(range(len(table) - 1, -1, -1)), whole]
    if table[axis] > 1:
        assert (len(table), axis, indices[0] > 1) == (2, 0, True)
        assert len(indices) == 1 or (len(indices) == 2 and table[1] == 1)
    matrix = [*indices, *table]
    rest = list(range(len(table) - 1, -1, -1))
    return matrix, [rest, list(range(len(matrix) - 1, len(table) - 1, -1))]


_MATRICES = {
    "BatchMatMul": _product,
    "BatchNorm": _channels,
    "BiasAdd": _channels,
    "Conv2D": _convolution,
    "Gather": _gather,
    "MatMul": _product,
    "PReLU": _channels,
}
