"""A problem as a CP-SAT model: what can matter, at which scale, in which variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from planner.problem import FloatArray, Problem

SCALE = 1 << 44
"""Integer that stands for the distance between the known cost and the sum of all minima."""
MEMORY_SCALE = 1 << 40
"""Integer that stands for the memory limit where bytes are not whole numbers."""

Ends = tuple[int, int]


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
