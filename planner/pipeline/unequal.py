"""Stages that differ in their devices: parts of the machine of several sizes in one pipeline.

Every interval of the network is priced on a part of every size, as for equal stages; which interval
takes which part follows by dynamic programming (`planner.pipeline.chain`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice, pairwise
from typing import NamedTuple

import numpy as np

from costmodel.schedules.least_step import Work, even_step_s
from planner.pipeline.bounds.configurations import Priced
from planner.pipeline.bounds.configurations import entry_s as entry_s_of
from planner.pipeline.bounds.network import NetworkBounds
from planner.pipeline.bounds.step import Least, given_step_s
from planner.pipeline.chain import Chain, FloatArray, StageTable, cut_chain, least_in_order_s
from planner.pipeline.interval_tables import IntervalTables
from planner.pipeline.prices import IntervalCosts
from planner.pipeline.search_state import PipelineSearch, Report
from planner.pipeline.space import Configuration, divisors
from planner.pipeline.stage_cuts import Ends
from topology.part import stage_cluster

LEAST_SHARE = 16
"""The smallest part has one device of so many."""
SPACING = 1e-3
"""Relative distance of the slowest stages that are tried for a large network."""
SIZES_PRICED = 4
"""Sizes of micro-batch that are priced for a large network, per unit of effort."""
ENUMERATED = 512
"""Ways to cut a small network that are all tried where memory binds, per unit of effort."""
A_FEW = 4
"""Micro-batches for each stage with which the search begins, and stages if none are asked for."""
STEPS = 4
"""Prices on memory, evenly apart on a logarithmic scale."""


class _Option(NamedTuple):
    """One way to have every interval as a stage on one size of part."""

    costs: IntervalCosts
    share: float
    """Of its blocks that are computed again."""
    price: float
    """On memory, in seconds per byte."""


class UnequalSearch:
    """Looks for stages of unequal devices that are faster than what is known."""

    def __init__(self, task: PipelineSearch, bounds: NetworkBounds, report: Report) -> None:
        self.task, self.bounds, self.report = task, bounds, report
        self.sizes = part_sizes(task)
        request = task.request
        able = self.sizes and request.pipeline != "off" and request.interleave in {"auto", "1"}
        self.left = (
            {size: self._least_of_all_s(size) for size in self._micro_batches()} if able else {}
        )
        """Sizes of micro-batch that are not priced, with what they take at least."""

    @property
    def left_s(self) -> float:
        """Seconds that what is not priced takes at least."""
        return min(self.left.values(), default=math.inf)

    def run(
        self, micro_batch: int | None, least_s: Callable[[], float]
    ) -> Iterator[tuple[Priced, ...]]:
        """What is worth solving whole, for one size of micro-batch after another.

        Args:
            micro_batch: of the best step that is known; the search begins there, or where each
                stage has a few micro-batches.
            least_s: seconds of the best step by then.
        """
        small = self.task.is_small
        most = math.inf if small else SIZES_PRICED * self.task.request.effort
        tried, near = 0, [self._likely() if micro_batch is None else micro_batch]
        while tried < most and not self.task.is_late:
            before_s = least_s()
            left = [size for size, bound_s in self.left.items() if bound_s < before_s]
            order = [size for size in near if size in left] or sorted(
                left, key=self._least_of_all_s
            )
            if not order:
                return
            size = order[0]
            del self.left[size]
            tried += 1
            yield tuple(self._priced(size, before_s, small=small))
            if least_s() < before_s:
                near = [size * 2, size // 2]
        self.task.truncated |= self.task.is_late

    def _likely(self) -> int:
        """The size with which stages of the number that is asked for wait little."""
        wanted = self.task.request.pipeline
        rounds = A_FEW * (A_FEW if wanted == "auto" else int(wanted))
        wide = math.log(self.task.batch / rounds)
        return min(self.left, key=lambda size: (abs(math.log(size) - wide), size), default=1)

    def _micro_batches(self) -> list[int]:
        given = self.task.request.micro_batch
        return divisors(self.task.batch) if given == "auto" else [int(given)]

    def _least_of_all_s(self, micro_batch: int) -> float:
        times = self.task.batch // micro_batch
        return self.bounds.of_unequal(micro_batch, times, self.sizes[0])

    def _priced(self, micro_batch: int, least_s: float, *, small: bool) -> Iterator[Priced]:
        """The best stages for a size of micro-batch."""
        task, shape = self.task, Configuration(1, micro_batch, self.task.batch // micro_batch)
        sizes = [size for size in self.sizes if task.can_be(shape, size)]
        if not sizes:
            return
        for item in _Pricing(task, shape, sizes, small=small).priced(least_s):
            if not item.every:
                self.report(
                    f"{item.shape}: at least {item.bound_s:.6g} s, expected {item.expected_s:.6g} s"
                )
            yield item


def part_sizes(task: PipelineSearch) -> tuple[int, ...]:
    """Devices that a part of the machine may have beside larger ones, descending; each divides the
    one before it, so that they all lie in whole tiers.
    """
    devices, found = task.cluster.devices, []
    last = devices
    for size in reversed(divisors(devices)):
        able = size < devices and last % size == 0 and size * LEAST_SHARE >= devices
        if able and stage_cluster(task.cluster, size) is not None:
            found.append(size)
            last = size
    return tuple(found)


class _Pricing:
    """Stages with one size of micro-batch."""

    def __init__(
        self, task: PipelineSearch, shape: Configuration, sizes: Sequence[int], *, small: bool
    ) -> None:
        self.task, self.shape, self.sizes, self.small = task, shape, tuple(sizes), small
        self.micro = task.micro(shape.micro_batch)
        self.units = task.cluster.devices // sizes[-1]
        """Devices, in those of the smallest part."""
        most = min(self.micro.segments.count, self.units)
        wanted = task.request.pipeline
        self.stages = (2, most) if wanted == "auto" else (int(wanted), int(wanted))
        counts = range(self.stages[0], min(self.stages[1], most) + 1)
        shapes = [replace(shape, stages=count) for count in counts]
        self.tables = [IntervalTables(task, shapes, size) for size in sizes] if shapes else []

    def priced(self, least_s: float) -> Iterator[Priced]:
        """The best of all, if they can take less than `least_s`."""
        if not self.tables:
            return
        free = [table.free() for table in self.tables]
        table = self._table([costs.time_s for costs in free], ())
        least = self._cut(table)
        if least is None:
            return
        bound_s = self._bound_s(least, table)
        found = Priced(self._shape(least), bound_s, math.inf, (), _ends(least))
        every: dict[Configuration, Priced] = {}
        if bound_s < least_s:
            found = self._within(found, free)
            every = {item.shape: item for item in self._every(table)}
            if every:
                bound_s = max(bound_s, min(item.bound_s for item in every.values()))
                found = replace(found, bound_s=bound_s)
        # A shape is solved once: at the cuts expected to be best, and at all of them.
        own = every.pop(found.shape, None)
        yield found if own is None else replace(found, every=own.every)
        yield from every.values()

    def _bound_s(self, least: Chain, table: StageTable) -> float:
        """Seconds of a step at least, memory left aside: of its slowest stage, and in a large
        network, where not all stages are looked at, of all of them together.
        """
        shape, found = self.shape, self.shape.micro_batches * least.slowest_s
        if not self.small:
            steady = self._least(table)[1]
            in_order_s = least_in_order_s(
                table, steady, self.units, shape.micro_batches, self.stages, SPACING,
                lambda count, sum_s: even_step_s(Work(0.0, sum_s), replace(shape, stages=count)),
            )  # fmt: skip
            found = max(found, in_order_s)
        slack_s = sum(own.slack_s for own in self.tables)
        return max(found - shape.micro_batches * slack_s, 0.0)

    def _table(self, times: Sequence[FloatArray], within: Sequence[FloatArray]) -> StageTable:
        unit, tables = self.sizes[-1], self.tables
        entry_s = [entry_s_of(self.task, self.micro, table.mesh) for table in tables]
        sizes = tuple(size // unit for size in self.sizes)
        return StageTable(np.stack(times, axis=2), sizes, tuple(within), np.stack(entry_s, axis=1))

    def _cut(self, table: StageTable) -> Chain | None:
        """The best stages, their devices counted in those of the smallest part."""
        return cut_chain(
            table, self.units, self.shape.micro_batches, stages=self.stages,
            spacing=0.0 if self.small else SPACING,
        )  # fmt: skip

    def _shape(self, chain: Chain) -> Configuration:
        return self._of_sizes([stage.devices * self.sizes[-1] for stage in chain.stages])

    def _of_sizes(self, sizes: Sequence[int]) -> Configuration:
        own = () if len({*sizes}) == 1 else tuple(sizes)
        return replace(self.shape, stages=len(sizes), sizes=own)

    def _within(self, least: Priced, free: Sequence[IntervalCosts]) -> Priced:
        """With the best stages within the memory, each in the best option that keeps enough."""
        limit = self.task.limit_bytes
        options = [self._options(*pair) for pair in zip(self.tables, free, strict=True)]
        times = [np.stack([np.maximum(o.costs.time_s, own.time_s) for o in options[k]])
                 for k, own in enumerate(free)]  # fmt: skip
        room = [np.stack([o.costs.most_in_flight(limit) for o in own]) for own in options]
        kept = range(1, min(self.shape.micro_batches, self.stages[1]) + 1)
        tables = [
            [np.where(rooms >= count, own, np.inf) for own, rooms in zip(times, room, strict=True)]
            for count in kept
        ]
        within = [np.stack([own.min(axis=0) for own in row], axis=2) for row in tables]
        chain = self._cut(self._table([costs.time_s for costs in free], within))
        if chain is None:
            return least
        chosen = []
        for place, stage in enumerate(chain.stages):
            held = min(len(chain.stages) - place, len(tables))
            size = self.sizes.index(stage.devices * self.sizes[-1])
            number = int(tables[held - 1][size][:, stage.start, stage.end].argmin())
            chosen.append(options[size][number])
        return replace(
            least,
            shape=self._shape(chain),
            expected_s=chain.step_time_s,
            ends=_ends(chain),
            shares=tuple(option.share for option in chosen),
            price=max(option.price for option in chosen),
        )

    def _options(self, tables: IntervalTables, free: IntervalCosts) -> list[_Option]:
        """Ways to hold less: prices on memory, blocks computed again."""
        mode = self.task.request.recompute
        share = 1.0 if mode == "full" else 0.0
        found = [_Option(free, share, 0.0)]
        found += [_Option(costs, share, price) for price, costs in tables.at_prices(STEPS)]
        if mode == "auto" and tables.has_blocks:
            again = tables.again()
            found += [_Option(free.mixed(again[0], part), part, 0.0) for part in (0.25, 0.5, 0.75)]
            found += [_Option(costs, 1.0, 0.0) for costs in again]
        return found

    def _every(self, table: StageTable) -> Iterator[Priced]:
        """All stages of a small network if they are few, by the sizes of their parts."""
        count, most = self.micro.segments.count, ENUMERATED * self.task.request.effort
        every_row = (
            (sizes, inner)
            for stages in range(self.stages[0], self.stages[1] + 1)
            for sizes in _compositions(self.units, table.sizes, stages)
            if len({*sizes}) > 1
            for inner in combinations(range(1, count), stages - 1)
        )  # fmt: skip
        rows = list(islice(every_row, most + 1)) if self.small else []
        rows = rows if len(rows) <= most else []
        least = self._least(table) if rows else ()
        slack_s = self.shape.micro_batches * max(own.slack_s for own in self.tables)
        by_sizes: dict[tuple[int, ...], list[tuple[float, Ends]]] = {}
        for sizes, inner in rows:
            ends = (*inner, count)
            least_s = max(self._least_s(least, sizes, ends) - slack_s, 0.0)
            by_sizes.setdefault(sizes, []).append((least_s, ends))
        for sizes, every in by_sizes.items():
            shape = self._of_sizes([size * self.sizes[-1] for size in sizes])
            ordered = tuple(sorted(every))
            yield Priced(shape, ordered[0][0], math.inf, (), ordered[0][1], every=ordered)

    def _least(self, shared: StageTable) -> tuple[StageTable, ...]:
        """What intervals take at least on parts of every size, as in `bounds.Least`."""
        pairs = [table.without_and_with_once() for table in self.tables]
        kinds = ([own.time_s for own in kind] for kind in zip(*pairs, strict=True))
        return shared, *(self._table(times, ()) for times in kinds)

    def _least_s(self, least: Sequence[StageTable], sizes: Sequence[int], ends: Ends) -> float:
        """Seconds of a step of some stages, memory left aside."""
        numbers = [least[0].sizes.index(size) for size in sizes]
        pieces = []
        for place, (start, end) in enumerate(pairwise((0, *ends))):
            own = numbers[place]
            received_s = least[0].after_s(own, numbers[max(place - 1, 0)])[start]
            shared_s, steady_s, whole_s = (
                float(table.time_s[start, end, own] + received_s) for table in least
            )
            pieces.append(Least(shared_s, steady_s, whole_s, update_s=0.0))
        return given_step_s(pieces, replace(self.shape, stages=len(sizes)))


def _compositions(total: int, sizes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """Everything that so many parts of some sizes add up to a total with, in order.

    >>> list(_compositions(4, (2, 1), 3))
    [(2, 1, 1), (1, 2, 1), (1, 1, 2)]
    """
    if count == 0:
        if total == 0:
            yield ()
        return
    for size in sizes:
        if size <= total:
            for more in _compositions(total - size, sizes, count - 1):
                yield (size, *more)


def _ends(chain: Chain) -> Ends:
    return tuple(stage.end for stage in chain.stages)
