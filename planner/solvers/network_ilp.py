"""Integer programming on networks, through CP-SAT of OR-Tools: a proof where they are small.

One variable per candidate, one per pair of every edge, and the sums of the pairs' rows and columns
equal to the candidates (the local polytope, whose relaxation is tight). Rows for memory are added
where an answer exceeds the limit, until none does: few time points decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from planner.network import FORBIDDEN, IntArray, Network

MAX_PAIRS = 1_000_000
"""Allowed pairs of all edges beyond which a model is too large to build."""
ROWS_AT_ONCE = 8

Report = Callable[[IntArray, float, float], None]


@dataclass(frozen=True, slots=True)
class Proven:
    """What is known after the search."""

    choice: IntArray | None
    cost: float
    bound: float
    """No choice that fits costs less; infinite if none fits."""
    optimal: bool


def pairs_allowed(net: Network) -> int:
    """Pairs of candidates that some edge allows."""
    return int((net.edge_cost < FORBIDDEN).sum())


class Model:
    """A network as CP-SAT sees it."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.model = cp_model.CpModel()
        self.chosen = [self.model.new_bool_var("") for _ in range(len(net.cost))]
        self.terms: list[cp_model.IntVar] = list(self.chosen)
        self.weights: list[int] = []
        self.rows: set[int] = set()
        self.pairs: list[tuple[int, int, cp_model.IntVar]] = []
        cost = net.cost.copy()
        for node in range(net.nodes):
            self.model.add_exactly_one(self.chosen[net.first[node] : net.first[node + 1]])
        pair_weights = [w for edge in range(len(net.edges)) for w in self._add_edge(edge, cost)]
        self.weights = [round(c) for c in cost] + pair_weights
        self.model.minimize(cp_model.LinearExpr.weighted_sum(self.terms, self.weights))

    def _add_edge(self, edge: int, cost: np.ndarray) -> list[int]:
        """Variables of the pairs, and their weights; what rows and columns have in common goes to
        the candidates.
        """
        net = self.net
        u, v = net.edges[edge].tolist()
        rows, columns = int(net.sizes[u]), int(net.sizes[v])
        a, b = int(net.first[u]), int(net.first[v])
        matrix = net.edge_cost[net.edge_first[edge] : net.edge_first[edge + 1]].reshape(
            rows, columns
        )
        matrix = np.where(matrix < FORBIDDEN, matrix, np.inf)
        least = matrix.min(axis=1)
        matrix = matrix - least[:, None]
        lower = matrix.min(axis=0)
        matrix = matrix - lower
        cost[a : a + rows] += least
        cost[b : b + columns] += lower
        weights: list[int] = []
        by_row: list[list[cp_model.IntVar]] = [[] for _ in range(rows)]
        by_column: list[list[cp_model.IntVar]] = [[] for _ in range(columns)]
        for r, c in np.argwhere(np.isfinite(matrix)).tolist():
            both = self.model.new_bool_var("")
            self.terms.append(both)
            self.pairs.append((a + r, b + c, both))
            weights.append(round(matrix[r, c]))
            by_row[r].append(both)
            by_column[c].append(both)
        for place, members in (*enumerate(by_row, a), *enumerate(by_column, b)):
            self.model.add(cp_model.LinearExpr.sum(members) == self.chosen[place])
        return weights

    def add_memory(self, point: int) -> None:
        """Hold memory at a time point within the limit."""
        net = self.net
        if point in self.rows:
            return
        self.rows.add(point)
        live = (net.span_time[:, 0] <= point) & (point < net.span_time[:, 1])
        held: dict[int, float] = {}
        for span in np.flatnonzero(live).tolist():
            start = int(net.first[net.span_node[span]])
            for c, amount in enumerate(net.usage[net.span_first[span] : net.span_first[span + 1]]):
                if amount:
                    held[start + c] = held.get(start + c, 0.0) + float(amount)
        room = int(np.floor(net.limit - net.base[point]))
        terms = [self.chosen[c] for c in held]
        amounts = [int(np.ceil(x)) for x in held.values()]
        self.model.add(cp_model.LinearExpr.weighted_sum(terms, amounts) <= room)

    def choice_of(self, solver: cp_model.CpSolver) -> IntArray:
        """The choice in a solution."""
        values = np.array([solver.boolean_value(x) for x in self.chosen])
        ends = zip(self.net.first[:-1].tolist(), self.net.first[1:].tolist(), strict=True)
        return np.array([int(np.argmax(values[a:b])) for a, b in ends], dtype=np.int64)

    def hint(self, choice: IntArray) -> None:
        """Start from a choice."""
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        picked = set((self.net.first[:-1] + choice).tolist())
        for number, variable in enumerate(self.chosen):
            self.model.add_hint(variable, number in picked)
        for r, c, variable in self.pairs:
            self.model.add_hint(variable, r in picked and c in picked)


def peaks(net: Network, choice: IntArray, count: int, *, least: float) -> list[int]:
    """The worst time points of a choice, far apart from each other.

    Args:
        net: the network.
        choice: the choice.
        count: how many at most.
        least: memory beyond the limit that a point must have.
    """
    excess = net.profile(choice) - net.limit
    found: list[int] = []
    apart = max(1, len(excess) // (4 * count))
    for _ in range(count):
        if not len(excess) or excess.max() <= least:
            break
        point = int(np.argmax(excess))
        found.append(point)
        excess[max(0, point - apart) : point + apart + 1] = -np.inf
    return found


def prove(
    net: Network,
    best: IntArray | None,
    rows: list[int],
    deadline: float,
    threads: int,
    seed: int,
    *,
    work: float | None = None,
    report: Report = lambda *_: None,
) -> Proven:
    """Search for a proof.

    Args:
        net: the network, small.
        best: an answer that fits, to start from.
        rows: time points that get a row at once.
        deadline: when to stop, by `time.monotonic()`.
        threads: of CP-SAT.
        seed: of CP-SAT.
        work: of each round, by CP-SAT's own measure; the answer is the same anywhere then.
        report: receives answers that fit, with their cost, and the bound.
    """
    model = Model(net)
    for point in rows:
        model.add_memory(point)
    state = Proven(best, np.inf if best is None else net.evaluate(best), -np.inf, optimal=False)
    hint = best
    while (left := deadline - time.monotonic()) > 0 and not state.optimal:
        if hint is not None:
            model.hint(hint)
        solver = _solver(left, threads, seed, work)
        status = solver.solve(model.model)
        if status == cp_model.INFEASIBLE:
            return Proven(None, np.inf, np.inf, optimal=True)
        state = replace(state, bound=max(state.bound, solver.best_objective_bound))
        if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            break
        hint = model.choice_of(solver)
        over = peaks(net, hint, ROWS_AT_ONCE, least=0.0)
        for point in over:
            model.add_memory(point)
        if not over and net.evaluate(hint) < state.cost:
            state = replace(state, choice=hint, cost=net.evaluate(hint))
            report(hint, state.cost, state.bound)
        if state.bound >= state.cost - 0.5 * net.is_whole:
            state = replace(state, bound=state.cost, optimal=True)
        elif not over and status == cp_model.FEASIBLE:
            break
    return replace(state, bound=min(state.bound, state.cost))


def _solver(left_s: float, threads: int, seed: int, work: float | None) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = threads
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed
    if np.isfinite(left_s):
        solver.parameters.max_time_in_seconds = left_s
    if work is not None:
        solver.parameters.max_deterministic_time = work
        solver.parameters.interleave_search = True
    return solver
