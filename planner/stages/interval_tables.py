"""Intervals of a network as pieces on one mesh, at one size of micro-batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from planner.lowered import Lowered
from planner.stages.menu import Shape
from planner.stages.prices import (
    PRICES,
    IntervalCosts,
    IntervalPricer,
    memory_unit,
    priced_memory,
)
from planner.stages.task import Task

PRICE_STEPS = 5
"""Prices tried where the fastest layouts of a shape do not fit."""


class IntervalTables:
    """What intervals cost; each choice is worked out when it is first asked for."""

    def __init__(self, task: Task, shapes: Sequence[Shape]) -> None:
        self.task, self.shape = task, shapes[0]
        self.micro = task.micro(self.shape.micro_batch)
        self.cluster, self.mesh = task.stage_machine(self.shape)
        self.pricer = IntervalPricer(self.micro.segments, [s.pieces for s in shapes])
        self.has_blocks = bool(self.micro.segments.blocks)
        self.work = 0
        self.slack_s = 0.0
        self.time_s = 0.0
        self._unit = 0.0
        self._lowered: dict[tuple[bool, bool], Lowered] = {}
        self._known: dict[tuple[bool, float], IntervalCosts] = {}
        self._always = task.request.recompute == "full"

    def free(self) -> IntervalCosts:
        """The fastest, memory left aside."""
        lowered = self._at(again=self._always, recompute=False)
        solution = self.task.solve(replace(lowered.problem, memory_limit_bytes=math.inf))
        self.slack_s = max(solution.cost_s - solution.bound_s, 0.0)
        self.time_s = solution.cost_s
        return self.pricer.costs(lowered, solution.choice or ())

    def priced(
        self, fits: Callable[[IntervalCosts], bool]
    ) -> Iterator[tuple[float, IntervalCosts]]:
        """Under prices on memory, in seconds per byte, around the least at which something fits.

        What was worked out for others will do.
        """
        known = [(price, costs) for (again, price), costs in self._known.items()
                 if again == self._always and price]  # fmt: skip
        if known:
            yield from ((self._unit * price, costs) for price, costs in known)
            return
        low, high = PRICES
        for _ in range(PRICE_STEPS):
            price = math.sqrt(low * high)
            costs = self._costs(price, again=self._always)
            low, high = (low, price) if fits(costs) else (price, high)
            yield self._unit * price, costs

    def again(self) -> tuple[IntervalCosts, ...]:
        """With all blocks computed again, without and with a price on memory."""
        return self._costs(0.0, again=True), self._costs(math.sqrt(math.prod(PRICES)), again=True)

    def _costs(self, price: float, *, again: bool) -> IntervalCosts:
        key = (again, price)
        if key not in self._known:
            selective = self.task.request.recompute in {"auto", "selective"} and not again
            lowered = self._at(again=again, recompute=selective)
            self._unit = self._unit or self.time_s / memory_unit(lowered)
            problem = priced_memory(lowered, (self._unit * price,) * len(self.pricer.spans))
            choice = problem.original(self.task.solve(problem.problem).choice or ())
            self._known[key] = self.pricer.costs(lowered, choice)
        return self._known[key]

    def _at(self, *, again: bool, recompute: bool) -> Lowered:
        key = (again, recompute)
        if key not in self._lowered:
            pieces = self.pricer.pieces(self.micro.liveness, self.micro.by_position, again=again)
            kept = min(2, self.shape.micro_batches)
            setting = replace(
                self.task.setting(self.micro, self.cluster, self.mesh, self.shape.micro_batches),
                recompute=recompute,
                in_flight=(kept,) * len(self.pricer.spans),
            )
            self._lowered[key] = self.task.lowered(pieces, setting)
            self.work += sum(self._lowered[key].problem.sizes)
        return self._lowered[key]
