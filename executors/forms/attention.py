"""Attention and what belongs to it as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import Form, Writer
from ir.ops.linear_attention import CHANNELS_LAST, KEY_HEADS

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


def _packed_attention(form: Form) -> None:
    """One batch, with a mask of the pairs of one sequence."""
    rows, sequences = form.dims()[0], form.dims(3)[0] - 1
    ends = form.add("Cast", [form.inputs[3]], to=7)
    ends = form.add("Slice", [ends, form.constant([1]), form.constant([sequences + 1])])
    past = form.add("GreaterOrEqual", [form.constant(np.arange(rows)[:, None]), ends])
    past = form.add("Cast", [past], to=7)
    number = form.add("ReduceSum", [past, form.constant([1])], keepdims=1)
    mask = form.add("Equal", [number, form.add("Transpose", [number], perm=[1, 0])])
    axis = form.constant([0])
    data = [form.add("Unsqueeze", [n, axis]) for n in form.inputs[:3]]
    heads = form.int("num_heads")
    kept = {k: v for k, v in form.op.attributes.items() if k == "scale"}
    out = form.add("Attention", [*data, mask], q_num_heads=heads, kv_num_heads=heads, **kept)
    form.add("Squeeze", [out, axis], form.outputs)


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


def _linear_attention(form: Form) -> None:
    """The recurrence row by row: the reference computes it in single precision alone."""
    heads, groups = form.int("q_num_heads"), form.int("kv_num_heads")
    batch, rows, width = form.dims()
    wide, tall = width // heads, form.dims(2)[2] // groups
    shared = groups // form.int(KEY_HEADS) if form.int(KEY_HEADS) else 1
    dims = [batch, rows, groups // shared]
    key = _turned(form, 1, [*dims, wide, 1])
    query = _turned(form, 0, [*dims, max(heads // groups, 1), wide])
    if shared > 1:
        key, query = (_each_head(form, name, dims, shared) for name in (key, query))
    value = _turned(form, 2, [batch, rows, groups, 1, tall])
    kept = form.dims(4)[:2] if form.has(4) else ()
    decay = _turned(form, 4, [*kept, groups, -1, 1])
    rate = _turned(form, 5, [batch, rows, -1, 1, 1])
    if decay:
        decay = form.add("Exp", [decay])
    state = _first_state(form, [batch, groups, wide, tall])
    out = []
    for row in range(rows):
        state = form.add("Mul", [state, _row(form, decay, row % kept[1])]) if decay else state
        here, new = _row(form, key, row), _row(form, value, row)
        if rate:
            turned = form.add("Transpose", [here], perm=[0, 1, 3, 2])
            new = form.add("Sub", [new, form.add("MatMul", [turned, state])])
            new = form.add("Mul", [_row(form, rate, row), new])
        state = form.add("Add", [state, form.add("Mul", [here, new])])
        read = form.add("MatMul", [_row(form, query, row), state])
        out.append(form.add("Unsqueeze", [read, form.constant([1])]))
    scale = float(str(form.op.attributes.get("scale", 0.0))) or wide**-0.5
    factor = form.add("CastLike", [form.constant(scale, np.float64), form.inputs[0]])
    joined = form.add("Mul", [form.add("Concat", out, axis=1), factor])
    form.add("Reshape", [joined, form.constant(form.results[0])], form.outputs[:1])
    if len(form.outputs) > 1:
        form.add("Identity", [state], form.outputs[1:])


def _each_head(form: Form, name: str, dims: list[int], times: int) -> str:
    """Every head, the dimension behind `dims`, once for each head of values that shares it."""
    batch, rows, heads = dims
    apart = form.add("Unsqueeze", [name, form.constant([3])])
    wide = form.add("Expand", [apart, form.constant([1, 1, 1, times, 1, 1])])
    ends = form.add("Slice", [form.add("Shape", [name]), *(form.constant([n]) for n in (3, 5))])
    joined = form.constant([batch, rows, heads * times])
    return form.add("Reshape", [wide, form.add("Concat", [joined, ends], axis=0)])


def _selective_scan(form: Form) -> None:
    """The recurrence row by row."""
    batch, rows, channels = form.dims()
    width = form.dims(2)[1]
    state = _first_state(form, [batch, channels, width], given=False)
    last = form.constant([-1])
    columns = [form.add("Unsqueeze", [name, last]) for name in form.inputs[:2]]
    middle = form.constant([2])
    wide = [form.add("Unsqueeze", [name, middle]) for name in form.inputs[3:]]
    out = []
    for row in range(rows):
        value, step = (_row(form, name, row) for name in columns)
        write, read = (_row(form, name, row) for name in wide)
        kept = form.add("Exp", [form.add("Mul", [step, form.inputs[2]])])
        new = form.add("Mul", [step, form.add("Mul", [value, write])])
        state = form.add("Add", [form.add("Mul", [state, kept]), new])
        made = form.add("ReduceSum", [form.add("Mul", [state, read]), last], keepdims=0)
        out.append(form.add("Unsqueeze", [made, form.constant([1])]))
    form.add("Concat", out, form.outputs, axis=1)


def _turned(form: Form, index: int, dims: list[int]) -> str:
    """An operand in other dims, nothing if it is absent."""
    return form.add("Reshape", [form.inputs[index], form.constant(dims)]) if form.has(index) else ""


def _row(form: Form, name: str, row: int) -> str:
    """What one row has, without the dimension of the rows."""
    return form.add("Gather", [name, form.constant(row)], axis=1)


def _first_state(form: Form, dims: list[int], *, given: bool = True) -> str:
    """Zeros, or the state that is handed in."""
    if given and form.has(3):
        return form.inputs[3]
    zero = form.add("CastLike", [form.constant(0), form.inputs[0]])
    return form.add("Expand", [zero, form.constant(dims)])


def _causal_conv(form: Form) -> None:
    """What is handed in, or zeros, in front; then one kernel for each channel."""
    channels, _, kernel = form.dims(1)
    batch, last = form.dims()[0], form.int(CHANNELS_LAST)
    length = form.dims()[1 if last else 2]
    before = _first_state(form, [batch, channels, kernel - 1])
    data = form.inputs[0]
    data = form.add("Transpose", [data], perm=[0, 2, 1]) if last else data
    line = form.add("Concat", [before, data], axis=2)
    out = form.add("Conv", [line, *form.inputs[1:3]], group=channels)
    if form.op.attributes.get("activation", "none") != "none":
        out = form.add("Mul", [out, form.add("Sigmoid", [out])])
    out = form.add("Transpose", [out], perm=[0, 2, 1]) if last else out
    form.add("Identity", [out], form.outputs[:1])
    if len(form.outputs) > 1:
        bounds = [form.constant([n]) for n in (length, length + kernel - 1, 2)]
        form.add("Slice", [line, *bounds], form.outputs[1:])


ATTENTION: Mapping[str, Writer] = MappingProxyType(
    {
        "Attention": _attention,
        "PackedMultiHeadAttention": _packed_attention,
        "RotaryEmbedding": _rotary,
        "LinearAttention": _linear_attention,
        "SelectiveScan": _selective_scan,
        "CausalConvWithState": _causal_conv,
    }
)
