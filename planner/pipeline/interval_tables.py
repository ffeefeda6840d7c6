"""Intervals of a network as pieces on one mesh, at one size of micro-batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.constraints.soft import with_charges
from planner.lowering.lowered import Lowered, narrowed
from planner.lowering.pieces import Pieces
from planner.pipeline.objectives import follows_cost, least_cost
from planner.pipeline.prices import (
    PRICES,
    IntervalCosts,
    IntervalPricer,
    extrapolated,
    least_updates_s,
    memory_unit,
    priced_memory,
)
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.problem import FloatArray, Problem
from planner.solvers.bounding_sums import bounding_sums

PRICE_STEPS = 5
"""Prices tried where the fastest layouts of a shape do not fit."""

CHANGE_PRICES = (0.5, 1.0, 2.0)
"""Prices on changes of an older plan that bounds are sought with, by the mean time of an operator
in a step."""


class IntervalTables:
    """What intervals cost; each choice is worked out when it is first asked for."""

    def __init__(
        self, task: PipelineSearch, shapes: Sequence[Configuration], devices: int = 0
    ) -> None:
        self.task, self.shape = task, shapes[0]
        self.micro = task.micro(self.shape.micro_batch)
        self.cluster, self.mesh = task.stage_machine(self.shape, devices)
        self.pricer = IntervalPricer(self.micro.segments, [s.pieces for s in shapes])
        self.has_blocks = bool(self.micro.segments.blocks)
        self.work = 0
        self.slack_s = 0.0
        self.time_s = 0.0
        self._unit = 0.0
        self._free: tuple[int, ...] = ()
        """The choice of `free`, once it is known."""
        self.weight = 1 + (self.shape.micro_batches - 1) / self.shape.stages
        """Of the time of a micro-batch in an even pipeline: what is paid once in a step counts
        there by its part of that."""
        self.follows = follows_cost(task)
        self.is_charged = False
        """Whether something is paid for beside time."""
        self.overlaps = task.request.overlap == "auto"
        self._lowered: dict[tuple[bool, bool], Lowered] = {}
        self._plain: dict[tuple[bool, bool], Lowered] = {}
        self._known: dict[tuple[bool, float], IntervalCosts] = {}
        self._pieces: dict[bool, Pieces] = {}
        self._always = task.request.recompute == "full"

    def free(self) -> IntervalCosts:
        """The fastest, memory left aside."""
        lowered = self._at(again=self._always, recompute=False)
        self._free = self._fastest(lowered.problem)
        return self.pricer.costs(lowered, self._free)

    def least(self) -> IntervalCosts:
        """The same where nothing else is paid for either."""
        return self._least(self._made(again=self._always, recompute=False))

    def without_and_with_once(self) -> tuple[IntervalCosts, IntervalCosts]:
        """The least that intervals take without what happens once in a step, and with all of it;
        the latter is not worked out for a large network.
        """
        shared = self._made(again=self._always, recompute=False)
        steady = self._steady()
        least = self._least(steady)
        if not self.task.is_small:
            return least, least
        low, high = (own.problem.with_all_hidden() for own in (steady, shared))
        whole = extrapolated(low, high, float(self.shape.micro_batches))
        return least, self._solved(replace(steady, problem=whole))

    def updates_s(self) -> FloatArray:
        """Seconds in which intervals update their parameters at least, once in a step."""
        shared = self._made(again=self._always, recompute=False)
        return self.pricer.table(least_updates_s(shared, len(self.pricer.spans)))

    def under_change_prices(self) -> Iterator[tuple[float, IntervalCosts]]:
        """The least with a price on operators that an older plan split otherwise, and these prices
        in seconds of a step.
        """
        lowered = self._made(again=self._always, recompute=False)
        found = self.task.soft.split_anew(lowered) if self.micro.told_apart else {}
        unit_s = self.weight * self.time_s / len(lowered.liveness.graph.ops)
        for share in CHANGE_PRICES if found else ():
            price_s = share * unit_s
            shares = {node: own * (price_s / self.weight) for node, own in found.items()}
            offered = replace(lowered, problem=with_charges(lowered.problem, shares))
            yield price_s, self._least(offered)

    def _least(self, lowered: Lowered) -> IntervalCosts:
        """What intervals take at least: the most of some sums that bound them."""
        known = [self._free] if self._free and not self.follows else []
        found: IntervalCosts | None = None
        for sums, choice in bounding_sums(lowered.problem, self._fastest, known):
            own = self.pricer.costs(replace(lowered, problem=sums), choice)
            if found is not None:
                own = replace(found, time_s=np.maximum(found.time_s, own.time_s))
            found = own
        if found is None:
            raise RuntimeError("a problem has a sum that bounds it")
        return found

    def _solved(self, lowered: Lowered) -> IntervalCosts:
        return self.pricer.costs(lowered, self._fastest(lowered.problem))

    def _fastest(self, problem: Problem) -> tuple[int, ...]:
        """The fastest layouts, memory left aside."""
        solution = self.task.solve(replace(problem, memory_limit_bytes=math.inf))
        if problem.overlap is None:
            self.slack_s = max(solution.cost_s - solution.bound_s, self.slack_s)
        self.time_s = self.time_s or solution.cost_s
        return solution.choice or ()

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

    def at_prices(self, count: int) -> Iterator[tuple[float, IntervalCosts]]:
        """Under so many prices on memory, in seconds per byte, that cover all there are."""
        for price in np.geomspace(*PRICES, count).tolist():
            costs = self._costs(price, again=self._always)
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
            self._lowered[key] = self._paid_for(self._made(again=again, recompute=recompute))
        return self._lowered[key]

    def _paid_for(self, lowered: Lowered) -> Lowered:
        """With what soft pins cost, in layouts that follow another cost if they must."""
        if self.follows:
            return narrowed(lowered, least_cost(self.task, lowered))
        charges = self.task.soft.charges(lowered) if self.micro.told_apart else {}
        self.is_charged = bool(charges)
        if not charges:
            return lowered
        shares = {node: own / self.weight for node, own in charges.items()}
        return replace(lowered, problem=with_charges(lowered.problem, shares))

    def _made(self, *, again: bool, recompute: bool) -> Lowered:
        key = (again, recompute)
        if key not in self._plain:
            self._plain[key] = self._lower(again=again, recompute=recompute)
            self.work += sum(self._plain[key].problem.sizes)
        return self._plain[key]

    def _steady(self) -> Lowered:
        return self._lower(again=self._always, recompute=False, steady=True)

    def _lower(self, *, again: bool, recompute: bool, steady: bool = False) -> Lowered:
        if again not in self._pieces:
            micro = self.micro
            self._pieces[again] = micro.pieces(self.pricer.priced_spans(again=again))
        known = [own for key, own in self._plain.items() if key[0] == again]
        kept = min(2, self.shape.micro_batches)
        setting = replace(
            self.task.setting(self.micro, self.cluster, self.mesh, self.shape.micro_batches),
            recompute=recompute,
            steady=steady,
            in_flight=(kept,) * len(self.pricer.spans),
        )
        basis = known[0].basis if known else None
        return self.task.lowered(self._pieces[again], setting, self.micro, basis)
