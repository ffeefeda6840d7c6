"""The algorithm of one device on all devices at once: they send the same messages in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import autograd.numpy as np

from executors.device import AllReduce, DeviceAlgorithm, Running
from executors.differentiable import AUTOGRAD
from executors.placement import Array, coordinates, region_of
from executors.spmd import Algorithm, OperatorRun, Shards
from ir.graph import Op, OpGraph, Tensor
from ir.semantics.arrays import computing_with
from ir.semantics.call import Call
from ir.semantics.statistics import Combine

_COMBINED: Mapping[Combine, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        Combine.SUM: np.add,
        Combine.MAX: np.maximum,
        Combine.MIN: np.minimum,
        Combine.PRODUCT: np.multiply,
        Combine.LOG_SUM_EXP: np.logaddexp,
    }
)


@dataclass(frozen=True, slots=True)
class RankPart:
    """What one device has of an operator that runs on all of them here."""

    task: OperatorRun
    rank: int

    @property
    def op(self) -> Op:
        return self.task.op

    @property
    def graph(self) -> OpGraph:
        return self.task.graph

    @property
    def operands(self) -> Sequence[Any]:
        return self.task.parts(self.rank)

    @property
    def results(self) -> list[Tensor]:
        return self.task.results

    def dims(self, index: int) -> tuple[int, ...]:
        return self.task.operand(index).dims

    def has(self, index: int) -> bool:
        return self.task.has(index)

    def axes_of(self, index: int, dims: Sequence[int]) -> tuple[int, ...]:
        return self.task.axes_of(index, dims)

    def group_size(self, axes: Sequence[int]) -> int:
        return int(np.prod([self.task.mesh.sizes[a] for a in axes], dtype=int))

    def place(self, index: int, dim: int) -> Array:
        return np.arange(*self.task.operand(index).box(self.rank)[dim])

    def first(self, index: int, dim: int) -> int:
        return self.task.operand(index).box(self.rank)[dim][0]

    def result_place(self, index: int, dim: int) -> Array:
        task = self.task
        place = coordinates(task.mesh)[self.rank]
        region = region_of(task.results[index].dims, task.layouts[index], task.mesh.sizes, place)
        return np.asarray(region[dim])

    def leads(self, axes: Sequence[int]) -> bool:
        place = coordinates(self.task.mesh)[self.rank]
        return all(place[axis] == 0 for axis in axes)

    def call(self, op: Op | None = None) -> Call:
        dims = tuple(self.task.local_dims(i, self.rank) for i in range(len(self.results)))
        return Call(op or self.op, tuple(self.operands), dims)

    def run(
        self,
        op: Op | None = None,
        operands: Sequence[Any] | None = None,
        result_dims: Sequence[tuple[int, ...]] | None = None,
    ) -> list[Array]:
        call = self.call(op)
        given = call.operands if operands is None else operands
        return self.task.runner.run(call.op, given, self.results, result_dims or call.result_dims)


def in_step(algorithm: DeviceAlgorithm) -> Algorithm:
    """The algorithm on every device of a task."""

    def run(task: OperatorRun) -> Shards:
        with computing_with(AUTOGRAD):
            return _driven(task, [algorithm(RankPart(task, rank)) for rank in task.ranks])

    return run


def _driven(task: OperatorRun, running: Sequence[Running]) -> Shards:
    arrived: Sequence[Any] = [None] * len(running)
    while True:
        sent: list[AllReduce] = []
        ended: Shards = []
        for each, array in zip(running, arrived, strict=True):
            try:
                sent.append(each.send(array))
            except StopIteration as end:
                ended.append(end.value)
        if not sent:
            return ended
        assert not ended, "a device ends while others send"
        message = sent[0]
        combine = _COMBINED[message.combine]
        arrays = [each.array for each in sent]
        arrived = task.all_reduce(arrays, message.axes, combine, message.backward)
