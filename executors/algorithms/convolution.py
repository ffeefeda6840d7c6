"""Convolutions: the number of groups is that of the device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.spmd import Algorithm, Shards, Task, with_attributes
from ir.graph import Op


def with_groups(task: Task, rank: int, op: Op) -> Op:
    """The operator with the groups of one device: its share of the channels, one at least."""
    data = task.operand(0)
    part, whole = data.shards[rank].shape[1], data.dims[1]
    counts = {key: task.int(key, 1) for key in ("group", "offset_group")}
    own = {key: max(1, n * part // max(whole, 1)) for key, n in counts.items() if n > 1}
    return with_attributes(op, **own)


def _conv(task: Task) -> Shards:
    return [
        task.on(
            rank,
            with_groups(task, rank, task.op),
            [None if o is None else o.shards[rank] for o in task.operands],
        )
        for rank in task.ranks
    ]


CONVOLUTION: Mapping[str, Algorithm] = MappingProxyType(
    dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger", "DeformConv"), _conv)
)
