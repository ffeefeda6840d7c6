"""Constants of a chip and its host from profiles, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.operators.model import OperatorModel
from costmodel.traces.records import Kernel, Trace
from ir.dtypes import dtype_bytes
from topology.cluster import Chip

__all__ = ["Priced", "ProfiledConstant", "constants_of", "priced"]

_DRAWS = 400
_INTERVAL = (0.025, 0.975)
_SHORTEST = 20e-6
"""Kernels that take less tell of their start, and nothing of a rate."""

_MOVED = {
    "add": 1, "mul": 1, "div": 1, "sub": 1, "gelu": 1, "relu": 1, "silu": 1, "tanh": 1, "cat": 1,
    "gelu_backward": 1, "silu_backward": 1, "threshold_backward": 1, "copy_": 0, "add_": 1,
    "mul_": 1, "relu_": 1, "swiglu": 1, "cast": 1, "relugrad": 1, "gelugrad": 1,
}  # fmt: skip
"""Streaming operators, and how often they write as much as their largest operand beside what they
read."""


@dataclass(frozen=True, slots=True)
class ProfiledConstant:
    """One number that profiles tell."""

    name: str
    value: float
    low: float
    high: float
    """95 % interval: kernels drawn with replacement."""
    told: int
    """Calls that it rests on."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A kernel beside what the cost model says of it."""

    kernel: Kernel
    calls: float
    """Of a step."""
    measured_s: float
    predicted_s: float | None
    """None where shapes are not known."""


def priced(kernel: Kernel, trace: Trace, model: OperatorModel) -> Priced:
    """A kernel of a step beside its price alone."""
    calls = kernel.calls / trace.steps
    one = _one_s(kernel, model)
    seconds = kernel.seconds / trace.steps
    return Priced(kernel, calls, seconds, None if one is None else calls * one)


def _one_s(kernel: Kernel, model: OperatorModel) -> float | None:
    product = kernel.product
    if product and kernel.dtype:
        batch, m, n, k = map(float, product)
        return float(model.matmul_s(kernel.dtype, m, n, k, batch))
    nbytes = moved_bytes(kernel)
    return float(model.elementwise_s(nbytes)) if nbytes else None


def moved_bytes(kernel: Kernel) -> float:
    """Bytes that a streaming kernel of known shapes reads and writes; 0 where unknown."""
    writes = _MOVED.get(kernel.operator.rpartition("::")[2].lower())
    if writes is None or not kernel.shapes or not kernel.dtype:
        return 0.0
    sizes = [math.prod(shape) for shape in kernel.shapes]
    return float((sum(sizes) + writes * max(sizes)) * dtype_bytes(kernel.dtype))


def constants_of(traces: Sequence[Trace], chip: Chip) -> list[ProfiledConstant]:
    """What the profiles tell of a machine.

    Shares of the peak of products by type, share of the memory's bandwidth, seconds from one launch
    to the next, bytes a second of each kind of message, and the share of messages that hides.
    """
    kernels = [each for trace in traces for each in trace.kernels]
    out = [*_of_products(kernels, OperatorModel(chip)), *_of_streams(kernels, chip)]
    gaps = [gap for trace in traces for gap in trace.launches_s]
    if gaps:
        out.append(_median("launch_s", gaps))
    out += _of_messages(traces)
    sending = [trace for trace in traces if trace.message_s > 0]
    if sending:
        pairs = [(trace.hidden_s, trace.message_s) for trace in sending]
        out.append(_ratio("messages.hidden", pairs, sum(len(t.messages) for t in sending)))
    return out


def _of_products(kernels: Sequence[Kernel], model: OperatorModel) -> Iterator[ProfiledConstant]:
    own = [each for each in kernels if each.flops and each.dtype and _is_long(each)]
    for dtype in sorted({each.dtype for each in own}):
        peak = model.peak_flops(dtype)
        these = [each for each in own if each.dtype == dtype]
        pairs = [(each.calls * each.flops / peak, each.seconds) for each in these]
        yield _ratio(f"products.{dtype}", pairs, sum(each.calls for each in these))


def _of_streams(kernels: Sequence[Kernel], chip: Chip) -> Iterator[ProfiledConstant]:
    own = [each for each in kernels if moved_bytes(each) and _is_long(each)]
    if own:
        rate = chip.memory_bandwidth_bytes_per_s
        pairs = [(each.calls * moved_bytes(each) / rate, each.seconds) for each in own]
        yield _ratio("streams", pairs, sum(each.calls for each in own))


def _is_long(kernel: Kernel) -> bool:
    return kernel.seconds / kernel.calls >= _SHORTEST


def _of_messages(traces: Sequence[Trace]) -> Iterator[ProfiledConstant]:
    sent = [each for trace in traces for each in trace.messages if each.nbytes and each.seconds]
    for kind in sorted({each.kind for each in sent}):
        these = [each for each in sent if each.kind == kind]
        pairs = [(each.calls * each.nbytes, each.seconds) for each in these]
        yield _ratio(f"{kind}.bytes_per_s", pairs, sum(each.calls for each in these))


def _ratio(name: str, pairs: Sequence[tuple[float, float]], told: int) -> ProfiledConstant:
    """Sum over sum, with an interval from pairs drawn with replacement."""
    table = np.asarray(pairs, dtype=float)
    draw = np.random.default_rng(0).integers(0, len(table), (_DRAWS, len(table)))
    sums = table[draw].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], _INTERVAL)
    value = table[:, 0].sum() / table[:, 1].sum()
    return ProfiledConstant(name, float(value), float(low), float(high), told)


def _median(name: str, values: Sequence[float]) -> ProfiledConstant:
    table = np.asarray(values, dtype=float)
    draw = np.random.default_rng(0).integers(0, len(table), (_DRAWS, min(len(table), 5000)))
    low, high = np.quantile(np.median(table[draw], axis=1), _INTERVAL)
    return ProfiledConstant(name, float(np.median(table)), float(low), float(high), len(table))
