"""Mixtures of experts as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.forms.indexing import BEYOND, from_front
from executors.onnx_form import Form, Writer


def _slots(form: Form, held: int, capacity: int) -> str:
    """Slot of every token, behind all slots for experts that another device has.

    A token that finds no slot gets one that no tensor has, so that the reference fails rather than
    mixes up tokens.
    """
    experts, first = form.int("experts", held), form.int("first_expert")
    index = form.add("Reshape", [form.inputs[1], form.constant([-1, 1])])
    expert = from_front(form, index, experts)
    chosen = form.add("Equal", [expert, form.constant(np.arange(experts)[None])])
    chosen = form.add("Cast", [chosen], to=7)
    places = form.add("CumSum", [chosen, form.constant(0)], exclusive=1)
    places = form.add("Mul", [places, chosen])
    place = form.add("ReduceSum", [places, form.constant([1])], keepdims=1)
    here = form.add("Sub", [expert, form.constant(first)])
    slot = form.add("Add", [form.add("Mul", [here, form.constant(capacity)]), place])
    mine = form.add(
        "And",
        [
            form.add("GreaterOrEqual", [here, form.constant(0)]),
            form.add("Less", [here, form.constant(held)]),
        ],
    )
    slot = form.add("Where", [mine, slot, form.constant(held * capacity)])
    full = form.add("GreaterOrEqual", [place, form.constant(capacity)])
    lost = form.add("GreaterOrEqual", [expert, form.constant(experts)])
    bad = form.add("Or", [full, lost])
    return form.add("Where", [bad, form.constant(BEYOND), slot])


def _dispatch(form: Form) -> None:
    """Rows of zeros take the tokens; a row behind them takes what other devices have."""
    held, capacity, *rest = form.results[0]
    slots = _slots(form, held, capacity)
    shape = form.constant([held * capacity + 1, *rest])
    empty = form.add("Expand", [form.add("CastLike", [form.constant(0), form.inputs[0]]), shape])
    rows = form.add("ScatterND", [empty, slots, form.inputs[0]])
    kept = form.constant([held * capacity])
    rows = form.add("Slice", [rows, form.constant([0]), kept, form.constant([0])])
    form.add("Reshape", [rows, form.constant(form.results[0])], form.outputs)


def _combine(form: Form) -> None:
    held, capacity, *rest = form.dims()
    slots = form.add("Reshape", [_slots(form, held, capacity), form.constant([-1])])
    rows = form.add("Reshape", [form.inputs[0], form.constant([held * capacity, *rest])])
    zero = form.add("CastLike", [form.constant(0), form.inputs[0]])
    zeros = form.add("Expand", [zero, form.constant([1, *rest])])
    rows = form.add("Concat", [rows, zeros], axis=0)
    form.add("Gather", [rows, slots], form.outputs, axis=0)


def _expert_matmul(form: Form) -> None:
    """One weight for all slots of an expert."""
    experts, *dims = form.dims(1)
    weight = form.add("Reshape", [form.inputs[1], form.constant([experts, 1, *dims])])
    pair = (form.inputs[0], weight) if form.int("row") else (weight, form.inputs[0])
    form.add("MatMul", pair, form.outputs)


def _unpacked(form: Form, name: str, bits: int) -> str:
    """Whole numbers of few bits in a dimension of their own, the lowest bits of a byte first."""
    parts = []
    for shift in range(0, 8, bits):
        moved = form.add("BitShift", [name, form.constant(shift, np.uint8)], direction="RIGHT")
        part = form.add("BitwiseAnd", [moved, form.constant((1 << bits) - 1, np.uint8)])
        parts.append(form.add("Unsqueeze", [part, form.constant([-1])]))
    return form.add("Concat", parts, axis=-1)


def _packed_expert_matmul(form: Form) -> None:
    """The weights of every block, shifted and scaled, then a product for all slots of an expert."""
    bits, (experts, rows, _) = form.int("bits", 4), form.dims(1)
    width = form.dims()[2]
    blocks = form.dims(2)[2] if len(form.dims(2)) == 3 else 1
    shape = [experts, rows, blocks, width // blocks]
    weight = form.add("Reshape", [_unpacked(form, form.inputs[1], bits), form.constant(shape)])
    weight = form.add("CastLike", [weight, form.inputs[0]])
    zero = form.constant(1 << (bits - 1))
    if form.has(3):
        points = form.dims(3)
        flat = form.constant([*points[:-1], points[-1] * 8 // bits])
        zero = form.add("Reshape", [_unpacked(form, form.inputs[3], bits), flat])
        count = form.constant([blocks if len(points) == 3 else rows])
        last = form.constant([len(points) - 1])
        zero = form.add("Slice", [zero, form.constant([0]), count, last])
        zero = form.add("Reshape", [zero, form.constant([experts, rows, blocks, 1])])
    zero = form.add("CastLike", [zero, form.inputs[0]])
    scale = form.add("Reshape", [form.inputs[2], form.constant([experts, rows, blocks, 1])])
    real = form.add("Mul", [form.add("Sub", [weight, zero]), scale])
    real = form.add("Reshape", [real, form.constant([experts, 1, rows, width])])
    form.add("MatMul", [real, form.inputs[0]], form.outputs)


EXPERTS: Mapping[str, Writer] = MappingProxyType(
    {
        "Dispatch": _dispatch,
        "Combine": _combine,
        "ExpertMatMul": _expert_matmul,
        "ExpertMatMulNBits": _packed_expert_matmul,
    }
)
