"""Which shapes of a step are looked at, in what order, and what all others take at least."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from planner.pipeline.bounds.configurations import Priced, price_configurations
from planner.pipeline.bounds.network import NetworkBounds
from planner.pipeline.search_state import PipelineSearch, Report
from planner.pipeline.space import Configuration

WORK = 1_500_000
"""Candidates in the problems of shapes that are priced, per unit of effort."""
LITTLE_WORK = 400_000
"""The same where any plan that fits will do."""
WORTHWHILE = 1e-3
"""Share of a step that a group must promise to be priced."""
LIKELY = 2
"""Groups that are priced at most beside a plan without stages, per unit of effort."""
ROUNDING = 1e-9
"""Of bounds that are the same sum in another order."""
ALIKE = 0.02
"""Floors of one number of stages that lie so near that one answer settles them."""


class Group(NamedTuple):
    """Shapes that differ in their chunks alone: their intervals are priced once."""

    stages: int
    micro_batch: int


class ConfigurationSearch:
    """Prices shapes until no other can be better, or the effort is used up."""

    def __init__(
        self,
        task: PipelineSearch,
        shapes: Sequence[Configuration],
        bounds: NetworkBounds,
        report: Report,
    ) -> None:
        self.task, self.bounds, self.report = task, bounds, report
        self.least_s = math.inf
        self.groups: dict[Group, list[Configuration]] = {}
        for shape in sorted(shapes):
            self.groups.setdefault(Group(shape.stages, shape.micro_batch), []).append(shape)
        self.left = dict.fromkeys(sorted(self.groups, key=self._first))
        self.dropped: list[Group] = []
        self.priced: list[Priced] = []
        self.work = 0

    def _first(self, group: Group) -> tuple[float, int, int]:
        """Of equal bounds the larger micro-batch first: its bound holds for smaller ones."""
        return self.bound_s(group), group.stages, -group.micro_batch

    def bound_s(self, group: Group) -> float:
        """What a group takes at least."""
        return min(self.bounds.of(shape, self.least_s) for shape in self.groups[group])

    def run(self) -> tuple[list[Priced], float]:
        """Those priced, and what all others take at least.

        First come those with a sample for each server of a stage, then the neighbours of the best
        one, then the rest as far as the effort goes; beyond it one neighbour more.
        """
        seeds = self._seeds()
        work = LITTLE_WORK if self.task.any_will_do else WORK
        beyond = 0
        while self.left and not (self.task.any_will_do and math.isfinite(self.least_s)):
            self._drop()
            late = self.task.is_late
            self.task.truncated |= late
            near = [g for g in self._neighbours() if g in self.left]
            order = (*seeds, *near, *self._climbing(), *self.left)
            groups = [g for g in order if g in self.left and self._is_promising(g)]
            used_up = self.work + self.bounds.work > work * self.task.request.effort
            done = used_up and (not near or beyond >= self.task.request.effort)
            known = bool(self.priced) or math.isfinite(self.least_s)
            if not groups or (known and (late or done)):
                break
            beyond += used_up
            self._price(groups[0])
        if not self.task.any_will_do:
            self._settle()
        return self.priced, self.left_s

    def likely(self, least_s: Callable[[], float]) -> Iterator[list[Priced]]:
        """Some groups of which equal stages would take less than a step that is known, the fastest
        first, each with what its shapes take.

        Args:
            least_s: gives the seconds of a step that a group is worth pricing for.
        """
        for _ in range(LIKELY * self.task.request.effort):
            group = self._likeliest(least_s())
            if group is None:
                break
            known = len(self.priced)
            self._price(group)
            yield self.priced[known:]

    @property
    def left_s(self) -> float:
        """What all that is not priced takes at least."""
        return min(map(self.bound_s, self.left), default=math.inf)

    def _likeliest(self, enough_s: float) -> Group | None:
        """The group of which equal stages would be fastest, if they take less than so long."""
        while self.left and not self.task.is_late:
            self._drop()
            best = min(self.left, key=lambda group: (self._likely_s(group), group), default=None)
            if best is None or self._likely_s(best) >= enough_s:
                return None
            if self.bounds.is_refined(self.groups[best][0]):
                return best
            self.bounds.refine(self.groups[best], min(enough_s, self.least_s))
        self.task.truncated |= bool(self.left)
        return None

    def _likely_s(self, group: Group) -> float:
        """What equal stages of a group are expected to take, the bound at least."""
        shapes = self.groups[group]
        return max(self.bound_s(group), min(self.bounds.expected_s(shape) for shape in shapes))

    def one_stage(self) -> Priced | None:
        """The best shape of one stage by what is expected: first the whole batch, then the smallest
        micro-batch with a sample for each server, then the neighbours of the best one.
        """
        seeds = [group for group in self._seeds() if group.stages == 1]
        while not (self.priced and self.task.is_late):
            near = [*seeds, *self._neighbours()]
            groups = [group for group in near if group in self.left and group.stages == 1]
            if not groups:
                break
            self._price(groups[0])
        fitting = (item for item in self.priced if math.isfinite(item.expected_s))
        return min(fitting, key=lambda item: item.expected_s, default=None)

    def _drop(self) -> None:
        enough_s = self.least_s * (1 - ROUNDING)
        for group in [g for g in self.left if self.bound_s(g) >= enough_s]:
            del self.left[group]
            self.dropped.append(group)

    def _is_promising(self, group: Group) -> bool:
        """Whether a group may gain enough; all may in a network that is solved exactly."""
        return self.task.is_small or self.bound_s(group) < self.least_s * (1 - WORTHWHILE)

    def reopened(self, least_s: float) -> bool:
        """Whether groups of a small network were left aside for a step that was hoped for and
        cannot be had; they are looked at again.

        Args:
            least_s: seconds of the shortest step that there is.
        """
        if not self.task.is_small or self.task.is_late or self.least_s >= least_s:
            return False
        self.least_s = least_s
        again = [group for group in self.dropped if self.bound_s(group) < least_s]
        self.dropped = [group for group in self.dropped if group not in again]
        self.left.update(dict.fromkeys(again))
        return bool(again)

    def _price(self, group: Group) -> None:
        """One group, unless the whole network on one of its stages shows that it is no better."""
        shapes = self.groups[group]
        if math.isfinite(self.least_s) and not self.bounds.is_refined(shapes[0]):
            self.bounds.refine(shapes)
            if self.bound_s(group) >= self.least_s:
                return
        del self.left[group]
        priced = [(shape, self.bounds.total_of(shape)) for shape in shapes]
        found, work = price_configurations(self.task, priced, self.least_s)
        self.work += work
        if group.stages == 1 and self._repeats(group):
            found = [self._bounded(item) for item in found]
        known_s = self.bounds.known_s
        found = [replace(p, bound_s=max(p.bound_s, known_s.get(p.shape, 0.0))) for p in found]
        for item in found:
            self.report(
                f"{item.shape}: at least {item.bound_s:.6g} s, expected {item.expected_s:.6g} s"
            )
            self.least_s = min(self.least_s, item.expected_s)
        self.priced += found

    def _repeats(self, group: Group) -> bool:
        """Whether intervals are priced by few of the equal layers that they have."""
        segments = self.task.micro(group.micro_batch).segments
        return segments.shortened((0, segments.count))[1] > 0

    def _bounded(self, item: Priced) -> Priced:
        """A shape of one stage, bounded by all of its layers: few of them bound nothing."""
        if not self.bounds.is_refined(item.shape):
            self.bounds.refine([item.shape])
        return replace(item, bound_s=self.bounds.of(item.shape))

    def _settle(self) -> None:
        """Better bounds for what is left, until the lowest is as good as it gets."""
        while self.left and not self.task.is_late:
            self._drop()
            if not self.left:
                return
            lowest = min(self.left, key=lambda g: (self.bound_s(g), g))
            near_s = self.bound_s(lowest) * (1 + ALIKE)
            alike = [
                g for g in self.left if g.stages == lowest.stages and self.bound_s(g) <= near_s
            ]
            largest = max(alike, key=lambda g: g.micro_batch)
            refined = self.bounds.is_refined(self.groups[largest][0])
            if refined and self.bound_s(largest) <= self.bound_s(lowest):
                return
            group = lowest if refined else largest
            if self.bounds.is_refined(self.groups[group][0]):
                return
            self.bounds.refine(self.groups[group])

    def _seeds(self) -> list[Group]:
        """For every number of stages the smallest micro-batch with a sample for each server, first
        where there are as many stages as devices in each; second the whole batch on one stage, if
        that may be. Others are then soon seen to be worse.
        """
        cluster = self.task.cluster
        if all(group.stages == 1 for group in self.groups) and not self.task.is_whole_far_beyond:
            shapes = [shape for own in self.groups.values() for shape in own]
            likely = self.bounds.likely_micro_batch(shapes)
            return [*(Group(1, size) for size in likely), *self._whole_batch()]
        inner = cluster.devices // cluster.tiers[0].size
        found: dict[int, Group] = {}
        for group in sorted(self.groups, key=lambda g: g.micro_batch):
            servers = max(1, cluster.devices // group.stages // inner)
            if group.stages not in found or found[group.stages].micro_batch < servers:
                found[group.stages] = group
        middle = math.log2(cluster.devices) / 2
        first, *rest = sorted(found.values(), key=lambda g: (abs(math.log2(g.stages) - middle), g))
        return [first, *self._whole_batch(), *rest]

    def _whole_batch(self) -> Iterator[Group]:
        """The whole batch on one stage, unless what it saves is far beyond the memory."""
        if not self.task.is_whole_far_beyond:
            yield Group(1, self.task.batch)

    def _climbing(self) -> Iterator[Group]:
        """Larger and smaller micro-batches beside the best one of every number of stages, the most
        promising first.
        """
        best: dict[int, Priced] = {}
        for item in sorted(self.priced, key=lambda p: (p.expected_s, p.bound_s)):
            best.setdefault(item.shape.stages, item)
        for item in best.values():
            for micro in (item.shape.micro_batch * 2, item.shape.micro_batch // 2):
                yield Group(item.shape.stages, micro)

    def _neighbours(self) -> Iterator[Group]:
        """Next to the best shape so far."""
        best = min(self.priced, key=lambda p: p.expected_s, default=None)
        if best is None or math.isinf(best.expected_s):
            return
        stages, micro = best.shape.stages, best.shape.micro_batch
        for size in (micro, micro * 2, micro // 2):
            yield Group(stages, size)
