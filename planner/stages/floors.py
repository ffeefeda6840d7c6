"""Bounds of shapes that are not priced: what the whole network takes at least on one stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from planner.stages.menu import Shape
from planner.stages.pieces import pieces_of
from planner.stages.prices import piece_costs
from planner.stages.shape_prices import least_step_s
from planner.stages.task import Task
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster


@dataclass(slots=True)
class Floors:
    """Bounds that get better the more is known."""

    task: Task
    _sample_s: float | None = None
    _totals: dict[int, dict[int, float]] = field(default_factory=dict)
    """By number of stages and size of micro-batch the seconds of the whole network on a stage."""

    def of(self, shape: Shape) -> float:
        """Seconds that a step takes at least: that of all computation divided by all devices, or of
        the whole network with its communication, as far as that is known for this number of stages.

        A sample takes no less in a small micro-batch than in a larger one.
        """
        total_s = self._sample() * shape.micro_batch * shape.stages / self.task.cluster.devices
        for size, known_s in self._totals.get(shape.stages, {}).items():
            if size >= shape.micro_batch:
                total_s = max(total_s, known_s * shape.micro_batch / size)
        return least_step_s(total_s, shape)

    def is_refined(self, shape: Shape) -> bool:
        """Whether `refine` can do nothing more for a shape."""
        return shape.micro_batch in self._totals.get(shape.stages, {})

    def refine(self, shape: Shape) -> None:
        """Work out the whole network on one stage of a shape, memory left aside."""
        cluster, mesh = self.task.stage_machine(shape)
        total_s = self._whole_s(shape, cluster, mesh)
        self._totals.setdefault(shape.stages, {})[shape.micro_batch] = total_s

    def _sample(self) -> float:
        """Seconds of one sample on one device, in the whole batch."""
        if self._sample_s is None:
            one = stage_cluster(self.task.cluster, 1)
            self._sample_s = 0.0
            if one is not None:
                shape = Shape(1, self.task.batch, 1)
                whole_s = self._whole_s(shape, one, self.task.dialect.meshes(one)[0])
                self._sample_s = whole_s / self.task.batch
        return self._sample_s

    def _whole_s(self, shape: Shape, cluster: Cluster, mesh: Mesh) -> float:
        """Seconds of a micro-batch through the whole network; equal layers are worked out once."""
        micro = self.task.micro(shape.micro_batch)
        segments = micro.segments
        every = (0, segments.count)
        _, spare = segments.shortened(every)
        taken_out = (spare, spare + 1) if spare else (0,)
        spans = [segments.span(every, out) for out in taken_out]
        pieces = pieces_of(micro.liveness, micro.by_position, spans)
        setting = self.task.setting(micro, cluster, mesh, shape.micro_batches)
        lowered = self.task.lowered(pieces, replace(setting, in_flight=(1,) * len(spans)))
        found = self.task.solve(replace(lowered.problem, memory_limit_bytes=math.inf))
        times = piece_costs(lowered, found.choice or (), len(spans)).time_s
        slack_s = max(found.cost_s - found.bound_s, 0.0)
        return float(times[0] + spare * (times[0] - times[-1])) - slack_s
