"""Wide graphs: fix some nodes, solve the rest exactly, then fix others.

A tensor that feeds every layer makes elimination impossible, yet once its layout is given the rest
is narrow. Each view of the graph fixes another set of nodes at their present choice and is solved
exactly, so that no step makes the answer worse. Copies of the fixed nodes give the bound and say
what to fix them at; where even those leave the graph too wide, mini-buckets do.
"""

from __future__ import annotations

import math

from planner.solvers.buckets import Plan
from planner.solvers.copies import hub_copies
from planner.solvers.elimination import Numbers, compile_program, run_program
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.progress import PROVEN_GAP, Meter
from planner.solvers.relaxation import Relaxed
from planner.solvers.views import (
    LARGEST_BUCKET,
    LARGEST_WORK,
    View,
    bound_plan,
    conditioned,
    first_view,
    view_with_free,
)

PASSES = 60
"""Eliminations with copies where the bound matters most."""
LIGHT_PASSES = 5
"""The same under each of many prices, where the last charges serve as a start."""
LIGHT_SHARE = 0.02
"""Share of the work left that they may take."""
LIGHT_WORK = 1 << 25
"""Entries that one elimination with copies, or with mini-buckets, may visit."""


class ConditionedRelaxation:
    """Answers by views, bound by copies or mini-buckets."""

    def __init__(self, ledger: Ledger, meter: Meter, largest_bucket: int = LARGEST_BUCKET) -> None:
        self._ledger = ledger
        self._meter = meter
        self._largest_bucket = largest_bucket
        self._first, self._freed = first_view(ledger, largest_bucket)
        self._other_views: dict[int, View] = {}
        self.hubs = tuple(sorted(self._first.fixed))
        """Nodes that the first view fixes."""
        self._split = hub_copies(
            ledger, meter, self.hubs, largest_bucket, (LIGHT_WORK, LARGEST_WORK)
        )
        self._mini_buckets: Plan | None = None
        self._recent: dict[tuple[int, ...], None] = {}

    def solve(self, prices: Prices | None = None) -> Relaxed:
        """Solve, thoroughly without prices and with less work under each of many prices."""
        if prices is None:
            return self.solve_thoroughly()
        numbers = self._ledger.numbers(prices)
        attempts = _Attempts(self, numbers)
        for candidates in list(self._recent)[-1:]:
            attempts.cost(candidates)
        bound = self._bound(numbers, self._light_passes(), attempts)
        self.start_from(attempts.choice)
        return Relaxed(attempts.choice, min(bound, attempts.value))

    def start_from(self, choice: tuple[int, ...]) -> None:
        """Try the candidates of the hubs in a choice first from now on."""
        candidates = tuple(choice[hub] for hub in self.hubs)
        self._recent.pop(candidates, None)
        self._recent[candidates] = None

    def at_recent_hubs(self, count: int) -> list[FixedHubs]:
        """The problem with its hubs fixed at what they were last found to be best at."""
        latest = list(self._recent)[-count:]
        return [FixedHubs(self, self._ledger, candidates) for candidates in reversed(latest)]

    def solve_thoroughly(self, prices: Prices | None = None) -> Relaxed:
        """Solve with many passes for the bound, then improve the answer view by view."""
        numbers = self._ledger.numbers(prices)
        attempts = _Attempts(self, numbers)
        bound = self._bound(numbers, PASSES, attempts)
        if attempts.value - bound > PROVEN_GAP * abs(attempts.value):
            bound = max(bound, self._mini_bucket_bound(numbers, attempts))
        choice, value = attempts.choice, attempts.value
        if value - bound > PROVEN_GAP * abs(value):
            choice, value = self._improved(numbers, choice, value)
        self.start_from(choice)
        return Relaxed(choice, min(bound, value))

    def _bound(self, numbers: Numbers, passes: int, attempts: _Attempts) -> float:
        if self._split is None:
            return self._mini_bucket_bound(numbers, attempts)
        return self._split.run(numbers, passes, attempts.cost)

    def _mini_bucket_bound(self, numbers: Numbers, attempts: _Attempts) -> float:
        if self._mini_buckets is None:
            self._mini_buckets = bound_plan(self._ledger, self._largest_bucket, LIGHT_WORK)
        plan = self._mini_buckets
        program = compile_program(plan, numbers.vector_of, numbers.matrix_of)
        self._meter.charge(2 * program.work, plan.nodes)
        result = run_program(program, numbers)
        attempts.cost(tuple(result.choice[hub] for hub in self.hubs))
        return result.value

    def _light_passes(self) -> int:
        if self._split is None:
            return 1
        affordable = LIGHT_SHARE * self._meter.left / max(1, self._split.work)
        return max(1, min(LIGHT_PASSES, int(affordable)))

    def at_hubs(
        self, numbers: Numbers, candidates: tuple[int, ...]
    ) -> tuple[tuple[int, ...], float]:
        """Best choice with the hubs at the given candidates, and its priced cost."""
        given = [0] * len(self._ledger.problem.node_table_of)
        for hub, candidate in zip(self.hubs, candidates, strict=True):
            given[hub] = candidate
        return self._pass(self._first, numbers, tuple(given))

    def _improved(
        self, numbers: Numbers, choice: tuple[int, ...], value: float
    ) -> tuple[tuple[int, ...], float]:
        """Go round the views until none of them finds a cheaper choice."""
        unchanged, turn = 1, 0
        count = 1 + len(self._freed)
        while unchanged < count and not self._meter.is_spent:
            turn += 1
            found, cost = self._pass(self._view(turn % count), numbers, choice)
            unchanged += 1
            if cost < value - 1e-12 * abs(value):
                choice, value, unchanged = found, cost, 1
        return choice, value

    def _view(self, number: int) -> View:
        """The first one, or one in which a node of the first is free; made when it is needed."""
        if number and number not in self._other_views:
            hub = self._freed[number - 1]
            self._other_views[number] = view_with_free(
                self._ledger, self._first, hub, self._largest_bucket
            )
        return self._other_views[number] if number else self._first

    def _pass(
        self, view: View, numbers: Numbers, given: tuple[int, ...]
    ) -> tuple[tuple[int, ...], float]:
        rest, constant = conditioned(numbers, view, self._ledger.problem.edges, given)
        program = compile_program(view.plan, rest.vector_of, rest.matrix_of)
        self._meter.charge(program.work, view.plan.nodes)
        result = run_program(program, rest)
        choice = tuple(
            given[node] if node in view.fixed else candidate
            for node, candidate in enumerate(result.choice)
        )
        return choice, constant + result.value


class FixedHubs:
    """The problem with its hubs fixed: solved exactly, but its bound says nothing of the whole."""

    def __init__(
        self, relaxation: ConditionedRelaxation, ledger: Ledger, candidates: tuple[int, ...]
    ) -> None:
        self._relaxation = relaxation
        self._ledger = ledger
        self._candidates = candidates

    def solve(self, prices: Prices | None = None) -> Relaxed:
        numbers = self._ledger.numbers(prices)
        choice, _ = self._relaxation.at_hubs(numbers, self._candidates)
        return Relaxed(choice, -math.inf)


class _Attempts:
    """The best choice so far under the same prices; every vote of the hubs is tried once."""

    def __init__(self, relaxation: ConditionedRelaxation, numbers: Numbers) -> None:
        self._relaxation = relaxation
        self._numbers = numbers
        self._seen: set[tuple[int, ...]] = set()
        self.choice: tuple[int, ...] = ()
        self.value = math.inf

    def cost(self, votes: tuple[int, ...]) -> float:
        """Try the hubs at the given candidates; the least priced cost so far."""
        if votes not in self._seen:
            self._seen.add(votes)
            choice, value = self._relaxation.at_hubs(self._numbers, votes)
            if value < self.value:
                self.choice, self.value = choice, value
        return self.value
