"""What shapes of a step take: bounds of all their plans, and what is expected of the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ir.dtypes import dtype_bytes
from ir.graph import Tensor
from planner.lowered import Lowered
from planner.lowering import lower
from planner.ports import local_elements
from planner.stages.chain import FloatArray, IntArray, pipeline_time_s
from planner.stages.machine import send_s, stage_cluster
from planner.stages.menu import Shape, in_flight
from planner.stages.pieces import wire_layout
from planner.stages.prices import (
    IntervalCosts,
    IntervalPricer,
    memory_unit,
    priced_memory,
    setting_of,
)
from planner.stages.sequence import Ends, cut_sequence
from planner.stages.task import SMALL_NETWORK, Micro, Task
from topology.cluster import Cluster
from topology.mesh import Mesh

PRICES = (0.003, 8.0)
"""Where a price on memory lies, in units of the time of a micro-batch by the bytes of the model."""
PRICE_STEPS = 5
"""Prices tried where the fastest layouts of a shape do not fit."""
FEW = 64
"""Ways to cut a shape that are all tried where memory binds, per unit of effort."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A shape with what its best cuts take."""

    shape: Shape
    bound_s: float
    """Of a step, memory left aside: nothing of this shape takes less."""
    expected_s: float
    """Of a step within the memory, by the layouts tried; infinite if none fits."""
    ends: Ends
    """Segments before the end of each stage."""
    least_ends: Ends
    """The same where memory is left aside."""
    every: tuple[tuple[float, Ends], ...] = ()
    """All cuts with what they take at least, the fastest first, where they are few and memory
    binds."""


class ShapePricer:
    """Prices the shapes of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.work = 0
        self._sample: float | None = None

    def floor_s(self, shape: Shape) -> float:
        """Seconds that computation alone takes if it divides by all devices: a sample takes no less
        in a small batch than in the whole.
        """
        if self._sample is None:
            self._sample = self._sample_s()
        each = self._sample * shape.micro_batch / self.task.cluster.devices
        return each * (shape.micro_batches - 1 + shape.stages)

    def _sample_s(self) -> float:
        """Seconds of one sample on one device, in the whole batch."""
        one = stage_cluster(self.task.cluster, 1)
        if one is None:
            return 0.0
        micro, shape = self.task.micro(self.task.batch), Shape(1, self.task.batch, 1)
        lowered, pricer = self._lowered_intervals(
            micro, one, self.task.dialect.meshes(one)[0], shape
        )
        costs = pricer.costs(lowered, (0,) * len(lowered.nodes))
        return float(costs.time_s[0, micro.segments.count]) / self.task.batch

    def _lowered_intervals(
        self, micro: Micro, cluster: Cluster, mesh: Mesh, shape: Shape, *, recompute: bool = False
    ) -> tuple[Lowered, IntervalPricer]:
        pricer = IntervalPricer(micro.segments, shape.stages)
        pieces = pricer.pieces(micro.liveness, micro.by_position)
        kept = min(2, shape.micro_batches)
        setting = replace(
            self.task.setting(micro, cluster, mesh, shape.micro_batches),
            recompute=recompute,
            in_flight=(kept,) * len(pricer.spans),
        )
        return lower(pieces.liveness, setting_of(setting, pieces)), pricer

    def priced(self, shape: Shape, least_s: float) -> Priced:
        """What the best cuts of a shape take; layouts within the memory are sought only if they can
        take less than `least_s`.
        """
        micro = self.task.micro(shape.micro_batch)
        cluster, mesh = self.task.stage_machine(shape)
        lowered, pricer = self._lowered_intervals(micro, cluster, mesh, shape)
        self.work += sum(lowered.problem.sizes)
        solution = self.task.solve(replace(lowered.problem, memory_limit_bytes=math.inf))
        slack = max(solution.cost_s - solution.bound_s, 0.0)
        costs = pricer.costs(lowered, solution.choice or ())
        entry = self._entry_s(micro, mesh)[:, None]
        free = costs.time_s + entry
        least = self._cut([free], None, shape)
        if least is None:
            return Priced(shape, math.inf, math.inf, (), ())
        bound_s = max(least[0] - shape.micro_batches * slack, 0.0)
        times, most = [free], [costs.most_in_flight(self.task.limit_bytes)]
        fitting = self._cut(times, most, shape)
        if (fitting is None or fitting[0] > least[0]) and bound_s < least_s:
            unit = solution.cost_s
            for other in self._less_memory(micro, cluster, mesh, shape, unit):
                times.append(np.maximum(other.time_s + entry, free))
                most.append(other.most_in_flight(self.task.limit_bytes))
            fitting = self._cut(times, most, shape)
        expected_s, ends = (math.inf, ()) if fitting is None else fitting
        exact = expected_s > least[0] and len(micro.graph.ops) <= SMALL_NETWORK
        every = self._every(free, shape) if exact else ()
        return Priced(shape, bound_s, expected_s, ends, least[1], every)

    def _less_memory(
        self, micro: Micro, cluster: Cluster, mesh: Mesh, shape: Shape, time_s: float
    ) -> list[IntervalCosts]:
        """Costs under prices on memory, around the least price at which the shape fits."""
        lowered, pricer = self._lowered_intervals(micro, cluster, mesh, shape, recompute=True)
        unit = time_s / memory_unit(lowered)
        low, high = PRICES
        found = []
        for _ in range(PRICE_STEPS):
            price = math.sqrt(low * high)
            problem = priced_memory(lowered, (unit * price,) * len(pricer.spans))
            choice = problem.original(self.task.solve(problem.problem).choice or ())
            costs = pricer.costs(lowered, choice)
            room = costs.most_in_flight(self.task.limit_bytes)
            fits = self._cut([costs.time_s], [room], shape) is not None
            low, high = (low, price) if fits else (price, high)
            found.append(costs)
        return found

    def _every(self, free: FloatArray, shape: Shape) -> tuple[tuple[float, Ends], ...]:
        """All cuts of a shape if they are few."""
        count, cuts = len(free), shape.stages - 1
        if math.comb(count - 1, cuts) > FEW * self.task.request.effort:
            return ()
        found = []
        for inner in itertools.combinations(range(1, count), cuts):
            ends = (*inner, count)
            times = [float(free[i, j]) for i, j in zip((0, *inner), ends, strict=True)]
            found.append((pipeline_time_s(times, shape.micro_batches), ends))
        return tuple(sorted(found))

    def _entry_s(self, micro: Micro, mesh: Mesh) -> FloatArray:
        """Seconds in which a stage that begins with each segment receives, and sends back."""
        tensors = micro.graph.tensors
        found = [0.0]
        for cut in micro.cuts:
            ways = [(n, 2) for n in cut.sent] + [(n, 1) for n in cut.beside]
            found.append(sum(
                count * send_s(self.task.cluster, _shard_bytes(tensors[name], mesh))
                for name, count in ways
            ))  # fmt: skip
        return np.array(found)

    def _cut(
        self, times: Sequence[FloatArray], most: Sequence[IntArray] | None, shape: Shape
    ) -> tuple[float, Ends] | None:
        """The best cuts: seconds of a step, and where the stages end. With several layouts of an
        interval, each stage takes the best that keeps enough micro-batches.
        """
        if most is None:
            return cut_sequence((times[0],) * shape.stages, shape.micro_batches)
        tables = [
            np.min(
                [
                    np.where(room >= kept, own, np.inf)
                    for own, room in zip(times, most, strict=True)
                ],
                axis=0,
            )
            for kept in in_flight(shape)
        ]
        return cut_sequence(tables, shape.micro_batches)


def _shard_bytes(tensor: Tensor, mesh: Mesh) -> float:
    """What a device sends of a tensor."""
    layout = wire_layout(tensor, mesh)
    return float(local_elements(tensor.dims, layout, mesh) * dtype_bytes(tensor.dtype))
