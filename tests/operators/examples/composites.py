"""Examples of composites: chains of small operators as exporters leave them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue, Op, Tensor
from tests.operators.example import Draw, Example, Maker, example, floats


class Chain:
    """Builds a composite part by part; operands are named x0, x1, ... and results y0, y1, ..."""

    def __init__(self, *operands: Array) -> None:
        self.operands = operands
        self.dims: dict[str, tuple[int, ...]] = {
            f"x{i}": tuple(a.shape) for i, a in enumerate(operands)
        }
        self.dtypes = {f"x{i}": a.dtype.name for i, a in enumerate(operands)}
        self.parts: list[Op] = []
        self.ends: list[tuple[int, ...]] = []

    def add(
        self, kind: str, *names: str, dims: tuple[int, ...] = (-1,), end: bool = False,
        dtype: str = "float64", **attributes: AttributeValue,
    ) -> str:  # fmt: skip
        """One more part; returns the name of its result."""
        if dims == (-1,):
            dims = tuple(np.broadcast_shapes(*(self.dims[n] for n in names)))
        name = f"y{len(self.ends)}" if end else f"t{len(self.parts)}"
        if end:
            self.ends.append(dims)
        self.dims[name], self.dtypes[name] = dims, dtype
        self.parts.append(Op(f"p{len(self.parts)}", kind, names, (name,), attributes))
        return name

    def reduce(self, kind: str, name: str, *axes: int, keep: bool = True, end: bool = False) -> str:
        dims = self.dims[name]
        left = tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)
        return self.add(kind, name, dims=left, end=end, axes=axes)

    def drop_unread(self) -> bool:
        """Drop the parts that no result needs; whether every operand is still read."""
        needed = {f"y{i}" for i in range(len(self.ends))}
        for part in reversed(self.parts):
            if needed & set(part.outputs):
                needed.update(part.inputs)
        self.parts = [p for p in self.parts if needed & set(p.outputs)]
        return all(f"x{i}" in needed for i in range(len(self.operands)))

    def example(self) -> Example:
        inner = {n: Tensor(n, d, self.dtypes[n]) for n, d in self.dims.items() if n.startswith("t")}
        return example("Fused", self.operands, self.ends, parts=self.parts, inner=inner)


def _rms_norm(draw: Draw) -> Example:
    data = floats(draw, 3, 4, 8, low=0.2)  # a power has a gradient by its exponent too
    chain = Chain(data, floats(draw, 8), np.asarray(2.0), np.asarray(1e-3))
    mean = chain.reduce("ReduceMean", chain.add("Pow", "x0", "x2"), 2)
    root = chain.add("Sqrt", chain.add("Add", mean, "x3"))
    chain.add("Mul", chain.add("Div", "x0", root), "x1", end=True)
    return chain.example()


def _softmax(draw: Draw) -> Example:
    """The maximum meets the rows again: its gradient is a sum of many terms."""
    chain = Chain(floats(draw, 3, 2, 8))
    powers = chain.add("Exp", chain.add("Sub", "x0", chain.reduce("ReduceMax", "x0", 2)))
    chain.add("Div", powers, chain.reduce("ReduceSum", powers, 2), end=True)
    return chain.example()


def _scaled_by_largest(draw: Draw) -> Example:
    chain = Chain(floats(draw, 4, 6, low=0.5), floats(draw, 4, 1))
    largest = chain.add("Mul", chain.reduce("ReduceMax", "x0", 1), "x1")
    chain.add("Div", "x0", largest, end=True)
    return chain.example()


def _swiglu(draw: Draw) -> Example:
    chain = Chain(floats(draw, 3, 4, 6), floats(draw, 3, 4, 6))
    gated = chain.add("Mul", "x0", chain.add("Sigmoid", "x0"))
    chain.add("Mul", gated, "x1", end=True)
    return chain.example()


def _rotary(draw: Draw) -> Example:
    chain = Chain(floats(draw, 2, 4, 6, 4), floats(draw, 6, 4), floats(draw, 6, 4))
    low, high = (
        chain.add(
            "Slice", "x0", dims=(2, 4, 6, 2), starts=(first,), ends=(first + 2,),
            axes=(3,), slice_axes=(3,), steps=(1,),
        )
        for first in (0, 2)
    )  # fmt: skip
    turned = chain.add("Concat", chain.add("Neg", high), low, dims=(2, 4, 6, 4), axis=3)
    chain.add("Add", chain.add("Mul", "x0", "x1"), chain.add("Mul", turned, "x2"), end=True)
    return chain.example()


def _layer_norm(draw: Draw) -> Example:
    """Two sums inside, one of what the other gave."""
    chain = Chain(floats(draw, 4, 8), floats(draw, 8), floats(draw, 8), np.asarray(1e-3))
    centred = chain.add("Sub", "x0", chain.reduce("ReduceMean", "x0", 1))
    square = chain.reduce("ReduceMean", chain.add("Mul", centred, centred), 1)
    scaled = chain.add("Div", centred, chain.add("Sqrt", chain.add("Add", square, "x3")))
    chain.add("Add", chain.add("Mul", scaled, "x1"), "x2", end=True)
    return chain.example()


def _last_sum(draw: Draw) -> Example:
    """Ends in a sum, which stays a term on each device."""
    chain = Chain(floats(draw, 2, 4, 6), floats(draw, 4, 6))
    chain.reduce("ReduceSum", chain.add("Mul", "x0", "x1"), 1, keep=False, end=True)
    return chain.example()


def _sum_then_scale(draw: Draw) -> Example:
    """The sum does not meet its dimension again: nothing is sent backward."""
    chain = Chain(floats(draw, 4, 6), floats(draw, 4), floats(draw, 4))
    total = chain.reduce("ReduceSum", chain.add("Mul", "x0", "x0"), 1, keep=False)
    chain.add("Add", chain.add("Mul", total, "x1"), "x2", end=True)
    return chain.example()


def _two_ends(draw: Draw) -> Example:
    """A sum is read by what is split and by what is not; both are results."""
    chain = Chain(floats(draw, 4, 6), floats(draw, 4, 1), floats(draw, 6))
    total = chain.add("Tanh", chain.reduce("ReduceSum", "x0", 1))
    chain.add("Exp", chain.add("Mul", total, "x1"), end=True)
    chain.add("Mul", chain.add("Add", "x0", "x2"), chain.add("Mul", total, "x1"), end=True)
    return chain.example()


def _result_read_inside(draw: Draw) -> Example:
    """A sum is a result and is read on: then it has to be complete."""
    chain = Chain(floats(draw, 4, 6))
    total = chain.reduce("ReduceSum", "x0", 1, end=True)
    chain.add("Mul", "x0", total, end=True)
    return chain.example()


def _masked(draw: Draw) -> Example:
    """A condition inside has no gradient."""
    chain = Chain(floats(draw, 2, 3, 8), floats(draw, 3, 8), np.asarray(0.25))
    mask = chain.add("Greater", "x1", "x2", dtype="bool")
    chain.add("Where", mask, chain.add("Erf", "x0"), "x1", end=True)
    return chain.example()


def _row_meets_column(draw: Draw) -> Example:
    """A vector of sums meets itself as a row and as a column: neither may be split."""
    chain = Chain(floats(draw, 4, 6), floats(draw, 4, 1))
    rows = chain.reduce("ReduceSum", "x0", 1, keep=False)
    total = chain.add("Add", "x1", chain.reduce("ReduceSum", "x0", 1))
    chain.add("Add", rows, total, dims=(4, 4), end=True)
    return chain.example()


def _sum_of_a_broadcast(draw: Draw) -> Example:
    chain = Chain(floats(draw, 2, 1, 6), floats(draw, 4, 6), floats(draw, 2, 4, 6))
    total = chain.reduce("ReduceSum", chain.add("Add", "x0", "x1"), 2)
    chain.add("Mul", total, "x2", end=True)
    return chain.example()


def _sums_of_sums(draw: Draw) -> Example:
    """Two dimensions are summed one after the other; only the first one returns."""
    chain = Chain(floats(draw, 3, 4, 6), floats(draw, 6))
    rows = chain.reduce("ReduceSum", chain.add("Mul", "x0", "x1"), 2)
    total = chain.reduce("ReduceSum", chain.add("Tanh", rows), 1)
    chain.add("Add", total, chain.add("Neg", "x1"), end=True)
    return chain.example()


def _summed_twice(draw: Draw) -> Example:
    """Rows by their sum, and summed again: complete inside once, so complete at the end."""
    chain = Chain(floats(draw, 2, 4, 6, low=0.5))
    share = chain.add("Div", "x0", chain.reduce("ReduceSum", "x0", 2))
    chain.reduce("ReduceSum", chain.add("Mul", share, share), 2, keep=False, end=True)
    return chain.example()


CHAINS = (
    _rms_norm, _softmax, _scaled_by_largest, _swiglu, _rotary, _layer_norm, _last_sum,
    _sum_then_scale, _two_ends, _result_read_inside, _masked, _row_meets_column,
    _sum_of_a_broadcast, _sums_of_sums, _summed_twice,
)  # fmt: skip


DRAWN = 12


def _drawn(draw: Draw) -> Example | None:
    """A chain of parts that somebody might write; None where nothing came of it."""
    base = draw.choice(((2, 4), (4, 6), (2, 3, 4)))
    shapes = [base, *(tuple(draw.choice((d, d, 1)) for d in base) for _ in range(2))]
    chain = Chain(*(floats(draw, *dims, low=0.5, high=1.5) for dims in shapes))
    names, count = list(chain.dims), draw.randrange(3, 9)
    for place in range(count):
        end = place == count - 1 or draw.random() < 0.15
        name, other, chance = draw.choice(names[-4:]), draw.choice(names), draw.random()
        if chance < 0.3:
            names.append(chain.add(draw.choice(("Sigmoid", "Tanh", "Neg")), name, end=end))
        elif chance < 0.7:
            kind = draw.choice(("Add", "Mul", "Sub", "Max"))
            names.append(chain.add(kind, name, other, end=end))
        else:
            kind = draw.choice(("ReduceSum", "ReduceMean", "ReduceMax"))
            axes = sorted(draw.sample(range(len(base)), draw.randrange(1, 3)))
            names.append(chain.reduce(kind, name, *axes, end=end))
    return chain.example() if chain.drop_unread() else None


def _fused(draw: Draw) -> Iterator[Example]:
    for make in CHAINS:
        yield make(draw)
    made = (_drawn(draw) for _ in itertools.count())
    yield from itertools.islice((e for e in made if e is not None), DRAWN)


COMPOSITES: Mapping[str, Maker] = MappingProxyType({"Fused": _fused})
