"""Wide graphs: fix some nodes, solve the rest exactly, then fix others.

A tensor that feeds every layer makes elimination impossible, yet once its layout is given the rest
is narrow. Each view of the graph fixes another set of nodes at their present choice and is solved
exactly, so that no step makes the answer worse. Copies of the fixed nodes give the bound and say
what to fix them at; where even those leave the graph too wide, mini-buckets do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.problem import FloatArray
from planner.solvers.contract import PROVEN_GAP, Meter
from planner.solvers.elimination import Program, compile_program, run_program
from planner.solvers.elimination_order import Plan, conditioning_set, make_plan
from planner.solvers.hub_copies import hub_copies
from planner.solvers.ledger import Ledger, Numbers, Prices
from planner.solvers.relaxation import Relaxed

PASSES = 60
"""Eliminations with copies where the bound matters most."""
LIGHT_PASSES = 5
"""The same under each of many prices, where the last charges serve as a start."""
LIGHT_SHARE = 0.02
"""Share of the work left that they may take."""
LIGHT_WORK = 1 << 25
"""Entries that one elimination with copies, or with mini-buckets, may visit."""
LARGEST_BUCKET = 1 << 25
"""Entries of a bucket of the views: 2^20 to 2^22 entries in the message that it leaves."""
LARGEST_WORK = 1 << 27
"""Entries that one pass over a view may visit: about 0.2 s."""
FREE_WORK = 1 << 29
"""The same for views other than the first, which are used less often."""
SMALLEST_BUCKET = 1 << 12
"""A bucket is not made smaller than this, whatever the work."""
MAX_PRUNED = 12
"""Fixed nodes that are tried one by one whether they need to be fixed."""
MAX_VIEWS = 6
"""Views that fix other nodes than the first one does."""


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


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A set of nodes to fix, and the order in which the others are eliminated."""

    fixed: frozenset[int]
    plan: Plan
    edges: tuple[int, ...]
    """Edges with a fixed end."""


def make_view(ledger: Ledger, fixed: frozenset[int]) -> View:
    """Plan the elimination of all other nodes."""
    problem = ledger.problem
    touching = tuple(edge for edge, (u, v) in enumerate(problem.edges) if u in fixed or v in fixed)
    return View(fixed, make_plan(problem.sizes, problem.edges, fixed), touching)


def conditioned(
    numbers: Numbers, view: View, edges: Sequence[tuple[int, int]], given: Sequence[int]
) -> tuple[Numbers, float]:
    """Turn the edges of fixed nodes into vectors of their neighbours.

    Args:
        numbers: vectors and matrices of all nodes and edges.
        view: what is fixed.
        edges: ends of each edge.
        given: choice of each node; only that of fixed nodes is used.

    Returns:
        Numbers of the rest, and the cost of and between the fixed nodes.
    """
    constants = [float(numbers.vectors[numbers.vector_of[n]][given[n]]) for n in view.fixed]
    terms: dict[int, list[tuple[int, int, int]]] = {}
    for edge in view.edges:
        (u, v), matrix = edges[edge], numbers.matrix_of[edge]
        if u in view.fixed and v in view.fixed:
            constants.append(float(numbers.matrices[matrix][given[u], given[v]]))
        elif u in view.fixed:
            terms.setdefault(v, []).append((matrix, 0, given[u]))
        else:
            terms.setdefault(u, []).append((matrix, 1, given[v]))
    vectors, vector_of = _with_terms(numbers, terms)
    return Numbers(vectors, numbers.matrices, vector_of, numbers.matrix_of), math.fsum(constants)


def _with_terms(
    numbers: Numbers, terms: Mapping[int, Sequence[tuple[int, int, int]]]
) -> tuple[list[FloatArray], list[int]]:
    vectors, vector_of = list(numbers.vectors), list(numbers.vector_of)
    known: dict[tuple[object, ...], int] = {}
    for node, added in terms.items():
        key = (vector_of[node], *added)
        if key not in known:
            known[key] = len(vectors)
            total = vectors[vector_of[node]]
            for matrix, axis, index in added:
                total = total + numbers.matrices[matrix].take(index, axis=axis)
            vectors.append(total)
        vector_of[node] = known[key]
    return vectors, vector_of


def bound_plan(ledger: Ledger, bucket: int, work: int) -> Plan:
    """The largest mini-buckets, up to `bucket` entries, that the work allows."""
    problem = ledger.problem
    while True:
        plan = make_plan(problem.sizes, problem.edges, largest_table=bucket)
        program = compile_program(plan, problem.node_table_of, problem.edge_table_of)
        if program.work <= work or bucket <= SMALLEST_BUCKET:
            return plan
        bucket //= 4


def first_view(ledger: Ledger, largest_bucket: int) -> tuple[View, tuple[int, ...]]:
    """A view, and which of the nodes that it fixes are to be freed in another one each."""
    problem = ledger.problem
    bucket = largest_bucket
    while True:
        hubs = conditioning_set(problem.sizes, problem.edges, bucket)
        first = make_view(ledger, _needed(ledger, hubs, bucket))
        if bucket <= SMALLEST_BUCKET or _program(ledger, first).work <= LARGEST_WORK:
            break
        bucket //= 4
    others = [hub for hub in hubs if hub in first.fixed][:MAX_VIEWS]
    return first, () if len(first.fixed) > MAX_PRUNED else tuple(others)


def view_with_free(ledger: Ledger, first: View, hub: int, largest_bucket: int) -> View:
    """Free one node that the first view fixes; fix others in its place only if it must be."""
    problem, bucket = ledger.problem, largest_bucket
    view = make_view(ledger, first.fixed - {hub})
    while bucket > SMALLEST_BUCKET and (
        view.plan.largest > bucket or _program(ledger, view).work > FREE_WORK
    ):
        others = conditioning_set(problem.sizes, problem.edges, bucket, frozenset({hub}))
        view = make_view(ledger, frozenset(others))
        bucket //= 4
    return view


def _needed(ledger: Ledger, hubs: Sequence[int], bucket: int) -> frozenset[int]:
    """Release the nodes that were fixed early and turn out not to matter."""
    problem, fixed = ledger.problem, frozenset(hubs)
    if len(hubs) > MAX_PRUNED:
        return fixed
    for hub in reversed(hubs):
        fewer = fixed - {hub}
        plan = make_plan(problem.sizes, problem.edges, fewer, give_up_above=bucket)
        if plan.largest <= bucket:
            fixed = fewer
    return fixed


def _program(ledger: Ledger, view: View) -> Program:
    """What one pass does, for some choice of the fixed nodes."""
    numbers = ledger.numbers()
    given = [0] * len(ledger.problem.node_table_of)
    rest, _ = conditioned(numbers, view, ledger.problem.edges, given)
    return compile_program(view.plan, rest.vector_of, rest.matrix_of)
