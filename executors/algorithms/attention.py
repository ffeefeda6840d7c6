"""Attention: heads of the device, and masks of the query rows that it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import autograd.numpy as np

from executors.placement import Array
from executors.semantics.attention import attention_bias, rows_among_keys
from executors.spmd import Algorithm, OperatorRun, Shards, with_attributes
from ir.graph import AttributeValue, Op
from ir.ops.linear_attention import KEY_HEADS

_PLACED = ("is_causal", "left_window_size", "right_window_size")
"""Attributes that hide keys by the place of the row."""


def attention(task: OperatorRun) -> Shards:
    """Heads of the device where they are an attribute; rows of a mask by place count from the
    first row that the device has.
    """
    query = task.operand(0)
    hides = task.int("is_causal") or any(task.int(key, -1) >= 0 for key in _PLACED[1:])
    split = bool(query.layout.dims[len(query.dims) - 2])
    out = []
    for rank in task.ranks:
        op = with_attributes(task.op, **_heads(task, rank))
        operands = task.parts(rank)
        if hides and split:
            op, operands = _masked(task, op, operands, rank)
        out.append(task.on(rank, op, operands))
    return out


def _heads(task: OperatorRun, rank: int) -> dict[str, AttributeValue]:
    """Numbers of heads where they are attributes."""
    if len(task.operand(0).dims) == 4:
        return {}
    return _counted(task, rank, ((0, "q_num_heads"), (1, "kv_num_heads")))


def _counted(
    task: OperatorRun, rank: int, named: Iterable[tuple[int, str]]
) -> dict[str, AttributeValue]:
    """Heads of the device by the attribute that counts them, from operands with heads in the
    width.
    """
    counts: dict[str, AttributeValue] = {}
    for index, key in named:
        operand = task.operand(index)
        counts[key] = task.int(key) * operand.shards[rank].shape[-1] // operand.dims[-1]
    return counts


def _masked(
    task: OperatorRun, op: Op, operands: list[Array | None], rank: int
) -> tuple[Op, list[Array | None]]:
    """What is hidden by place as a mask for the rows of this device."""
    query = task.operand(0)
    first, end = query.box(rank)[-2]
    past = task.operand(4).dims[2] if task.has(4) else 0
    lengths = operands[6] if len(operands) > 6 else None
    lengths = None if lengths is None else lengths + task.int("length_offset")
    mask = attention_bias(
        operands[3] if len(operands) > 3 else None,
        rows_among_keys(np.arange(first, end), past, lengths, query.dims[-2]),
        task.operand(1).dims[-2] + past,
        None,
        (task.int(_PLACED[1], -1), task.int(_PLACED[2], -1)),
        causal=bool(task.int("is_causal")),
    )
    names = (*op.inputs, "")[: max(4, len(op.inputs))]
    attributes = {k: v for k, v in op.attributes.items() if k not in _PLACED}
    op = replace(op, inputs=(*names[:3], "mask", *names[4:]), attributes=attributes)
    return op, [*operands[:3], mask.astype(query.shards[rank].dtype), *operands[4:]]


def _rotary(task: OperatorRun) -> Shards:
    """Heads of the device; positions that are not told for every row count from its first."""
    data = task.operand(0)
    counted = not task.has(3) or len(task.operand(3).dims) == 1

    def variant(rank: int) -> Op:
        own: dict[str, AttributeValue] = {}
        if len(data.dims) == 3:
            own = _counted(task, rank, ((0, "num_heads"),))
        if counted and len(task.operand(1).dims) == 2:
            own["position_offset"] = task.int("position_offset") + data.box(rank)[-2][0]
        return with_attributes(task.op, **own)

    return task.local(variant)


_COUNTS: Mapping[str, Sequence[tuple[int, str]]] = MappingProxyType(
    {
        "PackedMultiHeadAttention": ((0, "num_heads"),),
        "LinearAttention": ((0, "q_num_heads"), (1, KEY_HEADS), (2, "kv_num_heads")),
    }
)
"""By kind, operands with heads in the width and the attributes that count them."""


def _heads_of_device(task: OperatorRun) -> Shards:
    named = [(i, key) for i, key in _COUNTS[task.op.kind] if key in task.op.attributes]
    return task.local(lambda rank: with_attributes(task.op, **_counted(task, rank, named)))


ATTENTION: Mapping[str, Algorithm] = MappingProxyType(
    {"RotaryEmbedding": _rotary, **dict.fromkeys(_COUNTS, _heads_of_device)}
)
