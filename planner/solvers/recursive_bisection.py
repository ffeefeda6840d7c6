"""Recursive bisection: the cluster is halved tier by tier, and each half decided at once.

At first nothing is split. Then one axis of the machine after the other is given to the operators,
the slowest links first, for what crosses them must be little; after the last one everything is
looked at again, one axis at a time. Each step is a small problem that is solved exactly
(`coordinate_steps`), whatever the width of the graph. Design: docs/decisions/0013.

Source of the idea: the recursive partitioning of MindSpore's `recursive_programming` (Wang et al.,
"Supporting very large models using automatic dataflow graph partitioning", EuroSys 2019), which
cuts every operator in two again and again, but one operator after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from planner.problem import Problem
from planner.solvers.constrained import solve_without_limit
from planner.solvers.contract import Budget, Progress, Solution
from planner.solvers.coordinate_steps import CoordinateSteps
from planner.solvers.elimination import Numbers
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.message_passing import Choice, MessagePassing, priced_cost
from planner.solvers.price_ladder import climb, join
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import Relaxed

SETTLING_STEPS = 12
"""Steps after the last axis, at most; the third or fourth mostly finds nothing any more."""
FIRST_PASSES = 6
"""Passes of messages for the bound and for a second opinion, without prices."""
LATER_PASSES = 1
"""The same under each price, where the messages of the price before are a start."""
GAIN = 1e-4
"""Relative gain below which a step is the last."""
JOINED = 2
"""The best of these answers from which a step starts at once."""
REMEMBERED = 4
"""Answers from which the next prices start, whichever is best under them."""


class RecursiveBisection:
    """The instant answer at any width, with a bound.

    Without a limit that binds it is often optimal. Within a limit the steps are made under prices
    on memory; then an answer that needs too much and one that fits are joined, one for the earlier
    and the other for the later layers. Without the hint `NodeTable.axes` all candidates are one
    axis apart, and a step regards those that suit their neighbours best.
    """

    name: ClassVar[str] = "recursive_bisection"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `optimal`, `bounded`, `infeasible` or, if nothing fits, `none`."""
        meter = Meter(budget)
        limits = np.full(problem.time_points, float(problem.memory_limit_bytes))
        incumbent = Incumbent(Ledger(problem), limits, progress)
        self.run(incumbent, meter)
        return incumbent.solution(truncated=meter.truncated)

    def run(self, incumbent: Incumbent, meter: Meter) -> None:
        """Find answers and a bound.

        Args:
            incumbent: receives them.
            meter: counts the work.
        """
        halving = Halving(incumbent.ledger, meter)
        incumbent.note(f"the machine has {halving.steps.levels} axes")
        profile = solve_without_limit(halving, incumbent)
        if incumbent.overfull(profile) is not None:
            climb(halving, incumbent, meter, profile)
            join(incumbent, tuple(halving.recent))


class Halving:
    """Answers under given prices: from nothing at first, later from the answers before."""

    def __init__(self, ledger: Ledger, meter: Meter) -> None:
        self._ledger, self._meter = ledger, meter
        problem = ledger.problem
        self._messages = MessagePassing(len(problem.sizes), problem.edges)
        self.steps = CoordinateSteps(problem, meter)
        self.recent: dict[Choice, None] = {}
        """Answers, the latest last."""

    def solve(self, prices: Prices | None = None) -> Relaxed:
        """An answer under prices, and a bound on the priced cost."""
        numbers, edges = self._ledger.numbers(prices), self._ledger.problem.edges
        starts = list(self.recent)[-REMEMBERED:]
        passes = LATER_PASSES if starts else FIRST_PASSES
        passed = self._messages.run(numbers, passes, self._meter)
        bound = max(passed.bound, self._messages.bound(numbers)) if starts else passed.bound
        starts = [*(starts or [self._halved(numbers)]), passed.choice]
        starts.sort(key=lambda c: priced_cost(numbers, edges, c))
        choice = self._settled(numbers, starts[:JOINED], bound)
        self.recent.pop(choice, None)
        self.recent[choice] = None
        return Relaxed(choice, bound)

    def _halved(self, numbers: Numbers) -> Choice:
        """One axis after the other, the slowest first."""
        choice = self.steps.first(numbers)
        for levels in range(1, self.steps.levels + 1):
            if self._meter.is_spent:
                break
            choice = self.steps.step(numbers, [choice], levels)
        return choice

    def _settled(self, numbers: Numbers, starts: Sequence[Choice], bound: float) -> Choice:
        """Join some answers, then go on with all axes until nothing is gained."""
        edges, present = self._ledger.problem.edges, list(starts)
        cost = priced_cost(numbers, edges, present[0])
        for _ in range(SETTLING_STEPS):
            if self._meter.is_spent or cost - bound <= GAIN * abs(cost):
                break
            present = [self.steps.step(numbers, present, self.steps.levels)]
            before, cost = cost, priced_cost(numbers, edges, present[0])
            if before - cost <= GAIN * abs(cost):
                break
        return present[0]
