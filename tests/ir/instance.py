"""One operator with numbers for its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ir.graph import AttributeValue, Op, OpGraph, Tensor
from ir.ops import OpView
from tests.ir.shards import Array


@dataclass(frozen=True, slots=True)
class Instance:
    """One operator with its operands; `dims` are those of its results."""

    kind: str
    operands: tuple[Array | None, ...]
    dims: tuple[tuple[int, ...], ...]
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    parts: tuple[Op, ...] = ()
    inner: dict[str, tuple[int, ...]] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        shapes = ",".join("-" if a is None else "x".join(map(str, a.shape)) for a in self.operands)
        marks = ",".join(f"{k}={v}" for k, v in sorted(self.attributes.items()))
        return " ".join(t for t in (self.kind, self.note, shapes, marks) if t)

    def view(self) -> OpView:
        inputs = tuple("" if a is None else f"x{i}" for i, a in enumerate(self.operands))
        outputs = tuple(f"y{i}" for i in range(len(self.dims)))
        tensors = {
            n: Tensor(n, tuple(a.shape), str(a.dtype))
            for n, a in zip(inputs, self.operands, strict=True)
            if a is not None
        }
        tensors |= {n: Tensor(n, d, "float32") for n, d in zip(outputs, self.dims, strict=True)}
        tensors |= {n: Tensor(n, d, "float32") for n, d in self.inner.items()}
        op = Op("op", self.kind, inputs, outputs, self.attributes, "", self.parts)
        return OpView(op, OpGraph("g", tensors, (op,), inputs, outputs))


_RANDOM = np.random.default_rng(0)


def real(*dims: int, low: float = 0.1, high: float = 0.9) -> Array:
    """Random numbers in a range where every function of the catalogue is defined."""
    return _RANDOM.uniform(low, high, dims).astype(np.float32)


def whole(*dims: int, high: int) -> Array:
    return _RANDOM.integers(0, high, dims)


def number(value: float) -> Array:
    """A single number."""
    return np.asarray(value, np.float32)


def flags(*dims: int) -> Array:
    return _RANDOM.integers(0, 2, dims).astype(bool)


def broadcast_dims(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*(tuple(s) for s in shapes)))
