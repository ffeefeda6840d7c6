"""Bounds of shapes that are not priced: what the whole network takes at least on one stage.

Where memory has a price, every part s of the machine keeps, while it turns from forward to
backward, its parameters with their gradients and states, and the activations of at least f_s
micro-batches. For prices z_s >= 0

    sum t_s >= sum (t_s + z_s (memory_s - limit)),

and what is on the right is at least the whole network with every byte of a parameter at the least
z_s and every byte of an activation at the least z_s f_s, less the limit at all prices. The network
is free to be cut anywhere, an operator may be computed again for the time of its forward pass
alone, and copies and buffers are left out: all of that takes less than what a plan may do.

Source: weak duality (Geoffrion, "Lagrangean Relaxation for Integer Programming", 1974).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.schedules.in_flight import in_flight_counts
from costmodel.schedules.least_step import NOTHING, Work, even_step_s
from planner.pipeline.bounds.configurations import entry_s
from planner.pipeline.bounds.one_device import OneDevice
from planner.pipeline.bounds.whole_network import PieceBytes, Price, WholeNetwork
from planner.pipeline.chain import FloatArray
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration, moments_of
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster

FIRST, FACTOR, HIGHEST = 0.1, 3.0, 30.0
"""The first price in units of the time of the whole by the memory of all parts, by how much the
next one differs, and where it ends: what fits at no price has a bound that rises with it."""
SELECTIVE = frozenset({"auto", "selective"})
"""Requests by which single operators are computed again."""


def kept(shape: Configuration) -> tuple[float, ...]:
    """Micro-batches whose activations each part of the machine keeps at least, however its chunks
    share the network: those of the chunk that has fewest in flight, at the moment when that is
    most. A part that has all its activations in the chunk with the least maximum keeps no more.

    >>> kept(Configuration(4, 1, 3)), kept(Configuration(2, 1, 8, 2))
    ((3.0, 3.0, 2.0, 1.0), (2.0, 1.0))
    """
    parts = (in_flight_counts(moments_of(shape, part)) for part in range(shape.stages))
    return tuple(float(max(map(min, every))) for every in parts)


def least_kept(shapes: Sequence[Configuration]) -> tuple[float, ...]:
    """The same of shapes that differ in their chunks alone."""
    return tuple(min(each) for each in zip(*map(kept, shapes), strict=True))


def prices(in_parts: Sequence[float], unit: float) -> tuple[Price, ...]:
    """The same price on every part, and one that falls with the micro-batches that it keeps.

    Args:
        in_parts: micro-batches that each part of the machine keeps.
        unit: the highest price of a part, in seconds per byte.
    """
    least, most = min(in_parts), max(in_parts)
    even = Price(unit, unit * least, unit * len(in_parts))
    falling = Price(
        unit * least / most, unit * least, unit * sum(least / each for each in in_parts)
    )
    return (even,) if most == least else (even, falling)


def best_bound(
    total_s: Callable[[Price], float],
    in_parts: Sequence[float],
    unit: float,
    held: PieceBytes,
    limit_bytes: float,
) -> float:
    """The highest bound that some prices give, in seconds; 0 where memory is not short.

    Args:
        total_s: the bound at a price; concave.
        in_parts: micro-batches that each part of the machine keeps.
        unit: of prices, in seconds per byte.
        held: by the fastest layouts of the network. Where the right side of the bound does not rise
            from a price of 0, it never does.
        limit_bytes: memory of a device.
    """
    useful = [
        number
        for number, price in enumerate(prices(in_parts, 1.0))
        if held.parameters * price.parameters + held.activations * price.activations
        > limit_bytes * price.limit
    ]
    if not useful:
        return 0.0

    def at(price: float) -> float:
        offered = prices(in_parts, unit * price)
        return max(total_s(offered[number]) for number in useful)

    best = (at(FIRST), FIRST)
    for factor in (FACTOR, 1 / FACTOR):
        while best[1] < HIGHEST and best[0] < (found := at(best[1] * factor)):
            best = (found, best[1] * factor)
        if best[1] != FIRST:
            break
    return best[0]


@dataclass(slots=True)
class NetworkBounds:
    """Bounds that get better the more is known."""

    task: PipelineSearch
    work: int = 0
    """Candidates in the problems solved."""
    _one_device: tuple[OneDevice, OneDevice] | None = None
    """With and without what happens once in a step."""
    _samples: dict[float, Work] = field(default_factory=dict)
    """The same on a device by the samples that it computes."""
    _totals: dict[int, dict[int, Work]] = field(default_factory=dict)
    """By number of stages and size of micro-batch the seconds of the whole network on a stage."""
    _sends: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    """The same of the cheapest cuts together, by how many there are."""
    _held: dict[Configuration, PieceBytes] = field(default_factory=dict)
    _tight: dict[tuple[int, int], float] = field(default_factory=dict)
    """By stages and size of micro-batch what the network takes on them within the memory."""
    known_s: dict[Configuration, float] = field(default_factory=dict)
    """What others have shown a step of some shapes to take at least."""

    def of(self, shape: Configuration, enough_s: float = 0.0) -> float:
        """Seconds that a step takes at least: that of all computation divided by all devices, whose
        hosts issue every operator, or of the whole network with its communication, as far as that
        is known for this number of stages.

        A sample takes no less in a small micro-batch than in a larger one. Memory is what the
        small one saves, so what it adds to the time holds for one size alone.

        Args:
            shape: of the step.
            enough_s: seconds of a step up to which the bound is worth some effort.
        """
        total = self.total_of(shape)
        found_s = max(even_step_s(total, shape), self.known_s.get(shape, 0.0))
        if found_s < enough_s and self.is_refined(shape):
            found_s = max(found_s, even_step_s(total, shape, closely=True))
        return found_s

    def expected_s(self, shape: Configuration) -> float:
        """Seconds of a step of equal stages, in the fastest layouts of the whole network as far as
        these are known: each idles while the first and the last micro-batch are elsewhere.
        """
        shared_s, steady_s, _ = self.total_of(shape)
        idle_s = (shape.stages - 1) * steady_s / shape.chunks
        return (shape.micro_batches * shared_s + idle_s) / shape.stages

    def total_of(self, shape: Configuration) -> Work:
        """Seconds of a micro-batch on all stages at least, with what is sent."""
        totals = [self._samples_s(shape.micro_batch * shape.stages / self.task.cluster.devices)]
        for size, known in self._totals.get(shape.stages, {}).items():
            if size >= shape.micro_batch:
                totals.append(_scaled(known, shape.micro_batch / size))
        tight_s = self._tight.get((shape.stages, shape.micro_batch), 0.0)
        sends_s = self._sends_s(shape)
        shared_s = max(tight_s, *(total.shared_s for total in totals))
        steady_s = max(total.steady_s for total in totals)
        update_s = max(total.update_s for total in totals)
        return Work(shared_s + sends_s, steady_s + sends_s, update_s)

    def of_whole_batch(self, shape: Configuration) -> float:
        """The same by the network at the whole batch alone: computation divided by all devices, and
        what is sent. A micro-batch sends its share of the batch at least.
        """
        share = shape.micro_batch / self.task.batch
        whole = replace(shape, micro_batch=self.task.batch)
        total = self._samples_s(shape.micro_batch * shape.stages / self.task.cluster.devices)
        sends_s = share * self._sends_s(whole)
        return even_step_s(Work(total.shared_s + sends_s, total.steady_s + sends_s), shape)

    def of_unequal(self, micro_batch: int, micro_batches: int, largest: int) -> float:
        """The same of stages that differ in their devices, none of which has more than so many."""
        sample, devices = self._samples_s(micro_batch), self.task.cluster.devices
        even_s = micro_batches * sample.shared_s / devices
        # As for equal stages, but of all stages behind the first one as if they were the second.
        behind = (devices - largest) * (1 - 1 / micro_batches)
        return max(even_s, micro_batches * sample.steady_s / (largest + behind))

    def _sends_s(self, shape: Configuration) -> float:
        """Seconds in which a micro-batch crosses as many cuts as there must be."""
        if shape.pieces == 1:
            return 0.0
        key = shape.stages, shape.micro_batch
        if key not in self._sends:
            mesh = self.task.stage_machine(shape)[1]
            each = entry_s(self.task, self.task.micro(shape.micro_batch), mesh)
            self._sends[key] = np.cumsum([0.0, *np.sort(each[1:])])
        return float(self._sends[key][shape.pieces - 1])

    def is_refined(self, shape: Configuration) -> bool:
        """Whether `refine` can do nothing more for a shape."""
        return shape.micro_batch in self._totals.get(shape.stages, {})

    def refine(self, shapes: Sequence[Configuration], enough_s: float = math.inf) -> None:
        """Work out the whole network on one stage of shapes that differ in their chunks alone,
        memory left aside and within it.

        Args:
            shapes: them.
            enough_s: seconds of a step from which nothing more of them is wanted.
        """
        shape = shapes[0]
        cluster, mesh = self.task.stage_machine(shape)
        wholes = self._wholes(shape, cluster, mesh)
        whole = next(wholes)
        total_s = whole.free_s
        self._held[shape] = whole.held
        self.work += sum(whole.lowered.problem.sizes)
        totals = self._totals.setdefault(shape.stages, {})
        totals[shape.micro_batch] = Work(total_s, 0.0)
        if min(map(self.of, shapes)) >= enough_s:
            return
        steady = next(wholes, None)
        if steady is not None:
            totals[shape.micro_batch] = Work(total_s, steady.free_s, whole.updates_s)
        limit = self.task.limit_bytes
        if 0 < limit < math.inf and total_s > 0:

            def within_s(price: Price) -> float:
                self.work += sum(whole.lowered.problem.sizes)
                return whole.least_s(price) - price.limit * limit

            unit = total_s / (limit * shape.stages)
            tight_s = best_bound(within_s, least_kept(shapes), unit, whole.held, limit)
            self._tight[shape.stages, shape.micro_batch] = tight_s

    def likely_micro_batch(self, shapes: Sequence[Configuration]) -> tuple[int, ...]:
        """Of shapes of one stage the largest micro-batch whose fastest layouts are expected to fit,
        by what they hold of the largest of all; none where parameters alone do not fit.
        """
        largest = max(shapes, key=lambda shape: shape.micro_batch)
        if not self.is_refined(largest):
            self.refine([largest])
        parameters, activations = self._held[largest]
        share = (self.task.limit_bytes - parameters) / max(activations, 1.0)
        fitting = [s.micro_batch for s in shapes if s.micro_batch <= share * largest.micro_batch]
        return (max(fitting),) if fitting else ()

    def _samples_s(self, samples: float) -> Work:
        """Seconds of a device that computes so many samples, as fast as in the whole batch."""
        one = stage_cluster(self.task.cluster, 1)
        if one is None:
            return NOTHING
        if self._one_device is None:
            shape, mesh = Configuration(1, self.task.batch, 1), self.task.dialect.meshes(one)[0]
            both = (OneDevice.of(own, self.task.batch) for own in self._wholes(shape, one, mesh))
            shared, steady = both
            self._one_device = shared, steady
        if samples not in self._samples:
            found = Work(*(own.samples_s(samples) for own in self._one_device))
            self._samples[samples] = found
        return self._samples[samples]

    def _wholes(self, shape: Configuration, cluster: Cluster, mesh: Mesh) -> Iterator[WholeNetwork]:
        """The whole network as one piece, then without what happens once in a step; on a stage of
        several equal layers stand there once. What they take by the best layouts of few of them
        may be more than with layouts that pay only for many: one stage has all, and its bound does
        not ask what happens once.
        """
        micro = self.task.micro(shape.micro_batch)
        segments = micro.segments
        every = (0, segments.count)
        is_whole = shape.stages == 1 and cluster.devices > 1
        spare = 0 if is_whole else segments.shortened(every)[1]
        taken_out = (spare, spare + 1) if spare else (0,)
        again = is_whole and self.task.request.recompute == "full"
        spans = [segments.span(every, out, again=again) for out in taken_out]
        pieces = micro.pieces(spans)
        setting = replace(
            self.task.setting(micro, cluster, mesh, shape.micro_batches),
            in_flight=(1,) * len(spans),
            recompute=self.task.request.recompute in SELECTIVE,
        )
        shared = self.task.lowered(pieces, setting, micro)
        yield WholeNetwork.of(self.task, shared, spare, len(spans))
        if not is_whole:
            steady = self.task.lowered(pieces, replace(setting, steady=True), micro, shared.basis)
            yield WholeNetwork.of(self.task, steady, spare, len(spans))


def _scaled(work: Work, share: float) -> Work:
    """What a smaller micro-batch takes at least; updates do not depend on its size."""
    return work._replace(shared_s=work.shared_s * share, steady_s=work.steady_s * share)
