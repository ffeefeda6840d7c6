"""A shape of a step solved in full: the layouts of all its stages, within the memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from costmodel.redistribution import UNREACHABLE_S
from planner.lowering.liveness import Interval
from planner.lowering.lowered import Lowered, narrowed
from planner.lowering.parameters import with_tied
from planner.lowering.pieces import Pieces, Span
from planner.pipeline.objectives import follows_cost, least_cost
from planner.pipeline.prices import piece_ranges, piece_times
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.soft_trade_off import (
    Account,
    Fits,
    Posing,
    Solve,
    Way,
    all_ways,
    best_trade_off,
    best_ways,
)
from planner.pipeline.solved import Group, Solved, sends_s
from planner.pipeline.space import Configuration, in_flight, moments_of_pieces
from planner.pipeline.stage_plan import drafted
from planner.pipeline.within_memory import SMALL, fits_memory, within_memory
from planner.solvers import Solution

Counts = tuple[int, ...]
"""Blocks that each piece computes again."""


def solved(
    task: PipelineSearch,
    shape: Configuration,
    ends: Sequence[int],
    shares: Sequence[float] = (),
    price: float = 0.0,
) -> Solved:
    """The best layouts of a shape that is cut so, within the memory if they can be.

    Args:
        task: what is asked.
        shape: stages, micro-batches, chunks.
        ends: of the pieces, in segments.
        shares: of the blocks of each piece that are expected to be computed again.
        price: on memory, in seconds per byte, that is expected to do.
    """
    expected = tuple(shares) or (0.0,) * len(ends)
    found = _joined(
        shape,
        (
            _ConfigurationLayouts(task, shape, tuple(ends), price, parts).best(expected)
            for parts in parts_alike(shape)
        ),
    )
    if found.fits or not follows_cost(task):
        return found
    # Layouts that follow another cost are sought again within the memory.
    return _joined(
        shape,
        (
            _ConfigurationLayouts(task, shape, tuple(ends), price, parts, task.limit_bytes).best(
                expected
            )
            for parts in parts_alike(shape)
        ),
    )


def laid_out(
    task: PipelineSearch,
    shape: Configuration,
    ends: Sequence[int],
    blocks: Counts,
    choose: Callable[[Lowered], Solution],
    *,
    recompute: bool,
) -> Solved:
    """A shape that is cut so, in layouts that somebody else chooses, whether they fit or not.

    Args:
        task: what is asked.
        shape: stages, micro-batches, chunks.
        ends: of the pieces, in segments.
        blocks: that each piece computes again.
        choose: a candidate for every decision.
        recompute: single tensors may be computed again too.
    """
    sides = (
        _ConfigurationLayouts(task, shape, tuple(ends), 0.0, parts) for parts in parts_alike(shape)
    )
    return _joined(shape, (side.chosen(blocks, choose, recompute=recompute) for side in sides))


def _joined(shape: Configuration, solutions: Iterable[Solved]) -> Solved:
    """All parts of the machine, from those of every size."""
    first, *others = sides = tuple(solutions)
    if not others:
        return first
    pieces = range(shape.pieces)
    return replace(
        first,
        groups=tuple(group for side in sides for group in side.groups),
        times_s=tuple(sum(side.times_s[k] for side in sides) for k in pieces),
        fits=all(side.fits for side in sides),
        truncated=any(side.truncated for side in sides),
        blocks=tuple(tuple(b for side in sides for b in side.blocks[k]) for k in pieces),
        shared=tuple(name for side in sides for name in side.shared),
    )


def parts_alike(shape: Configuration) -> tuple[tuple[int, ...], ...]:
    """Parts of the machine by their size, the largest first.

    >>> parts_alike(Configuration(3, 1, 4, sizes=(2, 4, 2)))
    ((1,), (0, 2))
    """
    found: dict[int, list[int]] = {}
    for part in range(shape.stages):
        found.setdefault(shape.devices_of(part), []).append(part)
    return tuple(tuple(found[devices]) for devices in sorted(found, reverse=True))


@dataclass(slots=True)
class _ConfigurationLayouts:
    task: PipelineSearch
    shape: Configuration
    ends: tuple[int, ...]
    price: float
    parts: tuple[int, ...]
    """Of the machine, all of one size; what the others do is left out."""
    layout_limit_bytes: float = math.inf
    """Within which layouts are sought that follow another cost."""
    spans: tuple[Interval, ...] = field(init=False)
    blocks: tuple[tuple[Interval, ...], ...] = field(init=False)
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        segments = self.task.true_micro(self.shape.micro_batch).segments
        positions = [segments.positions[end] for end in (0, *self.ends)]
        self.spans = tuple(itertools.pairwise(positions))
        own = (number % self.shape.stages in self.parts for number in range(self.shape.pieces))
        pairs = zip(self.spans, own, strict=True)
        self.blocks = tuple(segments.blocks_in(*span) if mine else () for span, mine in pairs)

    def best(self, shares: tuple[float, ...]) -> Solved:
        """Without memory in the way if that fits, else within it."""
        mode = self.task.request.recompute
        first = self._every() if mode == "full" else (0,) * len(self.spans)
        free = self._lowered(first, recompute=False)
        found = self._fastest(free, None, first)
        if fits_memory(free, found.choice):
            return self._solved(free, found, first)
        selective = mode in {"auto", "selective"}
        tight = self._tight(first, found, selective=selective)
        if mode != "auto" or not any(self.blocks):
            return tight
        if len(free.nodes) <= SMALL and self._account(free).is_short:
            return self._of_each_part(tight, found)
        return self._of_shares(tight, found, shares)

    def chosen(
        self, counts: Counts, choose: Callable[[Lowered], Solution], *, recompute: bool
    ) -> Solved:
        """In layouts that somebody else chooses."""
        lowered = self._lowered(counts, recompute=recompute)
        return self._solved(lowered, choose(lowered), counts)

    def _every(self) -> Counts:
        return tuple(len(own) for own in self.blocks)

    def _of_shares(self, tight: Solved, free: Solution, shares: tuple[float, ...]) -> Solved:
        """As many blocks as expected, and all where these do not do."""
        best = tight
        rows = zip(shares, self.blocks, strict=True)
        expected = tuple(math.ceil(share * len(own)) for share, own in rows)
        for counts in dict.fromkeys((expected, self._every())):
            if not any(counts) or (best.fits and counts != expected):
                continue
            best = _better(best, self._tight(counts, free, selective=True))
        return best

    def _of_each_part(self, tight: Solved, free: Solution) -> Solved:
        """The best number of blocks for every part of the machine: parts share nothing."""
        every = [dict(self._ways_of(part, free)) for part in self.parts]
        found = best_ways([list(own) for own in every], self.shape, self.task.soft.most)
        if found is None:
            return tight
        counts = {
            part: own[way] for part, own, way in zip(self.parts, every, found[1], strict=True)
        }
        stages = self.shape.stages
        chosen = tuple(counts[k % stages][k] if k % stages in counts else 0
                       for k in range(len(self.spans)))  # fmt: skip
        if not any(chosen):
            return tight
        return _better(tight, self._tight(chosen, free, selective=True))

    def _ways_of(self, part: int, free: Solution) -> Iterator[tuple[Way, Counts]]:
        """What every number of blocks takes in one part of the machine; fewer blocks last."""
        own = range(part, len(self.spans), self.shape.stages)
        for most in reversed(range(max(len(self.blocks[piece]) for piece in own) + 1)):
            counts = tuple(min(most, len(blocks)) for blocks in self.blocks)
            lowered = self._lowered(counts, recompute=True, part=part)
            ways = all_ways(self._account(lowered), *self._solver(lowered, free))
            yield from ((way, counts) for way in ways)

    def _fastest(self, lowered: Lowered, free: Solution | None, counts: Counts) -> Solution:
        """The best layouts, memory left aside where nothing is known of it yet."""

        def step_s(choice: Sequence[int]) -> float:
            found = Solution(tuple(choice), 0.0, 0.0, "none", 0.0, truncated=False)
            return drafted(self._solved(lowered, found, counts)).step_s

        return best_trade_off(self._account(lowered), *self._solver(lowered, free), step_s)

    def _solver(self, lowered: Lowered, free: Solution | None) -> tuple[Solve, Fits]:
        """What solves problems, and whether their choices fit."""

        def solve(offered: Lowered, posed: Posing) -> Solution:
            if free is not None:
                return within_memory(self.task, offered, free, self.price, posed)
            return self.task.solve(posed(replace(offered.problem, memory_limit_bytes=math.inf)))

        return solve, lambda choice: free is None or fits_memory(lowered, choice)

    def _account(self, lowered: Lowered) -> Account:
        return Account(self.task.soft, self.shape, lowered, self._entries_s(lowered))

    def _entries_s(self, lowered: Lowered) -> list[float]:
        """By piece what it takes to receive and to send back; 0 for those of other parts."""
        micro, here = self.task.true_micro(self.shape.micro_batch), piece_ranges(lowered.liveness)
        cuts = [micro.by_position[start] for start, _ in self.spans[1:]]
        shape, found = self.shape, [0.0] * len(self.spans)
        sizes = [shape.devices_of(piece % shape.stages) for piece in range(shape.pieces)]
        meshes = {devices: self.task.stage_machine(shape, devices)[1] for devices in {*sizes}}
        for piece, cut in enumerate(cuts, start=1):
            if piece in here:
                ends = (meshes[sizes[piece - 1]], meshes[sizes[piece]])
                found[piece] = sum(sends_s(self.task.cluster, micro.graph, cut, ends))
        return found

    def _pieces(self, counts: Counts, numbers: Sequence[int]) -> Pieces:
        micro = self.task.true_micro(self.shape.micro_batch)
        spans = [Span(*self.spans[k], None, self.blocks[k][: counts[k]]) for k in numbers]
        moments = moments_of_pieces(self.shape, numbers)
        return micro.pieces(spans, numbers, moments)

    def _lowered(self, counts: Counts, *, recompute: bool, part: int | None = None) -> Lowered:
        """All pieces side by side, or those of one part of the machine; its own in a row."""
        task, shape = self.task, self.shape
        micro = task.true_micro(shape.micro_batch)
        cluster, mesh = task.stage_machine(shape, shape.devices_of(self.parts[0]))
        parts = self.parts if part is None else (part,)
        numbers = [k for s in parts for k in range(s, shape.pieces, shape.stages)]
        pieces = self._pieces(counts, numbers)
        if part is None:
            self.shared = pieces.shared
        setting = task.setting(micro, cluster, mesh, shape.micro_batches)
        flight = in_flight(shape)
        setting = replace(setting, recompute=recompute, in_flight=tuple(flight[k] for k in numbers))
        found = with_tied(task.lowered(pieces, setting))
        if not follows_cost(task):
            return found
        return narrowed(found, least_cost(task, found, self.layout_limit_bytes))

    def _tight(self, counts: Counts, free: Solution, *, selective: bool) -> Solved:
        lowered = self._lowered(counts, recompute=selective)
        return self._solved(lowered, self._fastest(lowered, free, counts), counts)

    def _solved(self, lowered: Lowered, found: Solution, counts: Counts) -> Solved:
        task, shape = self.task, self.shape
        micro = task.true_micro(shape.micro_batch)
        choice = found.choice or ()
        own_s = piece_times(lowered, choice, shape.pieces)
        cuts = tuple(micro.by_position[start] for start, _ in self.spans[1:])
        entries = zip(own_s, self._entries_s(lowered), strict=True)
        times = [float(own) + entry for own, entry in entries]
        account = self._account(lowered)
        fits = fits_memory(lowered, choice) and account.is_within(choice)
        return Solved(
            shape, micro.graph, self.spans, cuts, task.cluster, (Group(lowered, choice),),
            tuple(times), fits and max(times) < UNREACHABLE_S, found.truncated,
            tuple(own[:count] for own, count in zip(self.blocks, counts, strict=True)),
            self.shared, account.paid_s(choice),
        )  # fmt: skip


def _better(first: Solved, second: Solved) -> Solved:
    return min((first, second), key=lambda s: (not s.fits, s.worth_s if s.fits else s.peak_bytes))
