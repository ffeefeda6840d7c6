"""Small fused chains, with numbers."""

from __future__ import annotations

from collections.abc import Callable

from ir.graph import AttributeValue, Op
from tests.ir.instance import Instance, broadcast_dims, number, real
from tests.ir.shards import Array


class Chain:
    """Builds a fused chain: the last tensor made is its result."""

    def __init__(self, note: str, **operands: Array) -> None:
        self.note, self.operands = note, operands
        self.dims = {n: tuple(a.shape) for n, a in operands.items()}
        self.parts: list[Op] = []

    def add(
        self, kind: str, *names: str, dims: tuple[int, ...] | None = None, **more: AttributeValue
    ) -> str:
        result = f"t{len(self.parts)}"
        self.dims[result] = (
            dims if dims is not None else broadcast_dims(*(self.dims[n] for n in names))
        )
        self.parts.append(Op(f"p{len(self.parts)}", kind, names, (result,), more))
        return result

    def instance(self) -> Instance:
        renamed = {n: f"x{i}" for i, n in enumerate(self.operands)}
        renamed[self.parts[-1].outputs[0]] = "y0"
        parts = tuple(
            Op(
                p.name,
                p.kind,
                tuple(renamed.get(n, n) for n in p.inputs),
                tuple(renamed.get(n, n) for n in p.outputs),
                p.attributes,
            )
            for p in self.parts
        )
        result = self.dims[self.parts[-1].outputs[0]]
        inner = {n: d for n, d in self.dims.items() if n not in renamed}
        return Instance(
            "Fused", tuple(self.operands.values()), (result,), {}, parts, inner, self.note
        )


def _rms_norm() -> Instance:
    chain = Chain("rms", x=real(2, 4, 6), scale=real(6), two=number(2.0), eps=number(1e-3))
    mean = chain.add("ReduceMean", chain.add("Pow", "x", "two"), dims=(2, 4, 1), axes=(2,))
    root = chain.add("Sqrt", chain.add("Add", mean, "eps"))
    chain.add("Mul", chain.add("Div", "x", root), "scale")
    return chain.instance()


def _rotary() -> Instance:
    chain = Chain("rotary", x=real(2, 4, 6, 4), cos=real(6, 4), sin=real(6, 4))
    half: dict[str, AttributeValue] = {"axes": (3,), "slice_axes": (3,), "steps": (1,)}
    low = chain.add("Slice", "x", dims=(2, 4, 6, 2), starts=(0,), ends=(2,), **half)
    high = chain.add("Slice", "x", dims=(2, 4, 6, 2), starts=(2,), ends=(4,), **half)
    turned = chain.add("Concat", chain.add("Neg", high), low, dims=(2, 4, 6, 4), axis=3)
    chain.add("Add", chain.add("Mul", "x", "cos"), chain.add("Mul", turned, "sin"))
    return chain.instance()


def _gated() -> Instance:
    chain = Chain("gated", gate=real(2, 4, 6), up=real(2, 4, 6))
    chain.add("Mul", chain.add("Mul", "gate", chain.add("Sigmoid", "gate")), "up")
    return chain.instance()


def _row_meets_column() -> Instance:
    """A vector of sums added to itself as a row and as a column: neither may be split."""
    chain = Chain("row meets column", x=real(4, 6), y=real(4, 1))
    rows = chain.add("ReduceSum", "x", dims=(4,), axes=(1,))
    total = chain.add("Add", "y", chain.add("ReduceSum", "x", dims=(4, 1), axes=(1,)))
    chain.add("Add", rows, total, dims=(4, 4))
    return chain.instance()


def _ends_in_a_sum() -> Instance:
    chain = Chain("ends in a sum", x=real(2, 4, 6), y=real(4, 6))
    chain.add("ReduceSum", chain.add("Mul", "x", "y"), dims=(2, 6), axes=(1,))
    return chain.instance()


def _sum_of_a_broadcast() -> Instance:
    chain = Chain("sum of a broadcast", x=real(2, 1, 6), y=real(4, 6), z=real(2, 4, 6))
    total = chain.add("ReduceSum", chain.add("Add", "x", "y"), dims=(2, 4, 1), axes=(2,))
    chain.add("Div", "z", total)
    return chain.instance()


def _summed_twice() -> Instance:
    """Rows divided by their sum, and summed again: complete inside once, so complete at the end."""
    chain = Chain("summed twice", x=real(2, 4, 6))
    total = chain.add("ReduceSum", "x", dims=(2, 4, 1), axes=(2,))
    share = chain.add("Div", "x", total)
    chain.add("ReduceSum", chain.add("Mul", share, share), dims=(2, 4), axes=(2,))
    return chain.instance()


def chains() -> list[Instance]:
    makers: tuple[Callable[[], Instance], ...] = (
        _rms_norm, _rotary, _gated, _row_meets_column, _ends_in_a_sum, _sum_of_a_broadcast,
        _summed_twice,
    )  # fmt: skip
    return [make() for make in makers]
