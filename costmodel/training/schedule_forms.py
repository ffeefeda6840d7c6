"""Closed forms of what the order of passes makes of a pipeline, for many layouts at once.

Gradients of weights that are put off fill the bubble (Qi et al., Zero Bubble Pipeline Parallelism,
arXiv 2401.10241, table 2). Micro-batches that enter at both ends halve it, and a forward and a
backward pass that run interleaved hide what both send (DeepSeek-V3, arXiv 2412.19437, section
3.2.1; github.com/deepseek-ai/DualPipe).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.training.records import TrainingLayout
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "ORDERS",
    "Elsewhere",
    "alone_batches",
    "idle_s",
    "micro_batches",
    "near_batches",
    "order_faults",
    "put_off_share",
    "steady_s",
]

ORDERS = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipe")
"""Names of the orders that are known."""


class Elsewhere(NamedTuple):
    """Seconds of one micro-batch on all stages but one, any shape that ends with (N,)."""

    both: FloatArray
    """Forward and backward pass."""

    backward: FloatArray
    weight: FloatArray
    """The gradients of the weights."""

    pair: FloatArray
    """What both passes take where they run interleaved."""


def idle_s(table: RunTable, others: Elsewhere) -> FloatArray:
    """Seconds that a stage idles.

    With p - 1 equal ones beside it: 1F1B (p - 1)(f + B), interleaved (p - 1)(f + B) / v, ZB-H1
    (p - 1)(f + b - w), ZB-H2 (p - 1)(f + b - 2 w), DualPipe (p / 2 - 1)(FB + B - 3 w), with
    B = b + w. Of few micro-batches less is filled: see `put_off_share`.
    """
    idle = (others.both - put_off_share(table) * others.weight) / table.vpp
    half = (table.pp / 2.0 - 1.0) / np.maximum(table.pp - 1.0, 1.0)
    paired = half * (others.pair + others.backward - 3.0 * others.weight)
    return np.maximum(np.where(table.both_ways > 0, paired, idle), 0.0)


def put_off_share(table: RunTable) -> FloatArray:
    """Gradients of weights that are not in the way of a pipeline's ends, per stage beside one.

    None delays the stages before it: one each. Those of all micro-batches but the last may fill the
    bubble: of ZB-H1 p - 1 at most, of ZB-H2 twice as many. Both orders, simulated, take exactly
    that long.
    """
    others = np.maximum(table.pp - 1.0, 1.0)
    filling = np.minimum(table.put_off, (micro_batches(table) - 1.0) / others)
    return np.where(table.put_off > 0, 1.0 + filling, 0.0)


def micro_batches(table: RunTable) -> FloatArray:
    """Micro-batches of a replica."""
    return table.global_batch / (table.micro_batch * table.dp)


def alone_batches(table: RunTable) -> FloatArray:
    """Forward and backward passes of DualPipe that run in no pairs: m - p - 1 of m do."""
    return np.minimum(table.pp + 1.0, micro_batches(table))


def steady_s(table: RunTable, slowest: FloatArray, pair: FloatArray) -> FloatArray:
    """Seconds that a stage works on all micro-batches.

    Args:
        table: the runs.
        slowest: seconds of one of them, forward and backward.
        pair: the same where both passes run interleaved.
    """
    count, alone = micro_batches(table), alone_batches(table)
    paired = (count - alone) * pair + alone * slowest
    return np.where(table.both_ways > 0, paired, count * slowest)


def order_faults(layout: TrainingLayout) -> Iterator[str]:
    """Why the order of a layout cannot be, in sentences."""
    name, pp, count = layout.schedule, layout.pp, layout.micro_batches
    if name and name not in ORDERS:
        yield f"schedule {name!r} is not known; known: {', '.join(ORDERS)}"
    if name in {"", "interleaved"} and layout.vpp > 1 and count % pp:
        yield (
            f"chunks take turns with {pp} micro-batches at a time, one for each stage; {count:g} "
            "micro-batches are no multiple of that"
        )
    if name not in {"", "interleaved"} and layout.vpp > 1:
        yield f"{name} has one chunk of layers on each stage, vpp is {layout.vpp}"
    if name == "dualpipe" and (pp % 2 or count % 2 or count < 2 * pp):
        yield (
            "dualpipe needs an even number of stages, and an even number of micro-batches that is "
            f"at least twice as large; not {pp} stages and {count:g} micro-batches"
        )


def near_batches(layout: TrainingLayout) -> tuple[int, ...]:
    """The global batches next to that of a layout which its replicas and its order can share out.

    >>> from costmodel.training.records import TrainingLayout
    >>> near_batches(TrainingLayout(100, 1, 4096, pp=4, vpp=2, dp=8))
    (96, 128)
    """
    paired = layout.schedule == "dualpipe"
    turns = 2 if paired else layout.pp if layout.vpp > 1 else 1
    unit = turns * layout.micro_batch * layout.dp
    least = unit * layout.pp if paired else unit
    if layout.global_batch < least:
        return (least,)
    low = layout.global_batch // unit * unit
    return (low,) if low == layout.global_batch else (low, low + unit)
