"""Makes a choice of an overlapped problem better, one node at a time, by its true time.

A node changes to the candidate with which the windows that it loads take least, all others as they
are, if that fits. Sweeps go on until one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from costmodel.overlap import Loads
from planner.problem import ROUNDING, FloatArray, Overlap, Problem, loads_of
from planner.solvers.contract import PROVEN_GAP

SWEEPS = 3
"""Over all nodes, at most."""


@dataclass(slots=True)
class CoordinateSteps:
    """A choice, what it loads and what it holds."""

    problem: Problem
    overlap: Overlap
    choice: list[int]
    loads: FloatArray = field(init=False)
    """Of the windows of the layers, shape (layers, columns)."""
    times_s: FloatArray = field(init=False)
    """That they take, shape (layers,)."""
    profile: FloatArray = field(init=False)
    beside: list[list[tuple[slice, int, slice]]] = field(init=False)
    """By layer the columns that travel beside another layer: its own, that layer, its columns."""

    def __post_init__(self) -> None:
        problem, own = self.problem, self.overlap
        self.loads = own.layers.windows(own.form.loads, problem.loads(self.choice))
        self.times_s = own.form.time_s(self.loads)
        self.profile = problem.memory_profile(self.choice)
        self.beside = [[] for _ in range(own.count)]
        for layer, columns, other, there in own.layers.targets(own.form.loads):
            if other >= 0:
                self.beside[layer].append((columns, other, there))

    def run(self) -> tuple[int, ...]:
        """The choice that no change of a single node makes faster, or that of the last sweep."""
        for _ in range(SWEEPS):
            if not sum(self._step(node) for node in range(len(self.choice))):
                break
        return tuple(self.choice)

    def _step(self, node: int) -> bool:
        """Change a node for the better; whether it was."""
        deltas = self._deltas(node)
        gained_s = sum(
            self.times_s[layer] - self.overlap.form.time_s(self.loads[layer] + delta)
            for layer, delta in deltas.items()
        )
        enough_s = PROVEN_GAP * float(self.times_s.sum())
        for candidate in np.argsort(-gained_s, kind="stable").tolist():
            if gained_s[candidate] <= enough_s:
                return False
            profile = self._profile_with(node, candidate)
            if float(profile.max(initial=0.0)) <= self.problem.memory_limit_bytes * (1 + ROUNDING):
                for layer, delta in deltas.items():
                    self.loads[layer] += delta[candidate]
                    self.times_s[layer] = self.overlap.form.time_s(self.loads[layer])
                self.profile = profile
                self.choice[node] = candidate
                return True
        return False

    def _deltas(self, node: int) -> dict[int, FloatArray]:
        """What every candidate of a node adds to the windows of layers, shape (candidates, columns)
        each.
        """
        own: dict[int, FloatArray] = {}
        for layer, rows in self._rows(node):
            delta = rows - rows[self.choice[node]]
            own[layer] = own[layer] + delta if layer in own else delta
        out: dict[int, FloatArray] = {}
        for layer, delta in own.items():
            kept = out.setdefault(layer, np.zeros_like(delta))
            kept[:, : Loads.HOST + 1] += delta[:, : Loads.HOST + 1]
            if delta[:, Loads.HOST + 1 :].any():
                for columns, other, there in self.beside[layer]:
                    out.setdefault(other, np.zeros_like(delta))[:, there] += delta[:, columns]
        return out

    def _rows(self, node: int) -> Iterator[tuple[int, FloatArray]]:
        """Loads of every candidate, by the layer that they are of; shape (candidates, columns)."""
        problem, layer_of = self.problem, self.overlap.layer_of
        columns = self.overlap.form.loads.count
        own = problem.node_tables[problem.node_table_of[node]]
        yield layer_of[node], loads_of(own, columns).T
        for edge, _ in problem.edges_at[node]:
            u, v = problem.edges[edge]
            table = problem.edge_tables[problem.edge_table_of[edge]]
            at = (slice(None), self.choice[v]) if u == node else (self.choice[u], slice(None))
            yield layer_of[u], loads_of(table, columns, at).T

    def _profile_with(self, node: int, candidate: int) -> FloatArray:
        """Memory at every time point with another candidate of a node."""
        problem, chosen = self.problem, self.choice[node]
        out = self.profile.copy()
        own = problem.node_tables[problem.node_table_of[node]]
        held = zip(problem.node_intervals[node], own.memory_bytes, strict=True)
        for (start, end), nbytes in held:
            out[start:end] += nbytes[candidate] - nbytes[chosen]
        for edge, _ in problem.edges_at[node]:
            u, v = problem.edges[edge]
            table = problem.edge_tables[problem.edge_table_of[edge]]
            for (start, end), pairs in zip(
                problem.edge_intervals[edge], table.memory_bytes, strict=True
            ):
                row = pairs[:, self.choice[v]] if u == node else pairs[self.choice[u]]
                out[start:end] += row[candidate] - row[chosen]
        return out
