"""Resizing, sampling and transforms, with the shapes of one device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.onnx_form import Form, Writer


def _region_align(form: Form) -> None:
    form.same(output_height=form.results[0][2], output_width=form.results[0][3])


def _deform_conv(form: Form) -> None:
    names = [*form.inputs[:3], "", *form.inputs[3:4]]
    form.add("DeformConv", names, form.outputs, **dict(form.op.attributes))


def _fold(form: Form) -> None:
    kept = {k: v for k, v in form.op.attributes.items() if k != "kernel_shape"}
    shapes = [form.constant(form.results[0][2:]), form.constant(form.ints("kernel_shape"))]
    form.add("Col2Im", [form.inputs[0], *shapes], form.outputs, **kept)


def _stft(form: Form) -> None:
    step, length = form.constant(form.int("frame_step")), form.constant(form.int("frame_length"))
    window = form.inputs[1] if form.has(1) else ""
    operands = [form.inputs[0], step, window, length]
    form.add("STFT", operands, form.outputs, onesided=form.int("onesided"))


IMAGES: Mapping[str, Writer] = MappingProxyType(
    {
        "RoiAlign": _region_align,
        "DeformConv": _deform_conv,
        "Col2Im": _fold,
        "STFT": _stft,
    }
)
