"""Convolutions and pooling."""

from __future__ import annotations

import math
from dataclasses import replace

from executors.placement import Array
from executors.semantics import onnx_forms
from executors.semantics.reference_maps import moved_as
from executors.semantics.windows import (
    Windows,
    seen,
    spread_out,
    windows_of,
)
from ir.semantics.arrays import constant, np
from ir.semantics.call import Call


def conv(call: Call) -> list[Array]:
    """A convolution, as a product with what each window sees."""
    data, weight = call[0], call[1]
    groups, kernel, counts = call.int("group", 1), weight.shape[2:], call.result_dims[0][2:]
    columns = np.stack(seen(data, windows_of(call, data.shape[2:], counts, kernel)), axis=2)
    rows = weight.shape[1] * math.prod(kernel)
    columns = np.reshape(columns, (data.shape[0], groups, rows, math.prod(counts)))
    matrix = np.reshape(weight, (groups, weight.shape[0] // groups, rows))
    return [np.reshape(np.matmul(matrix, columns), (data.shape[0], weight.shape[0], *counts))]


def conv_transpose(call: Call) -> list[Array]:
    data, weight = call[0], call[1]
    groups, kernel, places = call.int("group", 1), weight.shape[2:], data.shape[2:]
    image, made = call.result_dims[0][2:], weight.shape[1]
    read = weight.shape[0] // groups
    matrix = np.reshape(weight, (groups, read, made * math.prod(kernel)))
    columns = np.reshape(data, (data.shape[0], groups, read, math.prod(places)))
    values = np.matmul(np.swapaxes(matrix, -1, -2), columns)
    values = np.reshape(values, (data.shape[0], groups * made, *kernel, *places))
    return [spread_out(values, windows_of(call, image, places, kernel), 2)]


def _pool_windows(call: Call) -> list[Windows]:
    return windows_of(call, call[0].shape[2:], call.result_dims[0][2:], call.ints("kernel_shape"))


def max_pool(call: Call) -> list[Array]:
    windows, dtype = _pool_windows(call), call[0].dtype
    least = np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
    every = np.stack(seen(call[0], windows, least), axis=-1)
    found = [np.max(every, axis=-1)]
    if len(call.result_dims) > 1:
        found.append(_positions(call, windows, np.argmax(constant(every), axis=-1)))
    return found


def _positions(call: Call, windows: list[Windows], chosen: Array) -> Array:
    """Place of the largest element of each window, counted in the whole tensor."""
    image = tuple(each.size for each in windows)
    kernel = tuple(each.kernel for each in windows)
    steps = [math.prod(image[i + 1 :]) for i in range(len(image))]
    if call.int("storage_order"):
        steps = [math.prod(image[:i]) for i in range(len(image))]
    images, channels = call[0].shape[:2]
    planes = np.arange(images * channels).reshape(images, channels, *[1] * len(image))
    place = planes * math.prod(image)
    for axis, (each, within) in enumerate(
        zip(windows, np.unravel_index(chosen, kernel), strict=True)
    ):
        window = np.arange(each.count).reshape([-1 if d == axis else 1 for d in range(len(image))])
        place = place + steps[axis] * each.places[within, np.broadcast_to(window, within.shape)]
    return np.asarray(place, dtype=np.int64)


def average_pool(call: Call) -> list[Array]:
    counted = windows = _pool_windows(call)
    if call.int("count_include_pad"):
        counted = [replace(w, size=w.before + w.size + w.after, before=0) for w in windows]
    ones = np.ones((1, 1, *(each.size for each in counted)))
    number = np.sum(np.stack(seen(ones, counted), axis=-1), axis=-1)
    return [np.sum(np.stack(seen(call[0], windows), axis=-1), axis=-1) / number]


def lp_pool(call: Call) -> list[Array]:
    windows, power = _pool_windows(call), call.int("p", 2)
    powers = np.stack(seen(np.abs(call[0]) ** power, windows), axis=-1)
    return [np.sum(powers, axis=-1) ** (1.0 / power)]


def _positions_of(call: Call) -> tuple[int, ...]:
    return tuple(range(2, call[0].ndim))


def global_average(call: Call) -> list[Array]:
    return [np.mean(call[0], axis=_positions_of(call), keepdims=True)]


def global_max(call: Call) -> list[Array]:
    return [np.max(call[0], axis=_positions_of(call), keepdims=True)]


def col_to_image(call: Call) -> list[Array]:
    data, image = call[0], call.result_dims[0][2:]
    kernel = call.ints("kernel_shape")
    empty = windows_of(call, image, (0,) * len(image), kernel)
    counts = tuple(
        (w.size + w.before + w.after - w.dilation * (w.kernel - 1) - 1) // w.stride + 1
        for w in empty
    )
    channels = data.shape[1] // math.prod(kernel)
    values = np.reshape(data, (data.shape[0], channels, *kernel, *counts))
    return [spread_out(values, windows_of(call, image, counts, kernel), 2)]


def max_unpool(call: Call) -> list[Array]:
    return moved_as(call, onnx_forms.max_unpool)
