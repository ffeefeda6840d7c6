"""Convolutions, pooling, resizing and sampling, with the shapes of one device.

Pads and the dims of the result tell what each window sees. Where the reference operators of the
`onnx` package do less than ONNX says, other nodes say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from executors.forms.elementwise import result_dtype
from executors.forms.regions import max_roi_pool
from executors.onnx_form import Form, Writer


def _reach(form: Form, kernel: Sequence[int]) -> list[int]:
    """Positions from the first to the last that one window sees."""
    dilations = form.ints("dilations", (1,) * len(kernel))
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def _full_pads(form: Form, image: Sequence[int]) -> list[int]:
    """Pads with which the last windows are complete: those of the operator or more."""
    rank, kernel = len(image), form.ints("kernel_shape")
    strides, pads = form.ints("strides", (1,) * rank), form.ints("pads", (0,) * (2 * rank))
    reach = _reach(form, kernel)
    behind = [
        max(
            pads[rank + i],
            (form.results[0][2 + i] - 1) * strides[i] + reach[i] - image[i] - pads[i],
        )
        for i in range(rank)
    ]
    return [*pads[:rank], *behind]


def _max_pool(form: Form) -> None:
    """The reference finds places only where some stride is not one: that of a last dimension of 1,
    if need be.
    """
    image, order = form.dims()[2:], form.int("storage_order")
    rank, ones = len(image), (1,) * len(image)
    kernel, pads = form.ints("kernel_shape"), _full_pads(form, image)
    strides, dilations = form.ints("strides", ones), form.ints("dilations", ones)
    data, found = form.inputs[0], form.outputs
    wide = set(strides) == set(dilations) == {1} and rank < 3
    end = form.constant([rank + 2])
    if wide:
        data, found = form.add("Unsqueeze", [data, end]), [f"wide{i}" for i in range(len(found))]
        kernel, strides, dilations = (*kernel, 1), (*strides, 2), (*dilations, 1)
        pads = [*pads[:rank], 0, *pads[rank:], 0]
    form.add(
        "MaxPool",
        [data],
        found,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
        storage_order=order,
    )
    for name, output in zip(found, form.outputs, strict=True):
        if wide:
            form.add("Squeeze", [name, end], [output])


def _average_pool(form: Form) -> None:
    """Padding that counts is made of real zeros; what lies beyond it never counts."""
    data, image = form.inputs[0], list(form.dims()[2:])
    pads, rank = form.ints("pads", (0,) * (2 * len(image))), len(image)
    own = {
        k: form.op.attributes[k]
        for k in ("kernel_shape", "strides", "dilations")
        if k in form.op.attributes
    }
    full = _full_pads(form, image)
    if form.int("count_include_pad"):
        widths = form.constant([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
        data = form.add("Pad", [data, widths])
        full = [f - p for f, p in zip(full, pads, strict=True)]
    form.add("AveragePool", [data], form.outputs, **own, pads=full, count_include_pad=0)


def _lp_pool(form: Form) -> None:
    form.same(pads=_full_pads(form, form.dims()[2:]), p=form.int("p", 2))


def _positions(form: Form) -> str:
    return form.constant(range(2, len(form.dims())))


def _global_max(form: Form) -> None:
    form.add("ReduceMax", [form.inputs[0], _positions(form)], form.outputs, keepdims=1)


def _global_lp(form: Form) -> None:
    power = form.int("p", 2)
    size = form.add("Abs", [form.inputs[0]])
    dtype = result_dtype(form)
    raised = form.add("Pow", [size, form.constant(power, dtype)])
    total = form.add("ReduceSum", [raised, _positions(form)], keepdims=1)
    form.add("Pow", [total, form.constant(1.0 / power, dtype)], form.outputs)


def _conv_transpose(form: Form) -> None:
    """One node for each group: the reference knows groups of one channel alone."""
    groups, weight = form.int("group", 1), form.dims(1)
    rank = len(weight) - 2
    strides, pads = form.ints("strides", (1,) * rank), form.ints("pads", (0,) * (2 * rank))
    reach = _reach(form, weight[2:])
    image, made = form.dims()[2:], form.results[0][2:]
    more = [
        made[i] - (strides[i] * (image[i] - 1) + reach[i] - pads[i] - pads[rank + i])
        for i in range(rank)
    ]
    attributes = {
        "strides": strides,
        "dilations": form.ints("dilations", (1,) * rank),
        "pads": [*pads[:rank], *(pads[rank + i] - min(0, m) for i, m in enumerate(more))],
        "output_padding": [max(0, m) for m in more],
        "kernel_shape": weight[2:],
    }
    if groups == 1:
        form.add("ConvTranspose", form.inputs, form.outputs, **attributes)
        return
    parts = []
    for index, axis in ((0, 1), (1, 0)):
        parts.append([f"part{index}.{g}" for g in range(groups)])
        form.add("Split", [form.inputs[index]], parts[-1], axis=axis, num_outputs=groups)
    found = [form.add("ConvTranspose", pair, **attributes) for pair in zip(*parts, strict=True)]
    form.add("Concat", found, form.outputs, axis=1)


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
        "MaxPool": _max_pool,
        "AveragePool": _average_pool,
        "LpPool": _lp_pool,
        "GlobalMaxPool": _global_max,
        "GlobalLpPool": _global_lp,
        "ConvTranspose": _conv_transpose,
        "MaxUnpool": _max_unpool,
        **dict.fromkeys(("Resize", "Upsample"), _resize),
        "AffineGrid": _affine_grid,
        "RoiAlign": _region_align,
        "MaxRoiPool": max_roi_pool,
        "DeformConv": _deform_conv,
        "Col2Im": _fold,
        "DFT": _dft,
        "STFT": _stft,
    }
)
