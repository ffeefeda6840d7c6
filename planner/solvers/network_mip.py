"""Integer programming on networks with HiGHS (MathOpt of OR-Tools): a proof where they are small.

HiGHS computes in floating point: its bounds hold to a relative 1e-9, and no closer is claimed.
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

from planner.reduction.network import FORBIDDEN, IntArray, Network
from planner.solvers.programme import Programme

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


def _message(programme: Programme, scale: float) -> model_pb2.ModelProto:
    """The programme for HiGHS, whose costs are multiplied by a power of two."""
    out = model_pb2.ModelProto()
    candidates, columns = len(programme.net.cost), len(programme.top)
    variables = out.variables
    variables.ids.extend(range(columns))
    variables.lower_bounds.extend([0.0] * columns)
    variables.upper_bounds.extend(programme.top.tolist())
    variables.integers.extend([n < candidates for n in range(columns)])
    objective = np.bincount(programme.paid_column, programme.paid * scale, columns)
    used = np.flatnonzero(objective)
    out.objective.linear_coefficients.ids.extend(used.tolist())
    out.objective.linear_coefficients.values.extend(objective[used].tolist())
    sides, rows = programme.sides.tolist(), out.linear_constraints
    parts = [(programme.row_of, programme.column_of, programme.factor)]
    upper = []
    for number, (point, (held_by, held)) in enumerate(programme.memory.items(), len(sides)):
        unit = max(float(held.max(initial=0.0)), 1.0)
        parts.append((np.full(len(held), number), held_by, held / unit))
        upper.append(programme.room(point) / unit)
    rows.ids.extend(range(len(sides) + len(upper)))
    rows.lower_bounds.extend([*sides, *[-math.inf] * len(upper)])
    rows.upper_bounds.extend([*sides, *upper])
    row_of, column_of, factor = (np.concatenate(each) for each in zip(*parts, strict=True))
    order, matrix = np.lexsort((column_of, row_of)), out.linear_constraint_matrix
    matrix.row_ids.extend(row_of[order].tolist())
    matrix.column_ids.extend(column_of[order].tolist())
    matrix.coefficients.extend(factor[order].tolist())
    return out


def _choice_in(programme: Programme, result: mathopt.SolveResult) -> IntArray:
    chosen = np.zeros(len(programme.top))
    for variable, value in result.variable_values().items():
        chosen[variable.id] = value
    return programme.chosen(chosen)


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
    scale = 2.0 ** round(math.log2(SIZE / max(largest, 1.0)))
    programme = Programme(net, net.edge_cost < FORBIDDEN)
    for point in rows:
        programme.add_memory(point)
    while (left := deadline - time.monotonic()) > 0 and not state.optimal:
        model = mathopt.Model.from_model_proto(_message(programme, scale))
        asked = _parameters(left, seed, nodes, scale * net.is_whole)
        result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=asked)
        reason = result.termination.reason
        if reason in _NOTHING_FITS:
            return Proven(None, np.inf, np.inf, optimal=True)
        bound = result.termination.objective_bounds.dual_bound / scale
        state = replace(state, bound=max(state.bound, bound - SAFE * abs(bound)))
        if not result.has_primal_feasible_solution():
            break
        choice = _choice_in(programme, result)
        over = peaks(net, choice, ROWS_AT_ONCE, least=0.0)
        for point in over:
            programme.add_memory(point)
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
