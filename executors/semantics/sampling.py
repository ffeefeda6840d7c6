"""Samples of images at places that are computed: grids, regions, deformed kernels."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from executors.placement import Array
from executors.semantics import onnx_forms
from executors.semantics.reference_maps import linear_map
from ir.semantics.arrays import constant, np
from ir.semantics.call import Call

Taps = list[tuple[Array, Array]]
"""Positions along one dimension and the weights with which they are taken."""


def grid_sample(call: Call) -> list[Array]:
    """Images at the places of a grid, whose coordinates run from -1 to 1."""
    data, grid = call[0], call[1]
    rank, aligned = data.ndim - 2, bool(call.int("align_corners"))
    mode = str(call.op.attributes.get("mode", "linear"))
    padding = str(call.op.attributes.get("padding_mode", "zeros"))
    taps = []
    for axis, size in enumerate(data.shape[2:]):
        # The innermost dimension stands first in the grid.
        place = grid[..., rank - 1 - axis] + 1
        place = place / 2.0 * (size - 1) if aligned else (place * size - 1) / 2.0
        ends = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        taps.append(_taps(place, size, ends, mode, padding))
    images = np.arange(data.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
    return [np.moveaxis(sampled(data, (images,), taps), -1, 1)]


def sampled(data: Array, lead: Sequence[Array], taps: Sequence[Taps]) -> Array:
    """Weighted sums of elements; the channels, which stand between, become the last dimension."""
    terms: list[Array] = []
    for chosen in itertools.product(*taps):
        weight = math.prod((w for _, w in chosen[1:]), start=chosen[0][1])
        place: tuple[Any, ...] = (*lead, slice(None), *(i for i, _ in chosen))
        terms.append(data[place] * weight[..., None])
    return functools.reduce(np.add, terms)


def _taps(place: Array, size: int, ends: tuple[float, float], mode: str, padding: str) -> Taps:
    if mode == "nearest":
        place = np.rint(constant(place))
    beyond = (constant(place) < ends[0]) | (constant(place) > ends[1])
    if padding == "border":
        place = np.where(beyond, np.clip(place, 0, size - 1), place)
    elif padding == "reflection":
        place = np.where(beyond, _reflected(place, *ends), place)
    first = np.floor(constant(place))
    share = place - first
    weights = {"nearest": [1 + 0 * share], "linear": [1 - share, share]}.get(mode) or _cubic(share)
    start = first - 1 if mode == "cubic" else first
    return [_tap(start + i, w, size, ends, padding) for i, w in enumerate(weights)]


def _tap(
    index: Array, weight: Array, size: int, ends: tuple[float, float], padding: str
) -> tuple[Array, Array]:
    if padding == "zeros":
        weight = np.where((index >= 0) & (index < size), weight, 0.0)
    elif padding == "reflection":
        index = np.trunc(_reflected(index, *ends))
    return np.clip(index, 0, size - 1).astype(np.int64), weight


def _reflected(place: Array, low: float, high: float) -> Array:
    """Places mirrored at the ends until they lie between them."""
    span = high - low
    past = np.where(constant(place) < low, low - place, np.maximum(place - high, 0.0))
    turns = np.floor(constant(past) / span)
    rest = past - turns * span
    from_low = (constant(place) < low) == (turns % 2 == 0)
    found = np.where(from_low, low + rest, high - rest)
    return np.where((constant(place) >= low) & (constant(place) <= high), place, found)


def _cubic(x: Array, a: float = -0.75) -> list[Array]:
    def near(d: Array) -> Array:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Array) -> Array:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(x + 1), near(x), near(1 - x), far(2 - x)]


def affine_grid(call: Call) -> list[Array]:
    """Every position of an image, as a row with a one behind it, times a matrix."""
    attributes = tuple(sorted(call.op.attributes.items()))
    dims, result = call[0].shape[1:], call.result_dims[0][1:]
    matrix, _ = linear_map(call.op.kind, attributes, dims, result, onnx_forms.affine_grid)
    return [np.tensordot(call[0], matrix, axes=([1, 2], [0, 1]))]


def roi_align(call: Call) -> list[Array]:
    """Bins of regions: mean or maximum of samples between the positions of the image."""
    data, regions, images = call[0], constant(call[1]), np.asarray(call[2])
    height, width = call.result_dims[0][2:]
    half = str(call.op.attributes.get("coordinate_transformation_mode", "half_pixel"))
    offset = 0.5 if half.lower() == "half_pixel" else 0.0
    scale, ratio = call.float("spatial_scale", 1.0), call.int("sampling_ratio")
    largest = str(call.op.attributes.get("mode", "avg")).lower() == "max"
    found = []
    for region, image in zip(regions * scale - offset, images, strict=True):
        lines = [
            _line(region[i], region[i + 2], wanted, size, ratio, least=not offset)
            for i, wanted, size in ((1, height, data.shape[2]), (0, width, data.shape[3]))
        ]
        found.append(_pooled(data[int(image)], lines, (height, width), largest=largest))
    return [np.stack(found)] if found else [np.zeros(call.result_dims[0])]


def _line(
    start: float, end: float, wanted: int, size: int, ratio: int, *, least: bool
) -> tuple[Array, Array]:
    """Neighbours and weights of the samples of each bin along one dimension: bins, samples, 2."""
    length = max(end - start, 1.0) if least else end - start
    step = length / wanted
    samples = ratio if ratio > 0 else math.ceil(step)
    share = (np.arange(samples) + 0.5) / max(samples, 1)
    place = start + (np.arange(wanted)[:, None] + share) * step
    beyond = (place < -1.0) | (place > size)
    place = np.clip(place, 0, size - 1)
    low = np.minimum(np.floor(place), size - 1)
    indices = np.stack([low, np.minimum(low + 1, size - 1)], axis=-1).astype(np.int64)
    weights = np.stack([1 - (place - low), place - low], axis=-1)
    return indices, np.where(beyond[..., None], 0.0, weights)


def _pooled(
    image: Array, lines: Sequence[tuple[Array, Array]], wanted: tuple[int, int], *, largest: bool
) -> Array:
    """Mean, or maximum of the weighted neighbours, of the samples of each bin."""
    (rows, row_weights), (columns, column_weights) = lines
    if not rows.size or not columns.size:
        return np.zeros((image.shape[0], *wanted))
    seen = image[:, rows][:, :, :, :, columns]
    weighted = seen * row_weights[..., None, None, None] * column_weights
    flat = np.transpose(weighted, (0, 1, 4, 2, 5, 3, 6))
    shape = (*flat.shape[:3], -1)
    if largest:
        return np.max(np.reshape(flat, shape), axis=-1)
    return np.sum(np.reshape(flat, shape), axis=-1) / (rows.shape[1] * columns.shape[1])


def max_roi_pool(call: Call) -> list[Array]:
    """Bins of regions: maximum of the positions of the image."""
    data, regions = call[0], constant(call[1])
    height, width = call.result_dims[0][2:]
    scale = call.float("spatial_scale", 1.0)
    found = []
    for region in regions:
        image = data[int(region[0])]
        ends = np.sign(region[1:]) * np.floor(np.abs(region[1:] * scale) + 0.5)
        rows = _bins(ends[1], ends[3], height, image.shape[1])
        columns = _bins(ends[0], ends[2], width, image.shape[2])
        found.append(
            np.stack([np.stack([_largest(image, r, c) for c in columns], -1) for r in rows], 1)
        )
    return [np.stack(found)] if found else [np.zeros(call.result_dims[0])]


def _bins(start: float, end: float, wanted: int, size: int) -> list[slice]:
    length = max(end - start + 1, 1)
    edges = [
        (math.floor(i * length / wanted) + start, math.ceil((i + 1) * length / wanted) + start)
        for i in range(wanted)
    ]
    return [slice(*(int(min(max(e, 0), size)) for e in edge)) for edge in edges]


def _largest(image: Array, rows: slice, columns: slice) -> Array:
    part = image[:, rows, columns]
    return np.max(part, axis=(1, 2)) if constant(part).size else np.zeros(image.shape[0])


def deform_conv(call: Call) -> list[Array]:
    """A convolution whose kernel positions are moved, each by an offset of its own."""
    data, weight, offset = call[0], call[1], call[2]
    shape, groups, apart = weight.shape[2:], call.int("group", 1), call.int("offset_group", 1)
    places, images = call.result_dims[0][2:], data.shape[0]
    moved = np.reshape(offset, (images, apart, *shape, 2, *places))
    taps = []
    for axis, size in enumerate(data.shape[2:]):
        start = np.reshape(_start(call, axis, shape, places), (*shape, *places))
        place = moved[:, :, :, :, axis] + start
        taps.append(_taps(place, size, (0.0, size - 1.0), "linear", "zeros"))
    lead = np.arange(images).reshape(-1, *[1] * 5), np.arange(apart).reshape(-1, *[1] * 4)
    split = np.reshape(data, (images, apart, -1, *data.shape[2:]))
    seen = np.moveaxis(sampled(split, lead, taps), -1, 2)
    if call.has(3):
        seen = seen * np.reshape(call[3], (images, apart, 1, *shape, *places))
    rows = weight.shape[1] * math.prod(shape)
    columns = np.reshape(seen, (images, groups, rows, math.prod(places)))
    matrix = np.reshape(weight, (groups, weight.shape[0] // groups, rows))
    return [np.reshape(np.matmul(matrix, columns), (images, weight.shape[0], *places))]


def _start(call: Call, axis: int, shape: Sequence[int], places: Sequence[int]) -> Array:
    """Where the kernel positions would be without offsets."""
    stride, dilation = call.ints("strides", (1, 1))[axis], call.ints("dilations", (1, 1))[axis]
    window = np.arange(places[axis]) * stride - call.ints("pads", (0,) * 4)[axis]
    found = np.arange(shape[axis])[:, None] * dilation + window
    wide = found[:, None, :, None] if axis == 0 else found[None, :, None, :]
    return np.broadcast_to(wide, (*shape, *places))
