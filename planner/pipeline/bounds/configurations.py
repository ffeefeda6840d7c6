"""What shapes of a step take: bounds of all their plans, and what is expected of the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from costmodel.schedules.in_flight import in_flight_counts
from costmodel.schedules.least_step import Work, even_step_s
from planner.pipeline.bounds.step import Least, cut_step_s, least_step_s
from planner.pipeline.chain import FloatArray
from planner.pipeline.interval_tables import IntervalTables
from planner.pipeline.networks import Micro
from planner.pipeline.prices import IntervalCosts
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.segments import SMALL_NETWORK
from planner.pipeline.solved import send_s, slowest, wire_bytes
from planner.pipeline.space import Configuration, moments_of
from planner.pipeline.stage_cuts import (
    Ends,
    best_cuts,
    cut_evenly,
    cut_near,
    is_near,
    least_sum_s,
    merit,
    moved_cuts,
    ordered_cuts,
    parts_s,
)
from topology.mesh import Mesh

WORTH_BLOCKS = 0.08
"""Blocks computed again are looked at where a shape otherwise takes so much more than its bound."""
FEW = 64
"""Ways to cut a shape that are all tried where memory binds, per unit of effort."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A shape with what its best cuts take."""

    shape: Configuration
    bound_s: float
    """Of a step: nothing of this shape takes less."""
    expected_s: float
    """Of a step within the memory, by the layouts tried; infinite if none fits."""
    ends: Ends
    """Segments before the end of each piece."""
    least_ends: Ends
    """The same where memory is left aside."""
    shares: tuple[float, ...] = ()
    """Of the blocks of each piece, computed again."""
    price: float = 0.0
    """Highest on memory among the pieces, in seconds per byte."""
    every: tuple[tuple[float, Ends], ...] = ()
    """All cuts with what they take at least, the fastest first, where they are few and memory
    binds."""


class _Option(NamedTuple):
    """One way to have every interval as a piece."""

    time_s: FloatArray
    costs: IntervalCosts
    share: float
    """Of its blocks that are computed again."""
    price: float = 0.0
    """On memory, in seconds per byte."""


class _Found(NamedTuple):
    step_s: float
    ends: Ends
    shares: tuple[float, ...]
    price: float


def price_configurations(
    task: PipelineSearch, shapes: Sequence[tuple[Configuration, Work]], least_s: float
) -> tuple[list[Priced], int]:
    """What the best cuts of shapes take that differ in their chunks alone, and the work done.

    Args:
        task: what is asked.
        shapes: each with what the whole network shows all its stages to do at least.
        least_s: layouts within the memory are sought only if they can take less.
    """
    tables = IntervalTables(task, [shape for shape, _ in shapes])
    pricing = _Pricing(task, tables)
    found: list[Priced] = []
    for shape, total in shapes:
        found.append(pricing.priced(shape, total, least_s))
        least_s = min(least_s, found[-1].expected_s)
    return found, tables.work


class _Pricing:
    def __init__(self, task: PipelineSearch, tables: IntervalTables) -> None:
        self.task, self.tables = task, tables
        self.entry_s = entry_s(task, tables.micro, tables.mesh)[:, None]
        self.free = self._option(tables.free(), 1.0 if task.request.recompute == "full" else 0.0)
        self.under_change_prices = tuple(tables.under_change_prices()) if task.soft.most else ()
        # What is paid for in the tables of a shape bounds it by even shares alone, and what follows
        # another cost does not bound it.
        paid = tables.is_charged or tables.follows or tables.overlaps
        shared_s = self._option(tables.least(), 0.0).time_s if paid else self.free.time_s
        self.least = self._least(shared_s)

    def _least(self, shared_s: FloatArray) -> Least[FloatArray]:
        """What intervals take at least; one stage needs no more than with its share of all."""
        if self.tables.shape.stages == 1:
            none = np.where(np.isfinite(shared_s), 0.0, np.inf)
            return Least(shared_s, none, shared_s, none)
        steady, whole = self.tables.without_and_with_once()
        steady_s, whole_s = (own.time_s + self.entry_s for own in (steady, whole))
        return Least(shared_s, steady_s, whole_s, self.tables.updates_s())

    def _option(self, costs: IntervalCosts, share: float) -> _Option:
        return _Option(costs.time_s + self.entry_s, costs, share)

    def priced(self, shape: Configuration, total: Work, least_s: float) -> Priced:
        """One shape."""
        least = self._near([self.free.time_s] * shape.pieces, shape)
        if least is None:
            return Priced(shape, math.inf, math.inf, (), ())
        pieces = self._all_near(shape)
        least_s_of_all = least_step_s(pieces, shape, total)
        if least_s_of_all < least_s:
            least_s_of_all = least_step_s(pieces, shape, total, closely=True)
        if self.tables.is_charged:
            total_s = least_sum_s([self.free.time_s] * shape.pieces)
            least_s_of_all = max(least_s_of_all, even_step_s(Work(total_s, 0.0), shape))
        least_s_of_all = max((least_s_of_all, *self._change_bounds_s(shape)))
        bound_s = max(least_s_of_all - shape.micro_batches * self.tables.slack_s, 0.0)
        options = [self.free]
        fitting = self._fitting(options, shape)
        hoped_s = bound_s if shape.chunks == 1 else least[0]
        if (fitting is None or fitting.step_s > least[0]) and hoped_s < least_s:
            found, hopeless = self._priced(shape, least_s)
            options += found
            fitting = self._shorter(fitting, self._fitting(options, shape))
            worthwhile = fitting is not None and fitting.step_s > hoped_s * (1 + WORTH_BLOCKS)
            if not hopeless and (fitting is None or worthwhile):
                options += self._again()
                fitting = self._shorter(fitting, self._fitting(options, shape))
        has_other_aims = self.tables.follows or not self.task.soft.is_empty
        small = len(self.tables.micro.graph.ops) <= SMALL_NETWORK
        every = (
            self._every(shape)
            if small and (has_other_aims or fitting is None or fitting.step_s > bound_s)
            else ()
        )
        if fitting is None:
            return Priced(shape, bound_s, math.inf, (), least[1], every=every)
        if shape.chunks > 1 and not has_other_aims and bound_s < least_s:
            step_s, ends, shares, price = self._in_order(options, fitting.ends, shape)
        else:
            step_s, ends, shares, price = fitting
            step_s -= self._counted_again_s(ends, shape)
        return Priced(shape, bound_s, step_s, ends, least[1], shares, price, every)

    def _counted_again_s(self, ends: Ends, shape: Configuration) -> float:
        """What the closed form counts again of what happens once in the parts that wait."""
        shared = parts_s([self.least.shared_s] * shape.pieces, ends, shape)
        steady = parts_s([self.least.steady_s] * shape.pieces, ends, shape)
        once = [max(a - b, 0.0) for a, b in zip(shared, steady, strict=True)]
        return (sum(once) - once[slowest(shared)]) / shape.chunks

    def _closed_s(self, tables: Sequence[FloatArray], shape: Configuration) -> float:
        """The closed form of the best cuts; with chunks each part has its share of all work."""
        tables = self._where_near(tables, shape)
        if shape.chunks == 1:
            least = best_cuts(tables, shape)
            return math.inf if least is None else least[0]
        total_s, share = least_sum_s(tables), 1 / shape.chunks
        return (shape.micro_batches - share) * total_s / shape.stages + total_s * share

    def _all_near(self, shape: Configuration) -> list[Least[FloatArray]]:
        """What intervals take at least that do not move too much alone, for each piece."""
        kinds = (self._where_near([own] * shape.pieces, shape) for own in self.least)
        return [Least(*each) for each in zip(*kinds, strict=True)]

    def _shorter(self, before: _Found | None, now: _Found | None) -> _Found | None:
        """What was found with fewer options may be better where ends are moved from elsewhere."""
        if before is None or now is None or not self.tables.is_charged:
            return now
        return min(before, now, key=lambda found: found.step_s)

    def _change_bounds_s(self, shape: Configuration) -> Iterator[float]:
        """Bounds of a step by prices on operators that an older plan split otherwise."""
        for price_s, costs in self.under_change_prices:
            near = self._where_near([costs.time_s + self.entry_s] * shape.pieces, shape)
            even_s = even_step_s(Work(least_sum_s(near), 0.0), shape)
            yield even_s - price_s * (self.task.soft.most or 0)

    def _near(
        self, tables: Sequence[FloatArray], shape: Configuration
    ) -> tuple[float, Ends] | None:
        """The best cuts of those that leave enough operators on the parts that they had."""
        moved, most = self.task.moved(shape), self.task.soft.most
        found = cut_near(lambda own: best_cuts(own, shape), tables, moved, most)
        if found is not None and self.tables.is_charged and shape.chunks > 1:
            # Ends are moved as long as that helps: also from where time alone would have them.
            own = self.least.shared_s
            alone = best_cuts([np.where(np.isfinite(t), own, np.inf) for t in tables], shape)
            if alone is not None and is_near(moved, alone[1], most):
                found = min(found, moved_cuts(tables, alone[1], shape))
        if most is None or found is None:
            return found
        return merit(tables, found[1], shape)[0], found[1]

    def _where_near(
        self, tables: Sequence[FloatArray], shape: Configuration
    ) -> Sequence[FloatArray]:
        """Times of intervals that do not move too much alone."""
        moved, most = self.task.moved(shape), self.task.soft.most
        if most is None:
            return tables
        pairs = zip(tables, moved, strict=True)
        return [np.where(count <= most, table, np.inf) for table, count in pairs]

    def _priced(self, shape: Configuration, least_s: float) -> tuple[list[_Option], bool]:
        """Options that hold less: prices on memory around the least at which the shape fits, until
        it is seen that no price makes it fast enough; and whether it was.
        """
        found = []
        for price, costs in self.tables.priced(lambda costs: self._fits(costs, shape)):
            found.append(self._option(costs, self.free.share)._replace(price=price))
            if self._hoped_s(costs, price, shape) >= least_s:
                return found, True
        return found, False

    def _hoped_s(self, costs: IntervalCosts, price: float, shape: Configuration) -> float:
        """Seconds of a step that is paid for what it holds beyond the memory, and paid back for
        what it leaves free: about the least that anything takes that fits.
        """
        limit = self.task.limit_bytes / shape.chunks
        held = costs.peak_bytes + costs.kept_bytes
        with np.errstate(invalid="ignore"):
            paid = costs.time_s + self.entry_s + price * (held - limit)
        paid = np.where(np.isfinite(paid), np.maximum(paid, self.free.time_s), np.inf)
        return self._closed_s(
            [paid if kept >= 2 else self.free.time_s for kept in _kept(shape)], shape
        )

    def _again(self) -> Iterator[_Option]:
        """Options with a part of the blocks, or all of them, computed again."""
        if self.task.request.recompute == "auto" and self.tables.has_blocks:
            again = self.tables.again()
            for share in (0.25, 0.5, 0.75):
                yield self._option(self.free.costs.mixed(again[0], share), share)
            yield from (self._option(costs, 1.0) for costs in again)

    def _fits(self, costs: IntervalCosts, shape: Configuration) -> bool:
        room = costs.most_in_flight(self.task.limit_bytes / shape.chunks)
        kept = _kept(shape)
        tables = {each: np.where(room >= each, costs.time_s, np.inf) for each in set(kept)}
        return math.isfinite(least_sum_s([tables[each] for each in kept]))

    def _fitting(self, options: Sequence[_Option], shape: Configuration) -> _Found | None:
        """The best cuts, each piece in the best option that keeps enough micro-batches."""
        tables = self._within(options, shape)
        found = self._near([own.min(axis=0) for own in tables], shape)
        return None if found is None else _chosen(options, tables, *found)

    def _within(self, options: Sequence[_Option], shape: Configuration) -> list[FloatArray]:
        """For each piece what intervals take in every option that keeps enough micro-batches, shape
        (options, L, L + 1).
        """
        times = np.array([np.maximum(option.time_s, self.free.time_s) for option in options])
        limit = self.task.limit_bytes / shape.chunks
        room = np.array([option.costs.most_in_flight(limit) for option in options])
        kept = _kept(shape)
        tables = {each: np.where(room >= each, times, np.inf) for each in set(kept)}
        return [tables[each] for each in kept]

    def _in_order(self, options: Sequence[_Option], ends: Ends, shape: Configuration) -> _Found:
        """Cuts of chunks moved as long as that helps, by the order of all passes; from the best by
        the closed form, and from those whose slowest piece takes least.
        """
        tables, times = self._within(options, shape), shape.micro_batches
        shared_s, steady_s = (np.nan_to_num(own, posinf=0.0) for own in self.least[:2])
        once_s = np.maximum(shared_s - steady_s, 0.0)
        least = [own.min(axis=0) - once_s for own in tables]
        starts = dict.fromkeys((ends, cut_evenly(least) or ends))
        passes_s, ends = min(ordered_cuts(least, start, shape) for start in starts)
        step_s = passes_s + times * max(parts_s([once_s] * shape.pieces, ends, shape))
        return _chosen(options, tables, step_s, ends)

    def _every(self, shape: Configuration) -> tuple[tuple[float, Ends], ...]:
        """All cuts of a shape of a small network if they are few."""
        cuts, least = shape.pieces - 1, [self.least] * shape.pieces
        count, operators = len(self.least.shared_s), len(self.tables.micro.graph.ops)
        if operators > SMALL_NETWORK or math.comb(count - 1, cuts) > FEW * self.task.request.effort:
            return ()
        found = []
        for inner in itertools.combinations(range(1, count), cuts):
            ends = (*inner, count)
            if not is_near(self.task.moved(shape), ends, self.task.soft.most):
                continue
            found.append((cut_step_s(least, ends, shape), ends))
        return tuple(sorted(found))


def _chosen(
    options: Sequence[_Option], tables: Sequence[FloatArray], step_s: float, ends: Ends
) -> _Found:
    """Cuts with the best option for each piece."""
    pieces = zip(tables, (0, *ends[:-1]), ends, strict=True)
    chosen = [options[int(own[:, i, j].argmin())] for own, i, j in pieces]
    shares = tuple(option.share for option in chosen)
    return _Found(step_s, ends, shares, max(option.price for option in chosen))


def _kept(shape: Configuration) -> tuple[float, ...]:
    """Micro-batches that each piece keeps, those of the chunks of a device spread evenly: as many
    together as with equal chunks.
    """
    parts = (in_flight_counts(moments_of(shape, part)) for part in range(shape.stages))
    every = [max(map(sum, own)) / shape.chunks for own in parts]
    return tuple(every[piece % shape.stages] for piece in range(shape.pieces))


def entry_s(task: PipelineSearch, micro: Micro, mesh: Mesh) -> FloatArray:
    """Seconds in which a stage that begins with each segment receives, and sends back."""
    tensors = micro.graph.tensors
    found = [0.0]
    for cut in micro.cuts:
        ways = [(n, 2) for n in cut.sent] + [(n, 1) for n in cut.without_gradient]
        found.append(sum(
            count * send_s(task.cluster, wire_bytes(tensors[name], mesh))
            for name, count in ways
        ))  # fmt: skip
    return np.array(found)
