"""A profile as this package knows it: kernels of one kind together, messages, and how they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["CLASSES", "Kernel", "Message", "Shapes", "Trace", "class_of"]

Shapes = tuple[tuple[int, ...], ...]

CLASSES: Mapping[str, tuple[str, ...]] = {
    "messages": (
        "nccl", "rccl", "hccl", "hcom_", "gloo:", "c10d::", "_c10d_functional", "all-reduce",
        "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    ),
    "attention": ("flash", "fmha", "attention", "scaled_dot_product"),
    "update": ("adam", "multi_tensor_apply", "foreach", "optimizer", "aten::_fused_sgd", "lamb"),
    "products": (
        "gemm", "cutlass", "cublas", "nvjet", "xmma", "matmul", "aten::mm", "aten::addmm",
        "aten::bmm", "aten::baddbmm", "aten::linear", "dot.", "dot_general", "conv", "winograd",
        "fprop", "dgrad", "wgrad", "cudnn::cnn", "implicit",
    ),
}  # fmt: skip
"""Marks in names of kernels, in lower case; the first class that has one counts. All other kernels
are streams."""
_NO_PRODUCT = ("convert", "copy", "im2col", "nchwtonhwc", "nhwctonchw")
"""Kernels around convolutions that move data only."""


def class_of(name: str) -> str:
    """The class of operators that a kernel belongs to."""
    text = name.lower()
    for group, marks in CLASSES.items():
        if any(mark in text for mark in marks) and not (
            group == "products" and any(mark in text for mark in _NO_PRODUCT)
        ):
            return group
    return "products" if text == "dot" else "streams"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernels of one name, and of operands of one shape where the profiler kept shapes."""

    name: str
    group: str
    """One of `CLASSES`, or `streams`."""
    calls: int
    seconds: float
    """Of all calls together."""
    operator: str = ""
    """Of the framework that started it, where known."""
    shapes: Shapes = ()
    dtype: str = ""

    @property
    def product(self) -> tuple[int, int, int, int] | None:
        """Batch, rows, columns and inner size of a matrix product whose shapes are known."""
        wanted = {"mm": 2, "matmul": 2, "matmulv2": 2, "matmulv3": 2, "bmm": 3, "batchmatmul": 3}
        wanted |= {"batchmatmulv2": 3, "addmm": 2, "baddbmm": 3}
        kind = self.operator.rpartition("::")[2].lower()
        given = self.shapes[1:] if kind in {"addmm", "baddbmm"} else self.shapes
        if kind not in wanted or len(given) < 2:
            return None
        (one, other), rank = given[:2], wanted[kind]
        if len(one) != rank or len(other) != rank or one[-1] != other[-2]:
            return None
        return (one[0] if rank == 3 else 1), one[-2], other[-1], one[-1]

    @property
    def flops(self) -> float:
        """Of one call; 0 where it is no product of known shapes."""
        return 2.0 * math.prod(self.product) if self.product else 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """Collectives of one kind and size together."""

    kind: str
    nbytes: float
    """As `PlannedCollective` counts them; 0 where unknown."""
    ranks: int
    """0 where unknown."""
    calls: int
    seconds: float
    """Of all calls together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One profile of one process."""

    name: str
    format: str
    kernels: tuple[Kernel, ...]
    messages: tuple[Message, ...]
    steps: int = 1
    """Training steps that it spans."""
    span_s: float = 0.0
    """From the first kernel to the end of the last; 0 where the table has no times."""
    busy_s: float = 0.0
    """In which a kernel runs that is no message."""
    message_s: float = 0.0
    """In which a message is under way."""
    hidden_s: float = 0.0
    """The part of `message_s` beside which a kernel runs."""
    launches_s: tuple[float, ...] = ()
    """Between one launch of the host and the next, where the profiler saw launches."""
    device: str = ""
    ranks: int = 0
    """Of the job; 0 where unknown."""
    causes_s: Mapping[str, float] = field(default_factory=dict)
    """Of a step, by cause, where the profiler sums up steps and tells no kernels."""

    @property
    def seconds(self) -> dict[str, float]:
        """Of a step, by class or cause."""
        out = dict(self.causes_s)
        for each in self.kernels:
            out[each.group] = out.get(each.group, 0.0) + each.seconds / self.steps
        return out

    def heaviest(self, count: int) -> Sequence[Kernel]:
        """Kernels that take most, messages left out."""
        own = [each for each in self.kernels if each.group != "messages"]
        return sorted(own, key=lambda each: (-each.seconds, each.name, each.shapes))[:count]
