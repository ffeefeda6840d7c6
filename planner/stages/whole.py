"""A shape of a step solved whole: the layouts of all its stages, within the memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.evidence import Evidence
from planner.lowered import Lowered
from planner.lowering import lower
from planner.solvers import Solution
from planner.stages.menu import Shape, in_flight
from planner.stages.pieces import Span, pieces_of
from planner.stages.prices import memory_unit, piece_costs, priced_memory, setting_of
from planner.stages.record import Solved, sends_s
from planner.stages.shape_prices import PRICES
from planner.stages.task import Task

WHOLE_STEPS = 8
"""Prices on memory tried where the fastest layouts do not fit."""
SMALL = 300
"""Decisions up to which a shape is solved within its memory by the solver asked for."""


def solved(task: Task, shape: Shape, ends: Sequence[int]) -> Solved:
    """The best layouts of a shape that is cut so, within the memory if they can be."""
    micro = task.true_micro(shape.micro_batch)
    cluster, mesh = task.stage_machine(shape)
    positions = [micro.segments.positions[end] for end in (0, *ends)]
    spans = tuple(itertools.pairwise(positions))
    pieces = pieces_of(micro.liveness, micro.by_position, [Span(a, b) for a, b in spans])
    setting = task.setting(micro, cluster, mesh, shape.micro_batches)
    setting = setting_of(replace(setting, in_flight=in_flight(shape)), pieces)
    lowered = lower(pieces.liveness, setting)
    found = task.solve(replace(lowered.problem, memory_limit_bytes=math.inf))
    if not _fits(lowered, found.choice):
        lowered = lower(pieces.liveness, replace(setting, recompute=True))
        found = _within_memory(task, lowered, shape, found)
    choice = found.choice or ()
    costs = piece_costs(lowered, choice, shape.stages)
    cuts = tuple(micro.by_position[start] for start, _ in spans[1:])
    times = [float(t) for t in costs.time_s]
    for stage, cut in enumerate(cuts, start=1):
        times[stage] += sum(sends_s(task.cluster, lowered, stage, cut))
    return Solved(
        shape, micro.graph, spans, cuts, task.cluster, lowered, choice, tuple(times),
        _fits(lowered, choice), found.truncated,
    )  # fmt: skip


def _within_memory(task: Task, lowered: Lowered, shape: Shape, free: Solution) -> Solution:
    """Small problems exactly, large ones by a price on the memory of every stage."""
    if len(lowered.nodes) <= SMALL:
        return task.solve(replace(lowered.problem, memory_limit_bytes=task.limit_bytes))
    unit = free.cost_s / memory_unit(lowered)
    stages = shape.stages
    low, high = np.full(stages, PRICES[0]), np.full(stages, PRICES[1])
    best: tuple[int, ...] | None = None
    least_peak, least = math.inf, free
    prices = high.copy()
    for step in range(WHOLE_STEPS):
        problem = priced_memory(lowered, tuple((unit * prices).tolist()))
        choice = problem.original(task.solve(problem.problem).choice or ())
        profile = lowered.problem.memory_profile(choice)
        ranges = lowered.liveness.pieces
        peaks = np.array([profile[2 * a : 2 * b].max() for a, b in ranges])
        fits = peaks <= task.limit_bytes - Evidence(lowered, choice).buffer_excess_bytes()
        if fits.all() and (
            best is None or lowered.problem.cost_s(choice) < lowered.problem.cost_s(best)
        ):
            best = choice
        if peaks.max() < least_peak:
            least_peak, least = float(peaks.max()), replace(free, choice=choice)
        if step:
            high, low = np.where(fits, prices, high), np.where(fits, low, prices)
        prices = np.sqrt(low * high)
    if best is None:
        return least
    # The prices that fitted in each stage fit in all: stages share nothing.
    problem = priced_memory(lowered, tuple((unit * high).tolist()))
    choice = problem.original(task.solve(problem.problem).choice or ())
    if _fits(lowered, choice):
        costs = [lowered.problem.cost_s(c) for c in (choice, best)]
        best = choice if costs[0] < costs[1] else best
    return replace(free, choice=best, cost_s=lowered.problem.cost_s(best))


def _fits(lowered: Lowered, choice: Sequence[int] | None) -> bool:
    if not choice:
        return False
    excess = Evidence(lowered, choice).buffer_excess_bytes()
    return lowered.problem.fits(lowered.problem.peak_bytes(choice) + excess)
