"""Operators that move or rename elements: the dims of a result are those of the device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.onnx_form import Form, Writer
from tests.operators.onnx_forms.elementwise import result_code, result_dtype


def _reshape(form: Form) -> None:
    shape = form.constant(form.results[0])
    form.add("Reshape", [form.inputs[0], shape], form.outputs, allowzero=1)


def _expand(form: Form) -> None:
    form.add("Expand", [form.inputs[0], form.constant(form.results[0])], form.outputs)


def _tile(form: Form) -> None:
    repeats = [r // d if d else 1 for r, d in zip(form.results[0], form.dims(), strict=True)]
    form.add("Tile", [form.inputs[0], form.constant(repeats)], form.outputs)


def _axes_operand(form: Form) -> None:
    form.add(form.op.kind, [form.inputs[0], form.constant(form.ints("axes"))], form.outputs)


def _slice(form: Form) -> None:
    if form.has(1):
        form.add("Slice", form.inputs, form.outputs)
        return
    axes = form.ints("slice_axes")
    starts, ends = form.ints("starts"), form.ints("ends")
    if len(starts) != len(axes) or len(ends) != len(axes):
        raise ValueError(f"the bounds of slice {form.op.name} are not known")
    steps = form.ints("steps", (1,) * len(axes))
    cut = [i for i, a in enumerate(axes) if a in form.ints("axes")]
    operands = [form.constant([each[i] for i in cut]) for each in (starts, ends, axes, steps)]
    form.add("Slice", [form.inputs[0], *operands], form.outputs)


def _split(form: Form) -> None:
    axis = form.int("axis")
    sizes = form.constant([dims[axis] for dims in form.results])
    form.add("Split", [form.inputs[0], sizes], form.outputs, axis=axis)


def _pad(form: Form) -> None:
    """Negative padding crops, which the reference does not do: a slice comes first."""
    mode = str(form.op.attributes.get("mode", "constant"))
    if "pads" not in form.op.attributes:
        form.add("Pad", form.inputs, form.outputs, mode=mode)
        return
    axes, pads = form.ints("axes"), form.ints("pads")
    data, half = form.inputs[0], len(axes)
    if min(pads) < 0:
        sizes = [form.dims()[a] for a in axes]
        starts = form.constant([max(0, -p) for p in pads[:half]])
        ends = form.constant([s + min(0, p) for s, p in zip(sizes, pads[half:], strict=True)])
        data = form.add("Slice", [data, starts, ends, form.constant(axes)])
    value = form.constant(form.op.attributes.get("value", 0), result_dtype(form))
    around = form.constant([max(0, p) for p in pads])
    names = [data, around, form.inputs[1] if form.has(1) else value, form.constant(axes)]
    form.add("Pad", names, form.outputs, mode=mode)


def _trilu(form: Form) -> None:
    offset = form.inputs[1] if form.has(1) else form.constant(form.int("k"))
    form.add("Trilu", [form.inputs[0], offset], form.outputs, upper=form.int("upper", 1))


def _one_hot(form: Form) -> None:
    axis = form.int("axis", len(form.dims()))
    depth = form.constant(form.results[0][axis])
    form.add("OneHot", [form.inputs[0], depth, form.inputs[1]], form.outputs, axis=axis)


def _window(form: Form) -> None:
    size = form.constant(form.results[0][0])
    periodic = form.int("periodic", 1)
    code = result_code(form)
    form.add(form.op.kind, [size], form.outputs, output_datatype=code, periodic=periodic)


def _mel_weights(form: Form) -> None:
    form.add("MelWeightMatrix", form.inputs, form.outputs, output_datatype=result_code(form))


def _eye_like(form: Form) -> None:
    form.same(dtype=result_code(form))


def _constant_of_shape(form: Form) -> None:
    value = form.constant(form.op.attributes.get("value", 0), result_dtype(form))
    form.add("Expand", [value, form.inputs[0]], form.outputs)


def _output(form: Form) -> None:
    """A delivered result: nothing is left to compute."""
    if form.outputs:
        form.add("Identity", form.inputs[:1], form.outputs[:1])


SHAPE: Mapping[str, Writer] = MappingProxyType(
    {
        "Reshape": _reshape,
        "Flatten": _reshape,
        "Expand": _expand,
        "Tile": _tile,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), _axes_operand),
        "Slice": _slice,
        "Split": _split,
        "Pad": _pad,
        "Trilu": _trilu,
        "OneHot": _one_hot,
        **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), _window),
        "MelWeightMatrix": _mel_weights,
        "EyeLike": _eye_like,
        "ConstantOfShape": _constant_of_shape,
        "Output": _output,
    }
)
