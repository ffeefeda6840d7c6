"""What one device computes and moves in each candidate of an operator, and how long it takes.

Sizes come from the sharding rule: which factors both operands of a product have says what its
rows, its columns and its inner dimension are, whatever the operator is called.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.operators import AttentionShape, OperatorModel
from ir.dtypes import dtype_bytes
from ir.graph import Tensor
from ir.ops import Engine, OperatorEntry, OpView
from ir.rule import FactorMap, ShardingRule
from planner.candidates.assignments import Assignments
from planner.candidates.layout_tables import LayoutTable, entry_elements
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]

_COUNTED_ALIKE = 0.02
"""An operator is a product if its arithmetic is that of its factors, but for a bias."""

_FEWEST_CHANNELS = 16
"""Convolutions with fewer channels of a group do not run on the matrix unit."""


@dataclass(frozen=True, slots=True)
class Product:
    """Factors of an operator that multiplies matrices."""

    batch: frozenset[int]
    rows: frozenset[int]
    columns: frozenset[int]
    positions: float
    """Elements of the result for each combination of its factors, such as pixels."""
    inner: float
    """Length of the inner dimension when nothing is split."""

    @classmethod
    def of(cls, rule: ShardingRule, engine: Engine, elements: int, flops: float) -> Self | None:
        """The product that an operator is; None if it is another thing.

        Args:
            rule: of the operator.
            engine: which unit computes.
            elements: of the first result.
            flops: of the whole operator.
        """
        if engine not in {Engine.MATRIX, Engine.CONVOLUTION} or len(rule.operands) < 2:
            return None
        left, right, result = (_factors(m) for m in (*rule.operands[:2], rule.results[0]))
        columns, size = (result & right) - left, _size(rule, result)
        inner = flops / (2 * elements) if elements else 0.0
        if engine is Engine.MATRIX:
            counted = _size(rule, (left & right) - result)
            fits = abs(inner - counted) <= _COUNTED_ALIKE * counted
        else:
            fits = inner >= 1 and _size(rule, columns) >= _FEWEST_CHANNELS
        if not fits or not elements:
            return None
        return cls(result & left & right, result - right, columns, elements / size, inner)


@dataclass(frozen=True, slots=True)
class Attention:
    """Factors of an operator that weighs values by scores of queries and keys."""

    batch: frozenset[int]
    heads: frozenset[int]
    """Of queries, for each head of keys."""
    query: frozenset[int]
    keys: frozenset[int]
    head_size: float
    value_size: float
    causal: bool

    @classmethod
    def of(cls, rule: ShardingRule, view: OpView, flops: float) -> Self | None:
        """The attention that an operator is; None if it is another thing."""
        if len(rule.operands) < 3:
            return None
        maps = (*rule.operands[:3], rule.results[0])
        query, key, value, result = (_factors(m) for m in maps)
        rows, keys = (query & result) - key, (key & value) - query - result
        batch = query & key & value & result
        widths = [_size(rule, (query & key) - value - result)]
        widths.append(_size(rule, (value & result) - query - key))
        counted = 2 * _size(rule, batch | rows | keys) * sum(widths)
        if not keys or abs(flops - counted) > _COUNTED_ALIKE * counted:
            return None
        same = [f for f in rows if rule.sizes[f] == _size(rule, keys)]
        causal = bool(view.op.attributes.get("is_causal")) and len(same) == 1
        sequence = frozenset(same) if causal else rows
        return cls(batch, rows - sequence, sequence, keys, widths[0], widths[1], causal)


@dataclass(frozen=True, slots=True, eq=False)
class ProductKernels:
    """Kernels of one operator that multiply matrices, to be priced."""

    engine: Engine
    dtype: str
    rows: FloatArray
    """Shape (kernels, entries), as are the next two."""
    columns: FloatArray
    inner: FloatArray
    batch: FloatArray
    """Shape (entries,)."""
    nbytes: FloatArray
    """What each reads and writes, shape (kernels, entries)."""


Pricing: TypeAlias = Generator[ProductKernels, FloatArray, tuple[FloatArray, FloatArray]]
"""Finds times forward and backward; asks for the seconds of kernels on the way, in their shape."""

MOST_TOGETHER = 1 << 14
"""Entries that are priced in one go, but for an operator that has more alone."""


def priced_together(
    model: OperatorModel, pricings: Sequence[Pricing]
) -> list[tuple[FloatArray, FloatArray]]:
    """Times forward and backward of several operators; their kernels are priced in few goes, for
    the formulas take many small steps.
    """
    out: dict[int, tuple[FloatArray, FloatArray]] = {}
    waiting: dict[tuple[Engine, str], list[tuple[int, ProductKernels]]] = {}
    for number, pricing in enumerate(pricings):
        try:
            asked = next(pricing)
        except StopIteration as done:
            out[number] = done.value
        else:
            waiting.setdefault((asked.engine, asked.dtype), []).append((number, asked))
    for alike in waiting.values():
        for group in _in_goes(alike):
            for (number, _), time_s in zip(group, _kernel_times_s(model, group), strict=True):
                try:
                    pricings[number].send(time_s)
                except StopIteration as done:
                    out[number] = done.value
    return [out[number] for number in range(len(pricings))]


def _in_goes(
    kernels: Sequence[tuple[int, ProductKernels]],
) -> Iterator[list[tuple[int, ProductKernels]]]:
    group: list[tuple[int, ProductKernels]] = []
    entries = 0
    for each in kernels:
        if group and entries + each[1].rows.size > MOST_TOGETHER:
            yield group
            group, entries = [], 0
        group.append(each)
        entries += each[1].rows.size
    if group:
        yield group


def _kernel_times_s(
    model: OperatorModel, group: Sequence[tuple[int, ProductKernels]]
) -> Iterator[FloatArray]:
    """Seconds of kernels of one engine and type, each in its shape."""
    kernels = [asked for _, asked in group]
    rows, columns, inner, nbytes = (
        np.concatenate([getattr(k, name).ravel() for k in kernels])
        for name in ("rows", "columns", "inner", "nbytes")
    )
    batch = np.concatenate([np.broadcast_to(k.batch, k.rows.shape).ravel() for k in kernels])
    matrix = kernels[0].engine is Engine.MATRIX
    formula = model.matmul_s if matrix else model.convolution_s
    time_s = formula(kernels[0].dtype, rows, columns, inner, batch, nbytes=nbytes)
    start = 0
    for asked in kernels:
        yield time_s[start : start + asked.rows.size].reshape(asked.rows.shape)
        start += asked.rows.size


class OperatorCost:
    """Arithmetic, traffic and times of the candidates of one operator.

    Arrays have an entry more than there are candidates: the whole operator on one device.
    """

    def __init__(
        self,
        operators: OperatorModel,
        mesh: Mesh,
        entry: OperatorEntry,
        rule: ShardingRule,
        splits: Assignments,
    ) -> None:
        self.operators, self.mesh, self.entry = operators, mesh, entry
        self.rule, self.splits = rule, splits
        self.share = splits.shares(rule.sizes)
        """Share of the iteration space that the busiest device computes."""

    def times_s(
        self,
        view: OpView,
        operands: Sequence[LayoutTable | None],
        results: Sequence[LayoutTable | None],
        gradient: Sequence[bool],
    ) -> Pricing:
        """Seconds forward and backward of every candidate, and of the whole operator."""
        none = np.zeros(len(self.share))
        if not view.op.outputs or self.entry.engine is Engine.VIEW:
            return none, none
        flops = float(self.entry.flops(view))
        traffic = self._traffic(view, operands, results)
        first = next((t for t in view.inputs if t is not None and t.is_float), None)
        dtype = first.dtype if first is not None else "float32"
        kernels = _Kernels(self, dtype, flops, traffic, gradient)
        if not self.operators.constants.shaped:
            return kernels.roofline_s()
        elements = view.outputs[0].elements if view.outputs else 0
        product = Product.of(self.rule, self.entry.engine, elements, flops)
        if product is not None:
            return (yield from kernels.product_s(product))
        if self.entry.engine is Engine.ATTENTION:
            attention = Attention.of(self.rule, view, flops)
            if attention is not None:
                return kernels.attention_s(attention)
        return kernels.roofline_s()

    def local(self, factors: Collection[int]) -> FloatArray:
        """Largest shard of the space of some factors."""
        out = np.ones(len(self.share))
        for factor in factors:
            size = self.rule.sizes[factor]
            if size > 1:
                out[:-1] *= -(-size // self.splits.counts((factor,)))
                out[-1] *= size
        return out

    def _traffic(
        self,
        view: OpView,
        operands: Sequence[LayoutTable | None],
        results: Sequence[LayoutTable | None],
    ) -> _Traffic:
        into = [self._bytes(p, t) for p, t in zip(operands, view.inputs, strict=True)]
        out = [self._bytes(p, t) for p, t in zip(results, view.outputs, strict=True)]
        whole = sum(out, start=np.zeros(len(self.share)))
        forward = sum(into, start=whole)
        touched = self.entry.touched_bytes is not None
        if self.entry.touched_bytes is not None:
            share = out[0] / max(view.outputs[0].nbytes, 1) if out else np.zeros(len(self.share))
            forward = self.entry.touched_bytes(view) * share
            forward[-1] = self.entry.touched_bytes(view)
        return _Traffic(into, whole, forward, touched)

    def _bytes(self, port: LayoutTable | None, tensor: Tensor | None) -> FloatArray:
        """Bytes of a tensor on one device; one without a layout is read whole."""
        if tensor is None:
            return np.zeros(len(self.share))
        if port is None:
            return np.full(len(self.share), float(tensor.nbytes))
        nbytes = entry_elements(tensor.dims, port, self.mesh) * dtype_bytes(tensor.dtype)
        nbytes[-1] = tensor.nbytes
        return nbytes


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes that one device reads and writes."""

    operands: list[FloatArray]
    results: FloatArray
    forward: FloatArray
    touched: bool
    """Only a part of the operands is touched."""

    def backward(self, gradient: Sequence[bool]) -> FloatArray:
        """Read the result's gradient and the operands, write each gradient."""
        if self.touched:
            return self.results * 2
        return sum(
            (
                each * (2 if wanted else 1)
                for each, wanted in zip(self.operands, gradient, strict=True)
            ),
            start=self.results,
        )


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Times of one operator's kernels, forward and backward."""

    work: OperatorCost
    dtype: str
    flops: float
    traffic: _Traffic
    gradient: Sequence[bool]

    def roofline_s(self) -> tuple[FloatArray, FloatArray]:
        """By work and traffic alone."""
        entry, model = self.work.entry, self.work.operators
        flops = self.work.share * self.flops
        forward = model.time_s(entry.engine, self.dtype, flops, self.traffic.forward)
        wanted = sum(self.gradient)
        if not wanted:
            return forward, np.zeros_like(forward)
        separate = entry.engine in {Engine.MATRIX, Engine.CONVOLUTION}
        return forward, model.time_s(
            entry.engine,
            self.dtype,
            flops * (entry.backward_ratio * wanted),
            self.traffic.backward(self.gradient),
            wanted if separate else 1,
        )

    def product_s(self, form: Product) -> Pricing:
        """A kernel forward, and one for the gradient of each operand."""
        work = self.work
        batch, m, n = (work.local(f) for f in (form.batch, form.rows, form.columns))
        m = m * form.positions
        outside = set(range(len(work.rule.sizes))) - form.batch - form.rows - form.columns
        k = form.inner * work.local(outside) / _size(work.rule, outside)
        sizes, traffic = [(m, n, k)], [self.traffic.forward]
        operands, results = self.traffic.operands, self.traffic.results
        for wanted, shape in zip(self.gradient, ((m, k, n), (k, n, m)), strict=False):
            if wanted:
                sizes.append(shape)
                traffic.append(operands[0] + operands[1] + results)
        rows, columns, inner = (np.stack(each) for each in zip(*sizes, strict=True))
        time = yield ProductKernels(
            work.entry.engine, self.dtype, rows, columns, inner, batch, np.stack(traffic)
        )
        backward = time[1:].sum(axis=0)
        for wanted, own in zip(self.gradient[2:], operands[2:], strict=True):
            if wanted:
                none = np.zeros_like(own)
                backward += work.operators.time_s(Engine.VECTOR, self.dtype, none, results + own)
        return time[0], backward

    def attention_s(self, form: Attention) -> tuple[FloatArray, FloatArray]:
        """One fused kernel each way."""
        work, model = self.work, self.work.operators
        shape = AttentionShape(
            batch=work.local(form.batch),
            heads=work.local(form.heads),
            kv_heads=1.0,
            query=work.local(form.query),
            keys=work.local(form.keys),
            head_size=form.head_size,
            value_size=form.value_size,
        )
        wanted = sum(self.gradient)
        forward = model.attention_s(self.dtype, shape, causal=form.causal)
        forward = np.maximum(forward, model.elementwise_s(self.traffic.forward))
        if not wanted:
            return forward, np.zeros_like(forward)
        backward = model.attention_s(self.dtype, shape, causal=form.causal, backward=True)
        moved = model.elementwise_s(self.traffic.backward(self.gradient))
        return forward, np.maximum(backward * (wanted / 3), moved)


def _factors(mapping: FactorMap | None) -> frozenset[int]:
    return frozenset(f for dim in mapping or () for f in dim)


def _size(rule: ShardingRule, factors: Collection[int]) -> float:
    return float(math.prod(rule.sizes[f] for f in factors))
