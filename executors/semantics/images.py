"""Resizing, sampling and transforms of images and signals."""

from __future__ import annotations

import math

from executors.placement import Array
from executors.semantics import onnx_forms
from executors.semantics.reference_maps import linear_map
from ir.graph import AttributeValue
from ir.semantics.arrays import np
from ir.semantics.call import Call


def dft(call: Call) -> list[Array]:
    """The transform along an axis, or its inverse."""
    flags = {key: call.int(key) for key in ("inverse", "onesided")}
    return [_transformed(call[0], call.int("axis"), call.int("length"), call.result_dims[0], flags)]


def stft(call: Call) -> list[Array]:
    """The transform of every frame of the signal, times the window."""
    length, step = call.int("frame_length"), call.int("frame_step")
    frames = call.result_dims[0][1]
    seen = call[0][:, np.arange(frames)[:, None] * step + np.arange(length)]
    if call.has(1):
        seen = seen * np.reshape(call[1], (-1, 1))
    flags = {"inverse": 0, "onesided": call.int("onesided")}
    return [_transformed(seen, 2, length, call.result_dims[0], flags)]


def _transformed(
    data: Array, axis: int, length: int, result: tuple[int, ...], flags: dict[str, int]
) -> Array:
    """Real and imaginary parts are the last dimension."""
    attributes = tuple(sorted({"axis": 1, "length": length, **flags}.items()))
    dims = (data.shape[axis], data.shape[-1])
    matrix, _ = linear_map("DFT", attributes, dims, (result[axis], result[-1]), onnx_forms.dft)
    found = np.tensordot(data, matrix, axes=([axis, data.ndim - 1], [0, 1]))
    return np.moveaxis(found, -2, axis)


def resize(call: Call) -> list[Array]:
    """One product for each dimension with what ONNX's reference makes of its unit vectors."""
    found, rank = call[0], call[0].ndim
    told = {k: v for k, v in call.op.attributes.items() if k not in _OF_EACH}
    scales, region = (_floats(call.op.attributes.get(key)) for key in ("scales", "roi"))
    cropped = told.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    for axis, (size, wanted) in enumerate(zip(found.shape, call.result_dims[0], strict=True)):
        own: dict[str, AttributeValue] = {}
        if scales:
            own["scales"] = (1.0, scales[axis])
        if region:
            own["roi"] = (0.0, region[axis], 1.0, region[rank + axis])
        same = size == wanted and (not scales or math.isclose(scales[axis], 1.0))
        if same and not (cropped and region and own["roi"] != (0.0, 0.0, 1.0, 1.0)):
            continue
        attributes = tuple(sorted({**told, **own}.items()))
        matrix, filling = linear_map(
            call.op.kind, attributes, (size,), (wanted,), onnx_forms.resize
        )
        found = np.moveaxis(np.tensordot(found, matrix, axes=([axis], [0])), -1, axis)
        found = found + filling.reshape([-1 if d == axis else 1 for d in range(rank)])
    return [found]


_OF_EACH = frozenset({"scales", "roi", "axes", "keep_aspect_ratio_policy"})
"""Attributes that tell of each dimension, or how sizes follow from each other."""


def _floats(value: object) -> tuple[float, ...]:
    return tuple(float(v) for v in value) if isinstance(value, tuple) else ()


def determinant(call: Call) -> list[Array]:
    return [np.linalg.det(call[0])]
