"""The best layouts of the pieces of a pipeline within the memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.lowering.liveness import Interval
from planner.lowering.lowered import Lowered
from planner.lowering.parameters import brought_back
from planner.pipeline.prices import PRICES, memory_unit, piece_ranges, priced_memory
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.soft_trade_off import Posing
from planner.pipeline.solved import BUFFER_ROUNDS, Group
from planner.problem import FloatArray
from planner.solvers import Solution

STEPS = 6
"""Prices on memory tried where the fastest layouts do not fit."""
NEAR, NEAR_STEPS = 4.0, 3
"""Around a price that is expected to do, and how many are tried there."""
NEARLY = 0.005
"""Relative gap with which one stage of a large network is left as it is."""
SMALL = 300
"""Decisions up to which a shape is solved within its memory by the solver asked for."""


def within_memory(
    task: PipelineSearch,
    lowered: Lowered,
    free: Solution,
    price: float,
    posed: Posing = lambda own: own,
) -> Solution:
    """Small problems exactly, one stage of a large network nearly, several stages by a price on
    the memory of every piece. One stage gets the price too where its answer may be far off.
    """
    if len(lowered.nodes) <= SMALL:
        return _limited(task, lowered, posed)
    priced = _Ladder(task, lowered, free)
    if len(piece_ranges(lowered.liveness)) > 1 or not task.soft.is_empty:
        return priced.lowest(price)
    found = _limited(task, lowered, posed, NEARLY)
    near = found.cost_s - found.bound_s <= NEARLY * found.cost_s
    if near and fits_memory(lowered, found.choice):
        return found

    def rank(each: Solution) -> tuple[bool, float]:
        fits = fits_memory(lowered, each.choice)
        return not fits, each.cost_s if fits else lowered.problem.peak_bytes(each.choice or ())

    return min((priced.lowest(price), found) if found.choice else (priced.lowest(price),), key=rank)


def _limited(
    task: PipelineSearch, lowered: Lowered, posed: Posing, enough: float = 0.0
) -> Solution:
    """By the solver asked for, with the limit of the memory and the buffers of its messages."""

    def at(limit: float) -> Solution:
        return task.solve(posed(replace(lowered.problem, memory_limit_bytes=limit)), enough)

    limit = task.limit_bytes
    found = at(limit)
    for _ in range(BUFFER_ROUNDS):
        if not found.choice or fits_memory(lowered, found.choice):
            break
        if lowered.problem.peak_bytes(found.choice) > limit:
            break
        limit = task.limit_bytes - Group(lowered, found.choice).buffer_excess_bytes()
        found = at(limit)
    return found


@dataclass(slots=True)
class _Ladder:
    """Prices on memory for every piece, bisected."""

    task: PipelineSearch
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
                fits = peaks <= limit - Group(lowered, choice).buffer_excess_bytes()
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
        room = self.task.limit_bytes - Group(self.lowered, choice).buffer_excess_bytes()
        owner = [node.stage for node in self.lowered.nodes]
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
    return bool(choice) and Group(lowered, choice or ()).fits
