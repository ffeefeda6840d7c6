"""Integer programming on networks with HiGHS (MathOpt of OR-Tools): a proof where they are small.

One variable per candidate, one per allowed pair of every edge, and the sums of the pairs' rows and
columns equal to the candidates (the local polytope, whose relaxation is tight). Rows for memory are
added where an answer exceeds the limit, until none does: few time points decide. HiGHS computes in
floating point: its bounds hold to a relative 1e-9, and no closer is claimed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

from planner.reduction.network import FORBIDDEN, FloatArray, IntArray, Network, runs, summed

ROWS_AT_ONCE = 8
SIZE = 2.0**20
"""About what the cost of an answer is to HiGHS, whose tolerances are absolute."""
SAFE = 1e-9
"""Relative allowance for its floating point."""
_NOTHING_FITS = {
    mathopt.TerminationReason.INFEASIBLE,
    mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
}


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


class Program:
    """A network as a mixed-integer program; candidates come before pairs."""

    def __init__(self, net: Network, scale: float) -> None:
        """Lay it out.

        Args:
            net: the network.
            scale: what costs are multiplied by, a power of two.
        """
        self.net = net
        self.rows: set[int] = set()
        u, v = net.edges[:, 0], net.edges[:, 1]
        ku, kv = net.sizes[u], net.sizes[v]
        allowed = net.edge_cost < FORBIDDEN
        edge = np.repeat(np.arange(len(net.edges)), ku * kv)[allowed]
        place = np.arange(len(net.edge_cost))[allowed] - net.edge_first[edge]
        candidates, pairs = len(net.cost), len(place)
        # A row for each node, then for each candidate of each end of each edge.
        first_row = net.nodes + np.concatenate([[0], np.cumsum(ku + kv)])
        by_row = first_row[edge] + place // kv[edge]
        by_column = first_row[edge] + ku[edge] + place % kv[edge]
        ends = np.concatenate([runs(net.first[w], net.sizes[w]) for w in (u, v)])
        end_rows = np.concatenate([runs(first_row[:-1], ku), runs(first_row[:-1] + ku, kv)])
        number = np.arange(pairs) + candidates
        self.row_of = np.concatenate(
            [np.repeat(np.arange(net.nodes), net.sizes), by_row, by_column, end_rows]
        )
        self.column_of = np.concatenate([np.arange(candidates), number, number, ends])
        self.factor = np.concatenate([np.ones(candidates + 2 * pairs), np.full(len(ends), -1.0)])
        count = int(first_row[-1])
        one = np.zeros(count)
        one[: net.nodes] = 1.0
        self.lower, self.upper = one, one.copy()
        self.objective = np.concatenate([net.cost, net.edge_cost[allowed]]) * scale
        self.scale = scale

    def add_memory(self, point: int) -> None:
        """Hold memory at a time point within the limit."""
        if point in self.rows:
            return
        self.rows.add(point)
        net = self.net
        live = np.flatnonzero((net.span_time[:, 0] <= point) & (point < net.span_time[:, 1]))
        sizes = net.sizes[net.span_node[live]]
        held = summed(
            runs(net.first[net.span_node[live]], sizes),
            net.usage[runs(net.span_first[:-1][live], sizes)],
            len(net.cost),
        )
        columns = np.flatnonzero(held)
        unit = max(float(held.max(initial=0.0)), 1.0)
        self.row_of = np.concatenate([self.row_of, np.full(len(columns), len(self.lower))])
        self.column_of = np.concatenate([self.column_of, columns])
        self.factor = np.concatenate([self.factor, held[columns] / unit])
        self.lower = np.append(self.lower, -np.inf)
        self.upper = np.append(self.upper, (net.limit - net.base[point]) / unit)

    def solved(self, parameters: mathopt.SolveParameters) -> mathopt.SolveResult:
        """Solve it as it is."""
        model = mathopt.Model.from_model_proto(self._message())
        return mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters)

    def _message(self) -> model_pb2.ModelProto:
        out = model_pb2.ModelProto()
        candidates, columns = len(self.net.cost), len(self.objective)
        variables = out.variables
        variables.ids.extend(range(columns))
        variables.lower_bounds.extend([0.0] * columns)
        variables.upper_bounds.extend([1.0] * columns)
        variables.integers.extend([n < candidates for n in range(columns)])
        used = np.flatnonzero(self.objective)
        out.objective.linear_coefficients.ids.extend(used.tolist())
        out.objective.linear_coefficients.values.extend(self.objective[used].tolist())
        rows = out.linear_constraints
        rows.ids.extend(range(len(self.lower)))
        rows.lower_bounds.extend(self.lower.tolist())
        rows.upper_bounds.extend(self.upper.tolist())
        order = np.lexsort((self.column_of, self.row_of))
        matrix = out.linear_constraint_matrix
        matrix.row_ids.extend(self.row_of[order].tolist())
        matrix.column_ids.extend(self.column_of[order].tolist())
        matrix.coefficients.extend(self.factor[order].tolist())
        return out

    def choice_in(self, result: mathopt.SolveResult) -> IntArray:
        """The choice in a solution."""
        values = result.variable_values()
        chosen = np.zeros(len(self.net.cost))
        for variable, value in values.items():
            if variable.id < len(chosen):
                chosen[variable.id] = value
        return _largest(self.net, chosen)


def _largest(net: Network, values: FloatArray) -> IntArray:
    """For each node its candidate of the largest value."""
    order = np.lexsort((-values, np.repeat(np.arange(net.nodes), net.sizes)))
    found: IntArray = order[net.first[:-1]] - net.first[:-1]
    return found


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
    seed: int,
    *,
    nodes: int | None = None,
    report: Callable[[Proven], None] = lambda _: None,
) -> Proven:
    """Search for a proof.

    Args:
        net: the network, small.
        best: an answer that fits.
        rows: time points that get a row at once.
        deadline: when to stop, by `time.monotonic()`.
        seed: of HiGHS.
        nodes: of each round's search tree, at most; the answer is the same anywhere then.
        report: receives what is known when an answer that fits was found.
    """
    state = Proven(best, np.inf if best is None else net.evaluate(best), -np.inf, optimal=False)
    largest = state.cost if np.isfinite(state.cost) else float(np.abs(net.cost).sum())
    program = Program(net, 2.0 ** round(math.log2(SIZE / max(largest, 1.0))))
    for point in rows:
        program.add_memory(point)
    while (left := deadline - time.monotonic()) > 0 and not state.optimal:
        result = program.solved(_parameters(left, seed, nodes, program.scale * net.is_whole))
        reason = result.termination.reason
        if reason in _NOTHING_FITS:
            return Proven(None, np.inf, np.inf, optimal=True)
        bound = result.termination.objective_bounds.dual_bound / program.scale
        state = replace(state, bound=max(state.bound, bound - SAFE * abs(bound)))
        if not result.has_primal_feasible_solution():
            break
        choice = program.choice_in(result)
        over = peaks(net, choice, ROWS_AT_ONCE, least=0.0)
        for point in over:
            program.add_memory(point)
        if not over and net.evaluate(choice) < state.cost:
            state = replace(state, choice=choice, cost=net.evaluate(choice))
            report(state)
        if state.bound >= state.cost - 2 * SAFE * abs(state.cost) - 0.5 * net.is_whole:
            state = replace(state, bound=state.cost, optimal=True)
        elif not over or reason != mathopt.TerminationReason.OPTIMAL:
            break
    return replace(state, bound=min(state.bound, state.cost))


def _parameters(
    left_s: float, seed: int, nodes: int | None, whole_unit: float
) -> mathopt.SolveParameters:
    return mathopt.SolveParameters(
        time_limit=timedelta(seconds=left_s) if np.isfinite(left_s) else None,
        node_limit=nodes,
        random_seed=seed % 2**31,
        relative_gap_tolerance=0.0,
        absolute_gap_tolerance=0.4 * whole_unit,
    )
