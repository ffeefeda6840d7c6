"""Integer programming with CP-SAT: for small or pinned problems, and as proof.

One 0/1 variable per candidate and one per pair of candidates of an edge, tied by sums over rows and
columns. Memory rows are added only for the time points that an answer overfills. Times become
integers by rounding down, at a scale where the distance between the known answer and the sum of all
minima is 2^44; hence the bound of the integers is a bound of the problem, and a proof holds up to
one part in 2^44 per node and edge. The reported cost is always that of the problem itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from planner.problem import FloatArray, Problem
from planner.solvers.contract import Budget, Incumbent, Progress, Solution

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
Ends = tuple[int, int]


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
    relevant = relevant_entries(problem, incumbent.cost_s)
    if relevant.pairs > MAX_PAIRS:
        incumbent.note(
            f"ilp: {relevant.pairs} pairs of candidates are more than {MAX_PAIRS}; "
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
        self._model = Model(incumbent.problem, relevant)
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
        if not overfull and not (also_full and profile.size):
            return False
        fresh = [p for p in np.argsort(-profile, kind="stable").tolist() if self._model.is_new(p)]
        if not also_full:
            fresh = [p for p in fresh if profile[p] > self._incumbent.limits[p]]
        for point in fresh[:ROWS_PER_ROUND]:
            self._model.add_memory_row(point)
        if overfull and not fresh:
            self._model.forbid(choice)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Relevant:
    """Node vectors and edge matrices less their minima, and what an answer may use of them."""

    base_s: float
    """Sum of all minima."""
    slack_s: float
    """Known cost less that sum: an entry above it is in no better answer."""
    vectors: tuple[FloatArray, ...]
    """Per node."""
    matrices: dict[Ends, FloatArray]
    """Per pair of neighbours, the earlier first; parallel edges are summed."""
    pairs: int
    """Entries of the matrices that may be used."""


def relevant_entries(problem: Problem, known_cost_s: float) -> Relevant:
    """Sum parallel edges, subtract minima, and see what can be in a better answer."""
    matrices: dict[Ends, FloatArray] = {}
    for (u, v), table in zip(problem.edges, problem.edge_table_of, strict=True):
        time_s = problem.edge_tables[table].time_s
        ends, matrix = ((u, v), time_s) if u < v else ((v, u), time_s.T)
        matrices[ends] = matrices[ends] + matrix if ends in matrices else matrix
    vectors = [problem.node_tables[table].time_s for table in problem.node_table_of]
    lowest = [float(array.min()) for array in (*vectors, *matrices.values())]
    base_s = math.fsum(lowest)
    if math.isinf(known_cost_s):
        known_cost_s = math.fsum(float(array.max()) for array in (*vectors, *matrices.values()))
    slack_s = max(known_cost_s - base_s, 1e-12 * max(abs(base_s), 1e-300))
    above = iter(lowest)
    vectors = [array - next(above) for array in vectors]
    matrices = {ends: array - next(above) for ends, array in matrices.items()}
    usable = slack_s * (1.0 + 1e-9)
    pairs = sum(
        int(_allowed(vectors, ends, matrix, usable).sum()) for ends, matrix in matrices.items()
    )
    return Relevant(base_s, usable, tuple(vectors), matrices, pairs)


def _allowed(
    vectors: Sequence[FloatArray], ends: Ends, matrix: FloatArray, slack_s: float
) -> NDArray[np.bool_]:
    """Pairs whose cost, with that of both candidates, leaves room for a better answer."""
    total = matrix + vectors[ends[0]][:, None] + vectors[ends[1]][None, :]
    return np.asarray(total <= slack_s)


class Model:
    """Variables for candidates and pairs; rows for time points when asked for."""

    def __init__(self, problem: Problem, relevant: Relevant) -> None:
        self.program = cp_model.CpModel()
        self._problem = problem
        self._relevant = relevant
        self._rows: set[int] = set()
        self._nodes: list[dict[int, cp_model.IntVar]] = [
            {
                int(c): self.program.new_bool_var("")
                for c in np.nonzero(vector <= relevant.slack_s)[0]
            }
            for vector in relevant.vectors
        ]
        for variables in self._nodes:
            self.program.add_exactly_one(variables.values())
        self._own_pairs: list[Ends] = []
        self._pairs = {
            ends: self._tie(ends, _allowed(relevant.vectors, ends, matrix, relevant.slack_s))
            for ends, matrix in relevant.matrices.items()
        }
        self._set_objective()

    def _tie(self, ends: Ends, allowed: NDArray[np.bool_]) -> dict[Ends, cp_model.IntVar]:
        """Pair variables whose rows and columns sum to the candidates.

        Where one end has one candidate the pairs are the candidates of the other.
        """
        for side in (0, 1):
            if len(self._nodes[ends[side]]) == 1:
                return self._of_other(ends, 1 - side, allowed)
        self._own_pairs.append(ends)
        pairs: dict[Ends, cp_model.IntVar] = {
            (int(i), int(j)): self.program.new_bool_var("") for i, j in np.argwhere(allowed)
        }
        for side in (0, 1):
            groups: dict[int, list[cp_model.IntVar]] = {c: [] for c in self._nodes[ends[side]]}
            for pair, variable in pairs.items():
                groups[pair[side]].append(variable)
            for candidate, group in groups.items():
                self.program.add(sum(group) == self._nodes[ends[side]][candidate])
        return pairs

    def _of_other(
        self, ends: Ends, side: int, allowed: NDArray[np.bool_]
    ) -> dict[Ends, cp_model.IntVar]:
        (only,) = self._nodes[ends[1 - side]]
        pairs: dict[Ends, cp_model.IntVar] = {}
        for candidate, variable in self._nodes[ends[side]].items():
            pair = (candidate, only) if side == 0 else (only, candidate)
            if allowed[pair]:
                pairs[pair] = variable
            else:
                self.program.add(variable == 0)
        return pairs

    def _set_objective(self) -> None:
        variables: list[cp_model.IntVar] = []
        amounts: list[float] = []
        for vector, own in zip(self._relevant.vectors, self._nodes, strict=True):
            variables.extend(own.values())
            amounts.extend(vector[list(own)].tolist())
        for ends, pairs in self._pairs.items():
            matrix = self._relevant.matrices[ends]
            variables.extend(pairs.values())
            amounts.extend(float(matrix[pair]) for pair in pairs)
        coefficients = [math.floor(a / self._relevant.slack_s * SCALE) for a in amounts]
        objective = cp_model.LinearExpr.weighted_sum(variables, coefficients)
        self.program.add(objective <= SCALE)
        self.program.minimize(objective)

    def seconds(self, objective: float) -> float:
        """Lower bound in seconds for a lower bound of the integer objective."""
        return self._relevant.base_s + objective / SCALE * self._relevant.slack_s

    def choice(self, solver: cp_model.CpSolver) -> tuple[int, ...]:
        return tuple(
            next(c for c, variable in own.items() if solver.boolean_value(variable))
            for own in self._nodes
        )

    def hint(self, choice: Sequence[int]) -> None:
        """Start the next search from a choice."""
        self.program.clear_hints()  # type: ignore[no-untyped-call]
        for own, chosen in zip(self._nodes, choice, strict=True):
            for candidate, variable in own.items():
                self.program.add_hint(variable, candidate == chosen)
        for u, v in self._own_pairs:
            for pair, variable in self._pairs[u, v].items():
                self.program.add_hint(variable, pair == (choice[u], choice[v]))

    def forbid(self, choice: Sequence[int]) -> None:
        """Exclude one choice; needed where rounding lets it pass a memory row."""
        used = [own[chosen] for own, chosen in zip(self._nodes, choice, strict=True)]
        self.program.add(sum(used) <= len(used) - 1)

    def is_new(self, point: int) -> bool:
        """Whether a time point has no row yet."""
        return point not in self._rows

    def add_memory_row(self, point: int) -> None:
        """Keep the memory at one time point within the limit."""
        self._rows.add(point)
        variables, amounts = self._held(point)
        limit = self._problem.memory_limit_bytes
        unit = 1.0
        if not all(amount.is_integer() for amount in amounts):
            unit = max(limit, 1e-300) / MEMORY_SCALE
        coefficients = [math.floor(amount / unit) for amount in amounts]
        self.program.add(
            cp_model.LinearExpr.weighted_sum(variables, coefficients) <= math.floor(limit / unit)
        )

    def _held(self, point: int) -> tuple[list[cp_model.IntVar], list[float]]:
        """Variables that hold memory at a time point, and how many bytes."""
        problem = self._problem
        variables: list[cp_model.IntVar] = []
        amounts: list[float] = []
        for node, intervals in enumerate(problem.node_intervals):
            table = problem.node_tables[problem.node_table_of[node]]
            for (start, end), vector in zip(intervals, table.memory_bytes, strict=True):
                if start <= point < end:
                    variables.extend(self._nodes[node].values())
                    amounts.extend(vector[list(self._nodes[node])].tolist())
        for edge, intervals in enumerate(problem.edge_intervals):
            table_of_edge = problem.edge_tables[problem.edge_table_of[edge]]
            u, v = problem.edges[edge]
            pairs = self._pairs[min(u, v), max(u, v)]
            for (start, end), matrix in zip(intervals, table_of_edge.memory_bytes, strict=True):
                if start <= point < end:
                    oriented = matrix if u < v else matrix.T
                    variables.extend(pairs.values())
                    amounts.extend(float(oriented[pair]) for pair in pairs)
        return variables, amounts
