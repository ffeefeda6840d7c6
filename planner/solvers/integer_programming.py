"""Integer programming with CP-SAT: for small or pinned problems, and as proof.

One 0/1 variable per candidate and one per pair of candidates of an edge, tied by sums over rows and
columns. Memory rows are added only for the time points that an answer overfills. Times become
integers by rounding down, at a scale where the distance between the known answer and the sum of all
minima is 2^44; hence the bound of the integers is a bound of the problem, and a proof holds up to
one part in 2^44 per node and edge. The reported cost is always that of the problem itself.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from planner.problem import Problem
from planner.reduction.network import BoolArray, highest_cost, runs
from planner.reduction.problem_network import network_of
from planner.reduction.state import Narrowed, without
from planner.solvers.contract import Budget, Incumbent, Progress, Solution
from planner.solvers.programme import Programme

MAX_PAIRS = 300_000
"""Pairs of candidates that can matter; more are left to the warm start (a minute of building)."""
DETERMINISTIC_SECONDS = 10.0
"""CP-SAT's own unit of work per unit of effort; about a second each."""
MAX_ROUNDS = 50
"""Times that memory rows are added."""
ROWS_PER_ROUND = 4
"""Overfull time points that get a row at once."""
SCALE = 1 << 44
"""Integer that stands for the distance between the known cost and the sum of all minima."""
MEMORY_SCALE = 1 << 40
"""Integer that stands for the memory limit where bytes are not whole numbers."""


def prove(
    problem: Problem,
    budget: Budget,
    warm: Solution,
    progress: Progress | None = None,
    work: float = DETERMINISTIC_SECONDS,
    target_s: float = -math.inf,
) -> Solution:
    """Improve a known solution, or show that it is the best.

    Args:
        problem: what is solved.
        budget: effort and deadline of this part alone.
        warm: what is known; its bound is taken over.
        progress: called when the answer or the bound improves.
        work: CP-SAT's own unit of work per unit of effort.
        target_s: cost that is good enough: the first answer as good is the last.

    Returns:
        A solution that is at least as good.
    """
    if warm.proof in {"optimal", "infeasible"} or warm.choice is None or warm.truncated:
        return warm
    incumbent = Incumbent.of(problem, progress)
    incumbent.log.extend(warm.log)
    incumbent.offer(warm.choice, "warm start")
    incumbent.raise_bound(warm.bound_s, 0.0, "warm start")
    relevant = relevant_candidates(problem, incumbent.cost_s)
    if (pairs := int(relevant.allowed.sum())) > MAX_PAIRS:
        incumbent.note(
            f"ilp: {pairs} pairs of candidates are more than {MAX_PAIRS}; "
            "the answer and the bound are those of dynamic programming"
        )
        return incumbent.solution(truncated=False)
    work_left = work * max(1, budget.effort)
    search = _Search(incumbent, relevant, warm.choice, (budget, work_left), target_s)
    truncated = search.run()
    return incumbent.solution(truncated=truncated)


class _UntilGood(cp_model.CpSolverSolutionCallback):
    """Ends a search at the first answer that is good enough."""

    def __init__(self, model: Model, target_s: float) -> None:
        super().__init__()
        self._model, self._target_s = model, target_s

    def on_solution_callback(self) -> None:
        if self._model.seconds(self.objective_value) <= self._target_s:
            self.stop_search()


class _Search:
    """Rounds of solving and adding rows."""

    def __init__(
        self,
        incumbent: Incumbent,
        relevant: Relevant,
        start: Sequence[int],
        limits: tuple[Budget, float],
        target_s: float,
    ) -> None:
        budget, self._work_left = limits
        self._incumbent = incumbent
        self._model = Model(relevant)
        self._start = start
        self._seed = budget.seed
        self._target_s = target_s
        self._stop = None
        if budget.deadline_s is not None:
            self._stop = time.monotonic() + budget.deadline_s

    def run(self) -> bool:
        """Solve until proven or out of work; whether the clock cut it short."""
        self._add_rows(self._start, also_full=True)
        for _ in range(MAX_ROUNDS):
            if self._stop is not None and time.monotonic() >= self._stop:
                return True
            solver, status = self._solve()
            if status == cp_model.INFEASIBLE:
                self._incumbent.infeasible = self._incumbent.choice is None
                return False
            if status == cp_model.UNKNOWN:
                return self._was_stopped()
            choice = self._model.choice(solver)
            self._note_bound(solver)
            self._incumbent.offer(choice, "ilp")
            if not self._add_rows(choice):
                if self._incumbent.cost_s <= self._target_s:
                    return False
                return status != cp_model.OPTIMAL and self._was_stopped()
            if status != cp_model.OPTIMAL:
                return self._was_stopped()
        return False

    def _solve(self) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed
        solver.parameters.linearization_level = 2
        solver.parameters.max_deterministic_time = max(1e-3, self._work_left)
        if self._stop is not None:
            solver.parameters.max_time_in_seconds = max(1e-3, self._stop - time.monotonic())
        self._model.hint(self._incumbent.choice or self._start)
        status = solver.solve(self._model.program, _UntilGood(self._model, self._target_s))
        self._work_left -= solver.response_proto.deterministic_time
        return solver, status

    def _was_stopped(self) -> bool:
        return self._stop is not None and time.monotonic() >= self._stop

    def _note_bound(self, solver: cp_model.CpSolver) -> None:
        bound_s = self._model.seconds(solver.best_objective_bound)
        self._incumbent.raise_bound(bound_s, abs(bound_s), "ilp")

    def _add_rows(self, choice: Sequence[int], *, also_full: bool = False) -> bool:
        """Add rows for overfull time points; whether any was."""
        profile = self._incumbent.ledger.profile(choice)
        overfull = self._incumbent.overfull(profile) is not None
        if not overfull and not (also_full and self._model.programme.net.time_points):
            return False
        worst = np.argsort(-profile, kind="stable").tolist()
        if not also_full:
            worst = [p for p in worst if profile[p] > self._incumbent.limits[p]]
        rows = filter(self._model.add_memory_row, worst)
        fresh = list(itertools.islice(rows, ROWS_PER_ROUND))
        if overfull and not fresh:
            self._model.forbid(choice)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Relevant:
    """A network without its minima and without what is in no better answer."""

    base_s: float
    """Sum of all minima."""
    slack_s: float
    """Known cost less that sum: an entry above it is in no better answer."""
    small: Narrowed
    """The network of the candidates that may be used."""
    allowed: BoolArray
    """For each entry of its matrices whether the pair may be used."""


def relevant_candidates(problem: Problem, known_cost_s: float) -> Relevant:
    """Sum parallel edges, subtract minima, and see what can be in a better answer."""
    net = network_of(problem)
    starts, matrix_of = np.unique(net.edge_first[:-1], return_inverse=True)
    parts = (net.cost, net.first), (net.edge_cost, np.append(starts, len(net.edge_cost)))
    nodes, matrices = (np.minimum.reduceat(values, first[:-1]) for values, first in parts)
    base_s = math.fsum([*nodes.tolist(), *matrices[matrix_of].tolist()])
    known_cost_s = highest_cost(net) if math.isinf(known_cost_s) else known_cost_s
    slack_s = max(known_cost_s - base_s, 1e-12 * max(abs(base_s), 1e-300)) * (1.0 + 1e-9)
    cost, edge_cost = (
        values - np.repeat(least, np.diff(first))
        for (values, first), least in zip(parts, (nodes, matrices), strict=True)
    )
    small = without(replace(net, cost=cost, edge_cost=edge_cost), cost <= slack_s)
    own = small.network
    u, v = own.edges[:, 0], own.edges[:, 1]
    ku, kv = own.sizes[u], own.sizes[v]
    first = np.repeat(own.cost[runs(own.first[u], ku)], np.repeat(kv, ku))
    second = own.cost[runs(np.repeat(own.first[v], ku), np.repeat(kv, ku))]
    # A pair with both of its candidates must leave room for a better answer.
    return Relevant(base_s, slack_s, small, own.edge_cost + first + second <= slack_s)


class Model:
    """The programme for CP-SAT; rows for time points when asked for."""

    def __init__(self, relevant: Relevant) -> None:
        self.program, self._relevant = cp_model.CpModel(), relevant
        self.programme = Programme(relevant.small.network, relevant.allowed)
        self._variables = [self.program.new_bool_var("") for _ in self.programme.top]
        self._add_rows()
        paid, columns = self.programme.paid, self.programme.paid_column.tolist()
        amounts = np.floor(paid / relevant.slack_s * SCALE).astype(np.int64).tolist()
        objective = self._sum(columns, amounts)
        self.program.add(objective <= SCALE)
        self.program.minimize(objective)

    def _sum(self, columns: list[int], amounts: list[int]) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.weighted_sum([self._variables[c] for c in columns], amounts)

    def _add_rows(self) -> None:
        own = self.programme
        order = np.argsort(own.row_of, kind="stable")
        places = np.searchsorted(own.row_of[order], np.arange(1, len(own.sides)))
        rows = np.split(order, places) if len(own.sides) else []
        for number, row in enumerate(rows):
            columns = own.column_of[row].tolist()
            if number < own.net.nodes:
                self.program.add_exactly_one(self._variables[c] for c in columns)
            else:
                self.program.add(self._sum(columns, own.factor[row].astype(np.int64).tolist()) == 0)
        for column in np.flatnonzero(own.top == 0.0).tolist():
            self.program.add(self._variables[column] == 0)

    def seconds(self, objective: float) -> float:
        """Lower bound in seconds for a lower bound of the integer objective."""
        return self._relevant.base_s + objective / SCALE * self._relevant.slack_s

    def choice(self, solver: cp_model.CpSolver) -> tuple[int, ...]:
        candidates = self._variables[: len(self.programme.net.cost)]
        values = np.array([solver.boolean_value(variable) for variable in candidates], dtype=float)
        return tuple(self._relevant.small.widened(self.programme.chosen(values)).tolist())

    def hint(self, choice: Sequence[int]) -> None:
        """Start the next search from a choice."""
        self.program.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(self._variables, self._columns_of(choice), strict=True):
            self.program.add_hint(variable, value)

    def _columns_of(self, choice: Sequence[int]) -> list[bool]:
        """Whether each column is of a choice."""
        of_each = np.repeat(np.array(choice, dtype=np.int64), self.programme.net.sizes)
        found: list[bool] = self.programme.columns_of(
            self._relevant.small.original == of_each
        ).tolist()
        return found

    def forbid(self, choice: Sequence[int]) -> None:
        """Exclude one choice; needed where rounding lets it pass a memory row."""
        candidates = self._columns_of(choice)[: len(self.programme.net.cost)]
        used = [own for own, taken in zip(self._variables, candidates, strict=False) if taken]
        self.program.add(sum(used) <= len(choice) - 1)

    def add_memory_row(self, point: int) -> bool:
        """Keep the memory at one time point within the limit; whether it was not kept before."""
        if not self.programme.add_memory(point):
            return False
        columns, amounts = self.programme.memory[point]
        limit, unit = self.programme.room(point), 1.0
        if (amounts != np.floor(amounts)).any():
            unit = max(limit, 1e-300) / MEMORY_SCALE
        whole = np.floor(amounts / unit).astype(np.int64).tolist()
        self.program.add(self._sum(columns.tolist(), whole) <= math.floor(limit / unit))
        return True
