"""Resizing, sampling and transforms, with the shapes of one device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import Form, Writer


def _max_unpool(form: Form) -> None:
    inputs = [*form.inputs[:2], form.constant(form.results[0])]
    form.add("MaxUnpool", inputs, form.outputs, **dict(form.op.attributes))


def _floats(form: Form, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    value = form.op.attributes.get(key, default)
    return tuple(float(v) for v in value) if isinstance(value, tuple) else default


def _resize(form: Form) -> None:
    attributes = {k: v for k, v in form.op.attributes.items() if k not in {"scales", "roi"}}
    # Where it is left to the reference, it is in single precision.
    attributes = {"cubic_coeff_a": -0.75, **attributes}
    if form.op.kind == "Upsample":
        attributes = {
            "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", **attributes
        }  # fmt: skip
    dims, result, rank = form.dims(), form.results[0], len(form.dims())
    region = _floats(form, "roi", (0.0,) * rank + (1.0,) * rank)
    scales = _floats(form, "scales", ())
    ratios = [w / s if s else 1.0 for w, s in zip(result, dims, strict=True)]
    told = all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(scales, ratios, strict=False))
    roi = form.constant(region, np.float64)
    if told:
        operands = [form.inputs[0], roi, "", form.constant(result)]
    else:
        operands = [form.inputs[0], roi, form.constant(scales, np.float64)]
    form.add("Resize", operands, form.outputs, **attributes)


def _affine_grid(form: Form) -> None:
    size = form.constant([form.results[0][0], 1, *form.results[0][1:-1]])
    form.add("AffineGrid", [form.inputs[0], size], form.outputs, **dict(form.op.attributes))


def _region_align(form: Form) -> None:
    form.same(output_height=form.results[0][2], output_width=form.results[0][3])


def _deform_conv(form: Form) -> None:
    names = [*form.inputs[:3], "", *form.inputs[3:4]]
    form.add("DeformConv", names, form.outputs, **dict(form.op.attributes))


def _fold(form: Form) -> None:
    kept = {k: v for k, v in form.op.attributes.items() if k != "kernel_shape"}
    shapes = [form.constant(form.results[0][2:]), form.constant(form.ints("kernel_shape"))]
    form.add("Col2Im", [form.inputs[0], *shapes], form.outputs, **kept)


def _dft(form: Form) -> None:
    operands = [form.inputs[0], form.constant(form.int("length")), form.constant(form.int("axis"))]
    kept = {k: v for k, v in form.op.attributes.items() if k in {"inverse", "onesided"}}
    form.add("DFT", operands, form.outputs, **kept)


def _stft(form: Form) -> None:
    step, length = form.constant(form.int("frame_step")), form.constant(form.int("frame_length"))
    window = form.inputs[1] if form.has(1) else ""
    operands = [form.inputs[0], step, window, length]
    form.add("STFT", operands, form.outputs, onesided=form.int("onesided"))


IMAGES: Mapping[str, Writer] = MappingProxyType(
    {
        "MaxUnpool": _max_unpool,
        **dict.fromkeys(("Resize", "Upsample"), _resize),
        "AffineGrid": _affine_grid,
        "RoiAlign": _region_align,
        "DeformConv": _deform_conv,
        "Col2Im": _fold,
        "DFT": _dft,
        "STFT": _stft,
    }
)
