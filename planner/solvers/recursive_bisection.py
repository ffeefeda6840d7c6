"""Recursive bisection: the cluster is halved tier by tier, and each half decided at once.

At first nothing is split. Then one axis of the machine after the other is given to the operators,
the slowest links first, for what crosses them must be little; after the last one everything is
looked at again, one axis at a time. Each step is a small problem that is solved exactly
(`CoordinateSteps`), whatever the width of the graph. Design: docs/decisions/0013.

Source of the idea: the recursive partitioning of MindSpore's `recursive_programming` (Wang et al.,
"Supporting very large models using automatic dataflow graph partitioning", EuroSys 2019), which
cuts every operator in two again and again, but one operator after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from planner.problem import FloatArray, IntArray, NodeTable, Problem, tables_of
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.elimination import compile_program, run_program
from planner.solvers.elimination_order import make_plan
from planner.solvers.ledger import Ledger, Numbers, Prices, priced_cost
from planner.solvers.memory_prices import PriceBisection, join, solve_without_limit
from planner.solvers.message_passing import Choice, MessagePassing
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
BoolArray = NDArray[np.bool_]
Set = tuple[int, IntArray]
"""Candidates that a step leaves to a node, and a number that is equal for equal sets."""
SUITED = 32
"""Ways to use the axes that are left to a node because they suit its neighbours, however far."""
MOST = 96
"""Candidates of a node in one step, at most."""
LARGEST_BUCKET = 1 << 20
"""Entries of the largest table of an exact step."""
FEWEST = 24
"""Candidates of a node down to which they are made fewer so that a step can be exact. In a graph
wider still messages are passed instead."""
WIDE_PASSES = 2
"""Passes of messages in such a step."""


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
        meter, incumbent = Meter(budget), Incumbent.of(problem, progress)
        self.run(incumbent, meter)
        return incumbent.solution(truncated=meter.truncated)

    def run(self, incumbent: Incumbent, meter: Meter) -> None:
        """Find answers and a bound.

        Args:
            incumbent: receives them.
            meter: counts the work.
        """
        bisection = BisectionRelaxation(incumbent.ledger, meter)
        incumbent.note(f"the machine has {bisection.steps.levels} axes")
        profile = solve_without_limit(bisection, incumbent)
        if incumbent.overfull(profile) is not None:
            PriceBisection(bisection, incumbent, meter).run(profile)
            join(incumbent, tuple(bisection.recent))


class BisectionRelaxation:
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
        starts = [*(starts or [self._first_choice(numbers)]), passed.choice]
        starts.sort(key=lambda c: priced_cost(numbers, edges, c))
        choice = self._settled(numbers, starts[:JOINED], bound)
        self.recent.pop(choice, None)
        self.recent[choice] = None
        return Relaxed(choice, bound)

    def _first_choice(self, numbers: Numbers) -> Choice:
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


@dataclass(slots=True)
class Moves:
    """What the candidates of one node table do with the axes."""

    table: NodeTable
    depth: IntArray = field(init=False)
    """How many axes, from the slowest on, each candidate needs, shape (C,)."""
    _alike: IntArray = field(init=False)
    """Number of each candidate's row of axes, shape (C,); without axes all differ."""
    _uses: IntArray = field(init=False)
    """How often each candidate has each label, shape (C, labels)."""
    _near: dict[int, IntArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        axes, count = self.table.axes, len(self.table.time_s)
        self._alike = np.arange(count)
        if axes is None:
            axes = np.zeros((count, 0), dtype=np.intp)
        else:
            self._alike = np.unique(axes, axis=0, return_inverse=True)[1].reshape(count)
        used = axes != 0
        last = axes.shape[1] - np.argmax(used[:, ::-1], axis=1) if axes.shape[1] else 0
        self.depth = np.where(used.any(axis=1), last, 0)
        labels = np.unique(axes[used])
        self._uses = (axes[:, :, None] == labels).sum(axis=1)

    def near(self, candidate: int) -> IntArray:
        """Candidates that differ from one in at most one axis, wherever the axes stand.

        The target may tie their places to one another, as MindSpore's cut counts do, so it is
        counted how many are used for what.
        """
        if candidate not in self._near:
            change = self._uses - self._uses[candidate]
            moved = np.maximum(change, 0).sum(axis=1)
            freed = np.maximum(-change, 0).sum(axis=1)
            self._near[candidate] = np.flatnonzero(np.maximum(moved, freed) <= 1)
        return self._near[candidate]

    def is_suited(self, ranked: IntArray) -> BoolArray:
        """Of candidates, the best first, those that do one of the best few things with the axes."""
        _, first = np.unique(self._alike[ranked], return_index=True)
        best = self._alike[ranked[np.sort(first)[:SUITED]]]
        return np.isin(self._alike[ranked], best)

    def within(self, levels: int) -> IntArray:
        """Candidates that need no more than so many axes, or as few as any does."""
        return np.flatnonzero(self.depth <= max(levels, int(self.depth.min())))


class CoordinateSteps:
    """Makes steps in one problem, in any vectors and matrices.

    The candidates of a node are told apart by what they do with the axes of the machine
    (`NodeTable.axes`). A step leaves each node those that move one axis from the present one, and
    the few that would suit its neighbours best as these are; the small problem of all nodes at once
    is solved exactly. So a step never makes the answer worse.
    """

    def __init__(self, problem: Problem, meter: Meter) -> None:
        self._problem, self._meter = problem, meter
        self._moves = [Moves(table) for table in problem.node_tables]
        self.levels = max((int(m.depth.max()) for m in self._moves), default=0)
        """Axes that any candidate uses."""
        self._edges_of: list[list[tuple[int, int, bool]]] = [[] for _ in problem.node_table_of]
        for edge, (u, v) in enumerate(problem.edges):
            self._edges_of[u].append((edge, v, False))
            self._edges_of[v].append((edge, u, True))
        self._most = MOST
        self.is_wide = False
        """Whether the graph turned out too wide for exact steps."""

    def first(self, numbers: Numbers) -> Choice:
        """Without any axis, or with as few as can be, each node its cheapest candidate."""
        found: dict[tuple[int, int], int] = {}
        for table, vector in zip(self._problem.node_table_of, numbers.vector_of, strict=True):
            if (table, vector) not in found:
                keep = self._moves[table].within(0)
                found[table, vector] = int(keep[numbers.vectors[vector][keep].argmin()])
        pairs = zip(self._problem.node_table_of, numbers.vector_of, strict=True)
        return tuple(found[pair] for pair in pairs)

    def step(self, numbers: Numbers, present: Sequence[Choice], levels: int) -> Choice:
        """The best choice near some others that uses no more than so many axes.

        Each node is near any of those; the first one is never better than what is found.
        """
        allowed = self._allowed(numbers, present, levels)
        return self._best(numbers, allowed, present[0])

    def _allowed(self, numbers: Numbers, present: Sequence[Choice], levels: int) -> list[Set]:
        """For each node the number of its set of candidates, and the set, the best one first."""
        choice = present[0]
        numbered: dict[tuple[int, bytes], int] = {}
        known: dict[Hashable, Set] = {}
        out: list[Set] = []
        for node, (table, vector) in enumerate(
            zip(self._problem.node_table_of, numbers.vector_of, strict=True)
        ):
            around = [
                (numbers.matrix_of[edge], choice[other], turned)
                for edge, other, turned in self._edges_of[node]
            ]
            own = tuple(dict.fromkeys(each[node] for each in present))
            key = (table, vector, own, *around)
            if key not in known:
                score = _score(numbers, vector, around)
                keep = self._candidates(self._moves[table], score, own, levels)
                number = numbered.setdefault((table, keep.tobytes()), len(numbered))
                known[key] = number, keep
            out.append(known[key])
        return out

    def _candidates(
        self, moves: Moves, score: FloatArray, present: tuple[int, ...], levels: int
    ) -> IntArray:
        within = moves.within(levels)
        ranked = within[np.argsort(score[within], kind="stable")]
        near = np.isin(ranked, np.concatenate([moves.near(c) for c in present]))
        near |= moves.is_suited(ranked)
        return _with(ranked[near], present, self._most)

    def _best(self, numbers: Numbers, allowed: list[Set], present: Choice) -> Choice:
        """The best choice of these sets, or in a wide graph a good one, never a worse one."""
        edges = self._problem.edges
        while not self.is_wide:
            plan = make_plan(_sizes(allowed), edges, give_up_above=LARGEST_BUCKET)
            if plan.largest <= LARGEST_BUCKET:
                small = _restricted(numbers, edges, allowed)
                program = compile_program(plan, small.vector_of, small.matrix_of)
                self._meter.charge(program.work, plan.nodes)
                return _original(allowed, run_program(program, small).choice)
            self.is_wide = self._most <= FEWEST
            self._most = max(FEWEST, self._most // 2)
            allowed = _cut(allowed, present, self._most)
        small = _restricted(numbers, edges, allowed)
        found = MessagePassing(len(allowed), edges).run(small, WIDE_PASSES, self._meter)
        better = found.cost < priced_cost(numbers, edges, present)
        return _original(allowed, found.choice) if better else present


def _score(numbers: Numbers, vector: int, around: Sequence[tuple[int, int, bool]]) -> FloatArray:
    """Cost of each candidate of a node if its neighbours stay, shape (C,)."""
    total = numbers.vectors[vector]
    for matrix, other, turned in around:
        table = numbers.matrices[matrix]
        total = total + (table[other] if turned else table[:, other])
    return total


def _cut(allowed: Sequence[Set], choice: Choice, most: int) -> list[Set]:
    """The best of each set, with the present candidate; equal sets stay equal."""
    numbered: dict[tuple[int, int], Set] = {}
    out: list[Set] = []
    for (number, keep), present in zip(allowed, choice, strict=True):
        key = (number, present)
        if key not in numbered:
            numbered[key] = len(numbered), _with(keep, (present,), most)
        out.append(numbered[key])
    return out


def _original(allowed: Sequence[Set], choice: Choice) -> Choice:
    return tuple(int(keep[c]) for (_, keep), c in zip(allowed, choice, strict=True))


def _sizes(allowed: Sequence[Set]) -> tuple[int, ...]:
    return tuple(len(keep) for _, keep in allowed)


def _with(ranked: IntArray, present: tuple[int, ...], most: int) -> IntArray:
    """The first of some candidates, at most so many, the present ones among them."""
    keep = ranked[:most]
    missing = [c for c in present if c not in keep]
    return np.concatenate([keep[: most - len(missing)], missing]) if missing else keep


def _restricted(
    numbers: Numbers, edges: Sequence[tuple[int, int]], allowed: Sequence[Set]
) -> Numbers:
    """Vectors and matrices of the candidates that are left, each distinct one once."""
    sets = [number for number, _ in allowed]
    keeps = [keep for _, keep in allowed]

    def vector(node: int) -> FloatArray:
        return numbers.vectors[numbers.vector_of[node]][keeps[node]]

    def matrix(edge: int) -> FloatArray:
        u, v = edges[edge]
        return numbers.matrices[numbers.matrix_of[edge]][np.ix_(keeps[u], keeps[v])]

    vectors, vector_of = tables_of(zip(numbers.vector_of, sets, strict=True), vector)
    between = zip(numbers.matrix_of, edges, strict=True)
    matrices, matrix_of = tables_of(((m, sets[u], sets[v]) for m, (u, v) in between), matrix)
    return Numbers(vectors, matrices, vector_of, matrix_of)
