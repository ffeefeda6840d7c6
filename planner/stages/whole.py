"""A shape of a step solved whole: the layouts of all its stages, within the memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from planner.liveness import Interval
from planner.lowered import Lowered
from planner.solvers import Solution
from planner.stages.menu import Shape, in_flight
from planner.stages.offload import brought_back
from planner.stages.pieces import Pieces, Span, piece_of_name, pieces_of
from planner.stages.prices import (
    PRICES,
    FloatArray,
    memory_unit,
    piece_costs,
    piece_ranges,
    priced_memory,
)
from planner.stages.solved import Solved, sends_s
from planner.stages.task import Task

STEPS = 6
"""Prices on memory tried where the fastest layouts do not fit."""
NEAR, NEAR_STEPS = 4.0, 3
"""Around a price that is expected to do, and how many are tried there."""
BUFFER_ROUNDS = 2
"""Times that an answer is sought again because its communication groups need more buffers."""
SMALL = 300
"""Decisions up to which a shape is solved within its memory by the solver asked for."""

Counts = tuple[int, ...]
"""Blocks that each piece computes again."""


def solved(
    task: Task,
    shape: Shape,
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
    return _Whole(task, shape, tuple(ends), price).best(tuple(shares) or (0.0,) * len(ends))


@dataclass(slots=True)
class _Whole:
    task: Task
    shape: Shape
    ends: tuple[int, ...]
    price: float
    spans: tuple[Interval, ...] = field(init=False)
    blocks: tuple[tuple[Interval, ...], ...] = field(init=False)
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        segments = self.task.true_micro(self.shape.micro_batch).segments
        positions = [segments.positions[end] for end in (0, *self.ends)]
        self.spans = tuple(itertools.pairwise(positions))
        self.blocks = tuple(segments.blocks_in(*span) for span in self.spans)

    def best(self, shares: tuple[float, ...]) -> Solved:
        """Without memory in the way if that fits, else within it."""
        mode = self.task.request.recompute
        first = self._every() if mode == "full" else (0,) * len(self.spans)
        free = self._lowered(first, recompute=False)
        found = self.task.solve(replace(free.problem, memory_limit_bytes=math.inf))
        if fits_memory(free, found.choice):
            return self._solved(free, found, first)
        selective = mode in {"auto", "selective"}
        tight = self._tight(first, found, selective=selective)
        if mode != "auto" or not any(self.blocks):
            return tight
        if len(free.nodes) <= SMALL:
            return self._of_each_part(tight, found)
        return self._of_shares(tight, found, shares)

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
        chosen = [0] * len(self.spans)
        for part in range(self.shape.stages):
            own = range(part, len(self.spans), self.shape.stages)
            found: list[tuple[float, Counts]] = []
            for most in range(max(len(self.blocks[piece]) for piece in own) + 1):
                counts = tuple(min(most, len(blocks)) for blocks in self.blocks)
                lowered = self._lowered(counts, recompute=True, part=part)
                answer = _within_memory(self.task, lowered, free, self.price)
                if fits_memory(lowered, answer.choice):
                    found.append((lowered.problem.cost_s(answer.choice or ()), counts))
            if not found:
                return tight
            counts = min(found)[1]
            for piece in own:
                chosen[piece] = counts[piece]
        if not any(chosen):
            return tight
        return _better(tight, self._tight(tuple(chosen), free, selective=True))

    def _pieces(self, counts: Counts, numbers: Sequence[int]) -> Pieces:
        micro = self.task.true_micro(self.shape.micro_batch)
        spans = [Span(*self.spans[k], None, self.blocks[k][: counts[k]]) for k in numbers]
        return pieces_of(micro.liveness, micro.by_position, spans, numbers, self.shape.chunks)

    def _lowered(self, counts: Counts, *, recompute: bool, part: int | None = None) -> Lowered:
        """All pieces side by side, or those of one part of the machine; its own in a row."""
        task, shape = self.task, self.shape
        micro = task.true_micro(shape.micro_batch)
        cluster, mesh = task.stage_machine(shape)
        parts = range(shape.stages) if part is None else (part,)
        numbers = [k for s in parts for k in range(s, shape.pieces, shape.stages)]
        pieces = self._pieces(counts, numbers)
        if part is None:
            self.shared = pieces.shared
        setting = task.setting(micro, cluster, mesh, shape.micro_batches)
        flight = in_flight(shape)
        setting = replace(setting, recompute=recompute, in_flight=tuple(flight[k] for k in numbers))
        return task.lowered(pieces, setting)

    def _tight(self, counts: Counts, free: Solution, *, selective: bool) -> Solved:
        lowered = self._lowered(counts, recompute=selective)
        return self._solved(lowered, _within_memory(self.task, lowered, free, self.price), counts)

    def _solved(self, lowered: Lowered, found: Solution, counts: Counts) -> Solved:
        task, shape = self.task, self.shape
        micro = task.true_micro(shape.micro_batch)
        choice = found.choice or ()
        costs = piece_costs(lowered, choice, shape.pieces)
        cuts = tuple(micro.by_position[start] for start, _ in self.spans[1:])
        times = [float(t) for t in costs.time_s]
        for piece, cut in enumerate(cuts, start=1):
            times[piece] += sum(sends_s(task.cluster, lowered, piece, cut))
        return Solved(
            shape, micro.graph, self.spans, cuts, task.cluster, lowered, choice, tuple(times),
            fits_memory(lowered, choice) and max(times) < UNREACHABLE_S, found.truncated,
            tuple(own[:count] for own, count in zip(self.blocks, counts, strict=True)),
            self.shared,
        )  # fmt: skip


def _better(first: Solved, second: Solved) -> Solved:
    return min((first, second), key=lambda s: (not s.fits, s.step_s if s.fits else s.peak_bytes))


def _within_memory(task: Task, lowered: Lowered, free: Solution, price: float) -> Solution:
    """Small problems exactly, large ones by a price on the memory of every piece."""
    if len(lowered.nodes) > SMALL:
        return _Ladder(task, lowered, free).lowest(price)
    limit = task.limit_bytes
    found = task.solve(replace(lowered.problem, memory_limit_bytes=limit))
    for _ in range(BUFFER_ROUNDS):
        if not found.choice or fits_memory(lowered, found.choice):
            break
        if lowered.problem.peak_bytes(found.choice) > limit:
            break
        limit = task.limit_bytes - excess_bytes(lowered, found.choice)
        found = task.solve(replace(lowered.problem, memory_limit_bytes=limit))
    return found


@dataclass(slots=True)
class _Ladder:
    """Prices on memory for every piece, bisected."""

    task: Task
    lowered: Lowered
    free: Solution
    unit: float = field(init=False)
    parts: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.unit = self.free.cost_s / memory_unit(self.lowered)
        ranges = piece_ranges(self.lowered.liveness)
        shared: dict[Interval, list[int]] = {}
        for piece, (start, _) in sorted(ranges.items()):
            shared.setdefault(self.lowered.liveness.lifetime(start), []).append(piece)
        self.parts = list(shared.values())

    def lowest(self, price: float) -> Solution:
        """The fastest choice within the memory, or the one that needs least.

        A price that is expected to do, in seconds per byte, needs fewer steps.
        """
        lowered, free, limit = self.lowered, self.free, self.task.limit_bytes
        pieces = sum(len(own) for own in self.parts)
        near = price / self.unit
        first, last, steps = (near / NEAR, near * NEAR, NEAR_STEPS) if near else (*PRICES, STEPS)
        low, high = np.full(pieces, first), np.full(pieces, last)
        best: tuple[int, ...] | None = None
        least_peak, least = math.inf, free
        tried = high
        for step in range(steps + 1):
            # In the end the prices that fitted in each part: they fit in all, parts share nothing.
            prices = high if step == steps else np.sqrt(low * high)
            if best is not None and np.array_equal(prices, tried):
                break
            choice = self._at(prices)
            peaks = self._peaks(choice)
            fits = peaks <= limit
            if fits.all():
                fits = peaks <= limit - excess_bytes(lowered, choice)
            if fits.all() and (
                best is None or lowered.problem.cost_s(choice) < lowered.problem.cost_s(best)
            ):
                best, tried = choice, prices
            if peaks.max() < least_peak:
                least_peak, least = float(peaks.max()), replace(free, choice=choice)
            high, low = np.where(fits, prices, high), np.where(fits, low, prices)
        if best is None:
            return self.lowest(0.0) if near else least
        best = self._filled(best)
        return replace(free, choice=best, cost_s=lowered.problem.cost_s(best))

    def _filled(self, choice: tuple[int, ...]) -> tuple[int, ...]:
        """With optimizer state brought back from the host where there is room."""
        filled, peaks = list(choice), self._peaks(choice)
        room = self.task.limit_bytes - excess_bytes(self.lowered, choice)
        owner = [piece_of_name(node.name) for node in self.lowered.nodes]
        for own in self.parts:
            nodes = [number for number, piece in enumerate(owner) if piece in own]
            spare = room - peaks[own[0]]
            for number, here in brought_back(self.lowered, choice, nodes, spare).items():
                filled[number] = here
        return tuple(filled)

    def _at(self, prices: FloatArray) -> tuple[int, ...]:
        problem = priced_memory(self.lowered, tuple((self.unit * prices).tolist()))
        return problem.original(self.task.solve(problem.problem).choice or ())

    def _peaks(self, choice: Sequence[int]) -> FloatArray:
        """Of every piece, with the others on its devices."""
        profile = self.lowered.problem.memory_profile(choice)
        ranges = piece_ranges(self.lowered.liveness)
        found = np.zeros(len(ranges))
        for own in self.parts:
            start, end = self.lowered.liveness.lifetime(ranges[own[0]][0])
            found[own] = profile[start:end].max(initial=0.0)
        return found


def fits_memory(lowered: Lowered, choice: Sequence[int] | None) -> bool:
    """Whether a choice fits, with the buffers of its communication groups."""
    if not choice:
        return False
    peak = lowered.problem.peak_bytes(choice)
    return lowered.problem.fits(peak) and lowered.problem.fits(peak + excess_bytes(lowered, choice))


def excess_bytes(lowered: Lowered, choice: Sequence[int]) -> int:
    """Buffers of the communication groups beyond the machine's reserve; equal edges are looked at
    once.
    """
    groups: set[frozenset[int]] = set()
    known: set[tuple[int, int, int]] = set()
    for edge in lowered.edges:
        source = edge.source_port.states[edge.source_port.of[choice[edge.source]]]
        target = edge.target_port.states[edge.target_port.of[choice[edge.target]]]
        key = (id(edge.kind), id(source), id(target))
        if key not in known:
            known.add(key)
            moves = lowered.pricer.transfers(edge.kind, source, target)
            groups.update(frozenset(move.step.axes) for move in moves if move.step.kind is not None)
    for node, chosen in zip(lowered.nodes, choice, strict=True):
        if node.candidates is not None:
            inner = node.candidates.inner[node.assignment_index(chosen)]
            groups.update(frozenset(item.axes) for item in inner)
    sizes = lowered.setting.mesh.sizes
    count = sum(math.prod(sizes[axis] for axis in axes) > 1 for axes in groups)
    return lowered.setting.cluster.buffer_excess_bytes(count)
