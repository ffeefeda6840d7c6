"""Bounds of shapes that are not priced: what the whole network takes at least on one stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from planner.lowered import Lowered
from planner.stages.bounds import even_step_s
from planner.stages.chain import FloatArray
from planner.stages.memory_floors import (
    SELECTIVE,
    Held,
    Price,
    best_bound,
    held_by,
    least_kept,
    priced_whole,
)
from planner.stages.menu import Shape
from planner.stages.pieces import pieces_of
from planner.stages.prices import piece_times
from planner.stages.shape_prices import entry_s
from planner.stages.task import Task
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster


class _Total(NamedTuple):
    """Seconds of the whole network in one place, at least."""

    shared_s: float
    """With the share in a micro-batch of what happens once in a step."""
    steady_s: float
    """Without it."""

    def times(self, factor: float) -> _Total:
        return _Total(self.shared_s * factor, self.steady_s * factor)


@dataclass(slots=True)
class Floors:
    """Bounds that get better the more is known."""

    task: Task
    work: int = 0
    """Candidates in the problems solved."""
    _sample_s: _Total | None = None
    _totals: dict[int, dict[int, _Total]] = field(default_factory=dict)
    """By number of stages and size of micro-batch the seconds of the whole network on a stage."""
    _sends: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    """The same of the cheapest cuts together, by how many there are."""
    _tight: dict[tuple[int, int], float] = field(default_factory=dict)
    """By stages and size of micro-batch what the network takes on them within the memory."""

    def of(self, shape: Shape) -> float:
        """Seconds that a step takes at least: that of all computation divided by all devices, or of
        the whole network with its communication, as far as that is known for this number of stages.

        A sample takes no less in a small micro-batch than in a larger one. Memory is what the
        small one saves, so what it adds to the time holds for one size alone.
        """
        factor = shape.micro_batch * shape.stages / self.task.cluster.devices
        totals = [self._sample().times(factor)]
        for size, known in self._totals.get(shape.stages, {}).items():
            if size >= shape.micro_batch:
                totals.append(known.times(shape.micro_batch / size))
        tight_s = self._tight.get((shape.stages, shape.micro_batch), 0.0)
        sends_s = self._sends_s(shape)
        shared_s = max(tight_s, *(total.shared_s for total in totals))
        steady_s = max(total.steady_s for total in totals)
        return even_step_s(shared_s + sends_s, steady_s + sends_s, shape)

    def of_unequal(self, micro_batch: int, micro_batches: int, largest: int) -> float:
        """The same of stages that differ in their devices, none of which has more than so many."""
        sample, devices = self._sample().times(micro_batch), self.task.cluster.devices
        even_s = micro_batches * sample.shared_s / devices
        # As for equal stages, but of all stages behind the first one as if they were the second.
        behind = (devices - largest) * (1 - 1 / micro_batches)
        return max(even_s, micro_batches * sample.steady_s / (largest + behind))

    def _sends_s(self, shape: Shape) -> float:
        """Seconds in which a micro-batch crosses as many cuts as there must be."""
        key = shape.stages, shape.micro_batch
        if key not in self._sends:
            mesh = self.task.stage_machine(shape)[1]
            each = entry_s(self.task, self.task.micro(shape.micro_batch), mesh)
            self._sends[key] = np.cumsum([0.0, *np.sort(each[1:])])
        return float(self._sends[key][shape.pieces - 1])

    def is_refined(self, shape: Shape) -> bool:
        """Whether `refine` can do nothing more for a shape."""
        return shape.micro_batch in self._totals.get(shape.stages, {})

    def refine(self, shapes: Sequence[Shape]) -> None:
        """Work out the whole network on one stage of shapes that differ in their chunks alone,
        memory left aside and within it.
        """
        shape = shapes[0]
        cluster, mesh = self.task.stage_machine(shape)
        whole, steady = self._wholes(shape, cluster, mesh)
        total_s, held = whole.free()
        total = _Total(total_s, steady.free()[0])
        self._totals.setdefault(shape.stages, {})[shape.micro_batch] = total
        self.work += sum(whole.lowered.problem.sizes)
        limit = self.task.limit_bytes
        if 0 < limit < math.inf and total_s > 0:

            def within_s(price: Price) -> float:
                self.work += sum(whole.lowered.problem.sizes)
                return whole.least_s(price) - price.limit * limit

            unit = total_s / (limit * shape.stages)
            tight_s = best_bound(within_s, least_kept(shapes), unit, held, limit)
            self._tight[shape.stages, shape.micro_batch] = tight_s

    def _sample(self) -> _Total:
        """Seconds of one sample on one device, in the whole batch."""
        if self._sample_s is None:
            one = stage_cluster(self.task.cluster, 1)
            self._sample_s = _Total(0.0, 0.0)
            if one is not None:
                shape, mesh = Shape(1, self.task.batch, 1), self.task.dialect.meshes(one)[0]
                found = _Total(*(each.free()[0] for each in self._wholes(shape, one, mesh)))
                self._sample_s = found.times(1 / self.task.batch)
        return self._sample_s

    def _wholes(self, shape: Shape, cluster: Cluster, mesh: Mesh) -> tuple[_Whole, _Whole]:
        """The whole network as one piece, and without what happens once in a step; equal layers
        stand there once.
        """
        micro = self.task.micro(shape.micro_batch)
        segments = micro.segments
        every = (0, segments.count)
        _, spare = segments.shortened(every)
        taken_out = (spare, spare + 1) if spare else (0,)
        spans = [segments.span(every, out) for out in taken_out]
        pieces = pieces_of(micro.liveness, micro.by_position, spans)
        setting = replace(
            self.task.setting(micro, cluster, mesh, shape.micro_batches),
            in_flight=(1,) * len(spans),
            recompute=self.task.request.recompute in SELECTIVE,
        )
        shared = self.task.lowered(pieces, setting, micro)
        steady = self.task.lowered(pieces, replace(setting, steady=True), micro, shared.basis)
        counts = spare, len(spans)
        return _Whole(self.task, shared, *counts), _Whole(self.task, steady, *counts)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The network as one piece, and if layers repeat with one period less beside it."""

    task: Task
    lowered: Lowered
    spare: int
    """Periods that stand there no more."""
    pieces: int

    def free(self) -> tuple[float, Held]:
        """Seconds of a micro-batch at least, memory left aside, and what then is held."""
        free_s, choice = self._least(Price(0.0, 0.0, 0.0))
        by_piece = held_by(self.lowered, choice)
        longer, shorter = by_piece[0], by_piece[self.pieces - 1]
        pairs = zip(longer, shorter, strict=True)
        return free_s, Held(*(a + self.spare * (a - b) for a, b in pairs))

    def least_s(self, price: Price) -> float:
        """Seconds of a micro-batch at least, with what is paid for its memory."""
        return self._least(price)[0]

    def _least(self, price: Price) -> tuple[float, tuple[int, ...]]:
        problem = priced_whole(self.lowered, price, self.task.request.recompute)
        found = self.task.solve(problem)
        choice = found.choice or ()
        times = piece_times(replace(self.lowered, problem=problem), choice, self.pieces)
        slack_s = max(found.cost_s - found.bound_s, 0.0) * (1 + self.spare)
        return float(times[0] + self.spare * (times[0] - times[-1])) - slack_s, choice
