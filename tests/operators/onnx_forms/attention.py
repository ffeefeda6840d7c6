"""Attention and what belongs to it as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import Form, Writer

_HIDING: Mapping[str, int] = MappingProxyType(
    {"is_causal": 0, "left_window_size": -1, "right_window_size": -1}
)
"""Attributes that hide keys by the place of the row, and their neutral values."""


def _attention(form: Form) -> None:
    """The reference takes a mask with one row for an attention with one row, and hands on the
    product of queries and keys from behind the softcap where it should from before.
    """
    inputs = list(form.inputs)
    if form.int("length_offset"):
        offset = form.constant(form.int("length_offset"))
        inputs[6] = form.add("Add", [inputs[6], offset])
    hides = any(form.int(k, d) > d for k, d in _HIDING.items())
    if form.has(3) and hides and form.dims(3)[-2:-1] == (1,):
        rows = form.constant([*form.dims(3)[:-2], form.dims()[-2], form.dims(3)[-1]])
        inputs[3] = form.add("Expand", [inputs[3], rows])
    raw = len(form.outputs) > 3 and not form.int("qk_matmul_output_mode")
    attributes = {k: v for k, v in form.op.attributes.items() if k != "length_offset"}
    if not raw or not attributes.get("softcap"):
        form.add("Attention", inputs, form.outputs, **attributes)
        return
    form.add("Attention", inputs, form.outputs[:3], **attributes)
    unused = ["unused0", "unused1", "unused2"]
    attributes.pop("softcap")
    form.add("Attention", inputs, [*unused, form.outputs[3]], **attributes)


def _rotary(form: Form) -> None:
    """Positions that are not told for every row follow from that of the first."""
    operands = list(form.inputs)
    if len(form.dims(1)) == 2 and not (form.has(3) and len(form.dims(3)) == 2):
        batch, rows = form.dims()[0], form.dims()[-2]
        following = np.tile(np.arange(rows) + form.int("position_offset"), (batch, 1))
        places = form.constant(following)
        if form.has(3):
            first = form.add("Unsqueeze", [operands[3], form.constant([1])])
            places = form.add("Add", [form.add("Cast", [first], to=7), places])
        operands = [*operands[:3], places]
    kept = {k: v for k, v in form.op.attributes.items() if k != "position_offset"}
    form.add("RotaryEmbedding", operands, form.outputs, **kept)


ATTENTION: Mapping[str, Writer] = MappingProxyType(
    {
        "Attention": _attention,
        "RotaryEmbedding": _rotary,
    }
)
