"""Candidates of one operator: every way to split it, with its times and the layouts of its
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel
from costmodel.operators import OperatorModel
from ir.dtypes import dtype_bytes
from ir.graph import Op, Tensor
from ir.ops import Engine, OperatorEntry, OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.dialects import Assignment, Dialect, shard_counts
from planner.ports import (
    Port,
    axes_of,
    local_elements,
    operand_state,
    port_elements,
    port_of,
    result_state,
    whole_port,
)
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InnerCollective:
    """Communication inside an operator, for the report: one message of one candidate."""

    kind: Collective
    axes: tuple[int, ...]
    nbytes: float
    forward: int
    backward: int
    time_s: float
    """All of its messages."""


@dataclass(frozen=True, eq=False)
class OpCandidates:
    """All candidates of one kind of operator with given operands; shared by equal operators."""

    assignments: tuple[Assignment, ...]
    left_out: int
    """Assignments beyond the limit."""
    operands: tuple[Port | None, ...]
    results: tuple[Port | None, ...]
    forward_s: FloatArray
    """Computation forward, shape (C,)."""
    backward_s: FloatArray
    inner: tuple[tuple[InnerCollective, ...], ...]
    """Communication inside, per candidate."""
    inner_s: FloatArray
    whole_forward_s: float
    """Forward computation of the whole operator on one device."""

    @property
    def time_s(self) -> FloatArray:
        return self.forward_s + self.backward_s + self.inner_s


@dataclass(frozen=True, slots=True)
class OpPricer:
    """Makes candidates on one mesh for one target."""

    mesh: Mesh
    dialect: Dialect
    operators: OperatorModel
    collectives: CollectiveModel
    _once_s: dict[tuple[tuple[int, ...], float], float] = field(default_factory=dict)
    _ports: dict[tuple[FactorMap, tuple[Assignment, ...]], Port] = field(default_factory=dict)

    def candidates(self, view: OpView, gradient: Sequence[bool]) -> OpCandidates:
        """Candidates of an operator.

        Args:
            view: the operator.
            gradient: for every operand whether its gradient is wanted.
        """
        entry = lookup(view.op.kind)
        rule = replace(entry.rule(view), divisors=view.op.divisors)
        backward = any(gradient)
        found, left_out = self.dialect.assignments(rule, entry, self.mesh, gradient=backward)
        summed = [_summed(rule, i) for i in range(len(rule.results))]
        operands = tuple(
            self._operand_port(m, t, found) for m, t in zip(rule.operands, view.inputs, strict=True)
        )
        results = tuple(
            None if m is None else self._result_port(m, s, found)
            for m, s in zip(rule.results, summed, strict=True)
        )
        work = _Work(self, view, entry, rule, found, _share(rule, found, self.mesh))
        inner = self._all_inner(rule, found, view, summed, backward)
        return OpCandidates(
            assignments=tuple(found),
            left_out=left_out,
            operands=operands,
            results=results,
            forward_s=work.forward_s(operands, results),
            backward_s=work.backward_s(operands, results, gradient),
            inner=inner,
            inner_s=np.array([sum(c.time_s for c in item) for item in inner]),
            whole_forward_s=float(
                work.time_s(np.array([1.0]), np.array([float(_moved(view))]), 1)[0]
            ),
        )

    def _operand_port(
        self, mapping: FactorMap | None, tensor: Tensor | None, found: Sequence[Assignment]
    ) -> Port | None:
        if mapping is None or tensor is None:
            return None
        if not self.dialect.partial_edges:
            return self._whole_port(mapping, found)
        return port_of([operand_state(mapping, a, partial=True) for a in found])

    def _result_port(
        self, mapping: FactorMap, summed: frozenset[int], found: Sequence[Assignment]
    ) -> Port:
        if not self.dialect.partial_edges:
            return self._whole_port(mapping, found)
        return port_of([result_state(mapping, a, summed, partial=True) for a in found])

    def _whole_port(self, mapping: FactorMap, found: Sequence[Assignment]) -> Port:
        """Operators of one form have the same port, whatever their sizes are."""
        key = (mapping, tuple(found))
        if key not in self._ports:
            self._ports[key] = whole_port(mapping, found)
        return self._ports[key]

    def _all_inner(
        self,
        rule: ShardingRule,
        found: Sequence[Assignment],
        view: OpView,
        summed: list[frozenset[int]],
        backward: bool,
    ) -> tuple[tuple[InnerCollective, ...], ...]:
        """Communication inside, per candidate."""
        reduced = {f for item in rule.internal for f in item.factors}
        if not self.dialect.partial_edges:
            reduced.update(*summed)
        return tuple(
            () if reduced.isdisjoint(a) else tuple(self._inner(rule, a, view, summed, backward))
            for a in found
        )

    def _inner(
        self,
        rule: ShardingRule,
        assignment: Assignment,
        view: OpView,
        summed: list[frozenset[int]],
        backward: bool,
    ) -> list[InnerCollective]:
        shards = shard_counts(assignment, self.mesh) if rule.internal else {}
        out: list[InnerCollective] = []
        for item in rule.internal:
            axes = axes_of(assignment, item.factors)
            if axes:
                elements = math.prod(-(-rule.sizes[f] // shards.get(f, 1)) for f in item.message)
                nbytes = elements * item.bytes_per_element
                # MindSpore repeats a forward all-reduce backward (docs/decisions/0007).
                repeated = 0 if self.dialect.partial_edges else item.forward
                back = max(item.backward, repeated) if backward else 0
                out.append(self._message(axes, nbytes, item.forward, back))
        if not self.dialect.partial_edges:
            for mapping, terms, tensor in zip(rule.results, summed, view.outputs, strict=False):
                axes = axes_of(assignment, tuple(terms)) if terms else ()
                if axes and mapping is not None:
                    nbytes = self._result_bytes(mapping, assignment, tensor)
                    out.append(self._message(axes, nbytes, 1, int(backward)))
        return out

    def _result_bytes(self, mapping: FactorMap, assignment: Assignment, tensor: Tensor) -> float:
        layout = result_state(mapping, assignment, frozenset(), partial=False).forward
        return local_elements(tensor.dims, layout, self.mesh) * dtype_bytes(tensor.dtype)

    def _message(
        self, axes: tuple[int, ...], nbytes: float, forward: int, backward: int
    ) -> InnerCollective:
        if (axes, nbytes) not in self._once_s:
            found = self.collectives.time_s(Collective.ALL_REDUCE, nbytes, axes)
            self._once_s[axes, nbytes] = float(found)
        once = self._once_s[axes, nbytes]
        return InnerCollective(
            Collective.ALL_REDUCE, axes, nbytes, forward, backward, once * (forward + backward)
        )


def _summed(rule: ShardingRule, result: int) -> frozenset[int]:
    """Factors of the operands that a result lacks and that no internal collective reduces."""
    mapping = rule.results[result]
    kept = {f for dim in mapping or () for f in dim}
    inside = {f for item in rule.internal for f in item.factors}
    present = {f for m in rule.operands if m is not None for dim in m for f in dim}
    return frozenset(present - kept - inside)


def _moved(view: OpView) -> int:
    entry = lookup(view.op.kind)
    if entry.touched_bytes is not None:
        return entry.touched_bytes(view)
    return sum(t.nbytes for t in (*view.inputs, *view.outputs) if t is not None)


def _share(rule: ShardingRule, found: Sequence[Assignment], mesh: Mesh) -> FloatArray:
    """Share of the iteration space that the busiest device computes, shape (C,)."""
    shares = []
    for assignment in found:
        share = 1.0
        for factor, count in shard_counts(assignment, mesh).items():
            size = rule.sizes[factor]
            share *= -(-size // count) / size
        shares.append(share)
    return np.array(shares)


@dataclass(frozen=True, slots=True)
class _Work:
    """Arithmetic and traffic of the candidates of one operator."""

    pricer: OpPricer
    view: OpView
    entry: OperatorEntry
    rule: ShardingRule
    found: Sequence[Assignment]
    share: FloatArray
    """Share of the iteration space that the busiest device computes, shape (C,)."""

    def local_bytes(self, port: Port | None, tensor: Tensor | None) -> FloatArray:
        """Bytes of a tensor on one device, shape (C,); one without a layout is read whole."""
        if tensor is None:
            return np.zeros(len(self.found))
        if port is None:
            return np.full(len(self.found), float(tensor.nbytes))
        per_state = port_elements(tensor.dims, port, self.pricer.mesh) * dtype_bytes(tensor.dtype)
        return np.asarray(per_state[port.of])

    def time_s(
        self, share: FloatArray, nbytes: FloatArray, launches: int, ratio: float = 1.0
    ) -> FloatArray:
        first = next((t for t in self.view.inputs if t is not None and t.is_float), None)
        dtype = first.dtype if first is not None else "float32"
        flops = share * (self.entry.flops(self.view) * ratio)
        return self.pricer.operators.time_s(self.entry.engine, dtype, flops, nbytes, launches)

    def forward_s(
        self, operands: Sequence[Port | None], results: Sequence[Port | None]
    ) -> FloatArray:
        if not self.view.op.outputs:
            return np.zeros(len(self.found))
        if self.entry.touched_bytes is not None:
            traffic = self.entry.touched_bytes(self.view) * self._result_share(results)
        else:
            traffic = sum(
                (
                    self.local_bytes(p, t)
                    for p, t in zip(
                        (*operands, *results), (*self.view.inputs, *self.view.outputs), strict=True
                    )
                ),
                start=np.zeros(len(self.found)),
            )
        return self.time_s(self.share, traffic, 1)

    def _result_share(self, results: Sequence[Port | None]) -> FloatArray:
        if not self.view.outputs:
            return np.zeros(len(self.found))
        whole = max(self.view.outputs[0].nbytes, 1)
        return self.local_bytes(results[0], self.view.outputs[0]) / whole

    def backward_s(
        self,
        operands: Sequence[Port | None],
        results: Sequence[Port | None],
        gradient: Sequence[bool],
    ) -> FloatArray:
        """Gradients of the operands: read the result's gradient and what was saved, write each
        gradient.
        """
        wanted = sum(gradient)
        if not wanted or self.entry.engine is Engine.VIEW:
            return np.zeros(len(self.found))
        traffic = sum(
            (self.local_bytes(p, t) for p, t in zip(results, self.view.outputs, strict=True)),
            start=np.zeros(len(self.found)),
        )
        if self.entry.touched_bytes is not None:
            traffic = traffic * 2
        else:
            for port, tensor, flag in zip(operands, self.view.inputs, gradient, strict=True):
                traffic = traffic + self.local_bytes(port, tensor) * (2 if flag else 1)
        separate = self.entry.engine in {Engine.MATRIX, Engine.CONVOLUTION}
        return self.time_s(
            self.share, traffic, wanted if separate else 1, self.entry.backward_ratio * wanted
        )


def signature(op: Op, tensors: Mapping[str, Tensor]) -> tuple[object, ...]:
    """Equal for operators that planning cannot tell apart."""
    return _signature(op, tensors, {})


def _signature(op: Op, tensors: Mapping[str, Tensor], number: dict[str, int]) -> tuple[object, ...]:
    def facts(name: str) -> tuple[object, ...]:
        if not name:
            return ()
        tensor = tensors[name]
        same = number.setdefault(name, len(number))
        return same, tensor.dims, tensor.divisors, tensor.dtype, tensor.role

    attributes = tuple(sorted((k, v) for k, v in op.attributes.items()))
    inputs, outputs = tuple(facts(n) for n in op.inputs), tuple(facts(n) for n in op.outputs)
    # A composite of kind "Fused" is made of its parts; other composites are told by their operands.
    parts = tuple(_signature(p, tensors, number) for p in op.parts) if op.kind == "Fused" else ()
    return op.kind, attributes, inputs, outputs, parts, op.divisors
