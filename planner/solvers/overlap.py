"""Solves a problem whose time overlaps with solvers of sums: prices on what works side by side.

Under prices the time of a choice is a sum that it never undercuts, so the least sum bounds all
choices (weak duality). The bound is concave in the prices: Kelley's cutting planes raise it. What
is the best under some prices is judged by its true time, and choices that load different resources
are joined, some layers of one and the rest of the other, which comes near the best mixture.

Source: Kelley, Journal of SIAM 8(4), 1960; Everett, Operations Research 11(3), 1963.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.overlap import Loads, StepForm
from planner.problem import FloatArray, Overlap, Problem, loads_of
from planner.solvers.contract import PROVEN_GAP, Budget, Progress, Solution, Solver
from planner.solvers.overlap_steps import CoordinateSteps

Choice: TypeAlias = tuple[int, ...]

PRICES_TRIED = 10
"""Prices under which a problem is solved at most, per unit of effort."""
ENOUGH = 2.5e-3
"""Relative gap that is left as it is, at effort 1; at effort e it is 1/e of it."""
FAR = 1e3
"""Times the largest load at which what is fixed is cut off for the best prices."""
JOINED = 3
"""Choices of which every two are joined."""
PLACES = 24
"""Places in each layer at which one choice gives way to another, at most."""


@dataclass(frozen=True, slots=True)
class WithOverlap:
    """A solver of sums that minimises time with overlap too."""

    solver: Solver

    @property
    def name(self) -> str:
        """Of the solver."""
        return self.solver.name

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """The solver's answer; with overlap the best of its answers under several prices."""
        if problem.overlap is None:
            return self.solver.solve(problem, budget, progress)
        return _PriceSearch(self.solver, problem, problem.overlap, budget, progress).run()


@dataclass(slots=True)
class _PriceSearch:
    solver: Solver
    problem: Problem
    overlap: Overlap
    budget: Budget
    progress: Progress | None
    best: Solution | None = None
    bound_s: float = -math.inf
    cuts: dict[Choice, FloatArray] = field(default_factory=dict)
    """Loads of every choice found, shape (layers, columns)."""
    started: float = field(default_factory=time.monotonic)

    @property
    def enough(self) -> float:
        return max(ENOUGH / max(1, self.budget.effort), self.budget.enough)

    @property
    def is_closed(self) -> bool:
        best = self.best
        return best is not None and best.cost_s - self.bound_s <= self.enough * best.cost_s

    def run(self) -> Solution:
        """Raise the bound price by price, then join what was found."""
        form = self.overlap.form
        prices = [form.all_on_compute()] * self.overlap.count
        for _ in range(PRICES_TRIED * max(1, self.budget.effort)):
            found = self._solve(prices)
            if found.choice is None or not found.is_answer:
                return self.best or found
            if self._note(found) or self.is_closed or found.truncated or found.interrupted:
                break
            most_s, prices = self._next(form)
            if most_s <= self.bound_s + self.enough * abs(self.bound_s) / 4:
                break
        if not self.is_closed:
            self._join()
        return self._answer()

    def _solve(self, prices: Sequence[FloatArray]) -> Solution:
        left = self.budget.deadline_s
        if left is not None:
            left = max(0.0, left - (time.monotonic() - self.started))
        # Half of what is left as it is: the other half is for the prices.
        budget = replace(self.budget, deadline_s=left, enough=self.enough / 2)
        return self.solver.solve(self.problem.at_prices(prices), budget, None)

    def _note(self, found: Solution) -> bool:
        """Keep an answer and its bound; whether the answer was known already."""
        choice = found.choice or ()
        self.bound_s = max(self.bound_s, found.bound_s)
        known = choice in self.cuts
        if not known:
            self.cuts[choice] = self.problem.loads(choice)
            self._offer(choice, found)
        if self.progress is not None and self.best is not None:
            self.progress("prices on overlap", self.best.cost_s, self.bound_s)
        return known

    def _offer(self, choice: Choice, found: Solution) -> None:
        cost_s = self.problem.cost_s(choice)
        if self.best is None or cost_s < self.best.cost_s:
            peak = self.problem.peak_bytes(choice)
            self.best = replace(found, choice=choice, cost_s=cost_s, peak_bytes=peak)

    def _next(self, form: StepForm) -> tuple[float, list[FloatArray]]:
        """The prices at which what is known bounds most, and that bound: nothing known is more."""
        own = self.overlap
        found = np.stack(list(self.cuts.values()))
        loads = own.layers.windows(form.loads, found)
        known: dict[bytes, tuple[float, FloatArray]] = {}
        pairs = []
        for layer in range(own.count):
            each = np.ascontiguousarray(loads[:, layer])
            key = each.tobytes()
            if key not in known:
                known[key] = best_prices(form, each)
            pairs.append(known[key])
        return math.fsum(most for most, _ in pairs), [prices for _, prices in pairs]

    def _join(self) -> None:
        """For every piece the fastest choice; then choices that are one answer in the first part of
        every layer and another one in the rest.
        """
        self._try(self._of_pieces())
        ranked = sorted(self.cuts, key=lambda c: self._time_s(self.cuts[c]))[:JOINED]
        for first, second in itertools.permutations(ranked, 2):
            if self.is_closed:
                return
            self._try(joined(self.problem, self.overlap, first, second))
        fitting = [c for c in ranked if self.problem.is_feasible(c)]
        starts = dict.fromkeys((*(() if self.best is None else (self.best.choice,)), *fitting))
        for start in starts:
            if not self.is_closed and start is not None:
                self._try(CoordinateSteps(self.problem, self.overlap, list(start)).run())

    def _try(self, choice: Choice) -> None:
        """Keep a choice if it is the fastest and fits."""
        best = self.best
        if best is None or self.problem.cost_s(choice) >= best.cost_s * (1 - PROVEN_GAP):
            return
        if self.problem.is_feasible(choice):
            self._offer(choice, best)

    def _of_pieces(self) -> Choice:
        choices = list(self.cuts)
        times = self.overlap.pieces_s(np.stack([self.cuts[choice] for choice in choices]))
        fastest = times.argmin(axis=0).tolist()
        pieces = enumerate(self.overlap.piece_of_node)
        return tuple(choices[fastest[piece]][node] for node, piece in pieces)

    def _time_s(self, loads: FloatArray) -> float:
        return float(self.overlap.layers_s(loads).sum())

    def _answer(self) -> Solution:
        if self.best is None:
            raise RuntimeError("no price was tried")
        bound_s = min(self.bound_s, self.best.cost_s)
        optimal = self.best.cost_s - bound_s <= PROVEN_GAP * abs(self.best.cost_s)
        return replace(self.best, bound_s=bound_s, proof="optimal" if optimal else "bounded")


def best_prices(form: StepForm, loads: FloatArray) -> tuple[float, FloatArray]:
    """The highest point under the cuts of some choices.

    Args:
        form: of the step.
        loads: of each choice, shape (choices, columns).

    Returns:
        Its height in seconds, and the prices there, shape (windows, resources).
    """
    each = form.windows_s(loads)
    times = np.array([window.times for window in form.windows])
    known = _on_the_longest(each, times, loads[:, Loads.FIXED])
    if known is not None:
        return known
    from scipy.optimize import linprog  # noqa: PLC0415  seldom needed, slow to import

    choices, windows, resources = each.shape
    rise, fixed = (each * times[:, None]).reshape(choices, -1), loads[:, Loads.FIXED]
    scale = float(np.abs(rise).max(initial=0.0))
    if not scale:
        return float(fixed.min()), form.all_on_compute()
    # Costs that all choices have decide nothing, and those of what is impossible are beyond the LP.
    least = float(fixed.min())
    fixed = np.minimum((fixed - least) / scale, FAR)
    rows = np.column_stack([np.ones(choices), -rise / scale])
    sums = np.zeros((windows, 1 + windows * resources))
    for window in range(windows):
        sums[window, 1 + window * resources : 1 + (window + 1) * resources] = 1.0
    goal = np.zeros(1 + windows * resources)
    goal[0] = -1.0
    found = linprog(
        goal, rows, fixed, sums, np.ones(windows),
        [(None, None), *[(0.0, 1.0)] * (windows * resources)],
    )  # fmt: skip
    solution = np.asarray(found.x)
    prices = np.clip(solution[1:].reshape(windows, resources), 0.0, 1.0)
    return float(solution[0]) * scale + least, prices / prices.sum(axis=1, keepdims=True)


def _on_the_longest(
    each: FloatArray, times: FloatArray, fixed: FloatArray
) -> tuple[float, FloatArray] | None:
    """The answer of `best_prices` where every choice loads the same resource of a window most: no
    prices give a choice more than its true time, and those on that resource give all of them that.
    None elsewhere, and where the fastest choice loads two alike, so that other prices are as good.

    Args:
        each: seconds, shape (choices, windows, resources).
        times: how often each window comes, shape (windows,).
        fixed: what nothing hides, shape (choices,).
    """
    longest = each.max(axis=2)
    heights = fixed + longest @ times
    fastest = int(heights.argmin())
    on_longest = each[fastest] == longest[fastest][:, None]
    same = each[:, on_longest]
    if same.shape != longest.shape or not np.array_equal(same, longest):
        return None
    return float(heights[fastest]), on_longest.astype(np.float64)


def joined(problem: Problem, overlap: Overlap, first: Choice, second: Choice) -> Choice:
    """The fastest choice that is one up to some place in every layer and another one from there on.

    Args:
        problem: in which they are.
        overlap: of the problem.
        first: the choice of the nodes before.
        second: of the others.
    """
    mixture = _Mixture(problem, overlap, first, second)
    layer_of, piece_of = np.array(overlap.layer_of), np.array(overlap.piece_of_node)
    counts = np.zeros(overlap.count, dtype=np.intp)
    place = np.empty(len(layer_of), dtype=np.intp)
    for node, layer in enumerate(overlap.layer_of):
        place[node] = counts[layer]
        counts[layer] += 1
    longest = int(counts.max(initial=0))
    step = -(-longest // PLACES)
    masks = [place >= at for at in range(0, longest + step, step)]
    times = np.stack([mixture.pieces_s(mask) for mask in masks])
    mask = np.stack(masks)[times.argmin(axis=0)[piece_of], np.arange(len(place))]
    return tuple(np.where(mask, second, first).tolist())


class _Mixture:
    """Two choices whose nodes are mixed; loads of all pairs of theirs are looked up once."""

    def __init__(self, problem: Problem, overlap: Overlap, first: Choice, second: Choice) -> None:
        self.overlap, both = overlap, (first, second)
        columns = overlap.form.loads.count
        self.nodes = np.array(
            [
                [loads_of(problem.node_tables[table], columns, (c[node],)) for c in both]
                for node, table in enumerate(problem.node_table_of)
            ]
        ).reshape(-1, 2, columns)
        pairs = zip(problem.edges, problem.edge_table_of, strict=True)
        self.pairs = np.array(
            [
                [
                    [loads_of(problem.edge_tables[t], columns, (a[u], b[v])) for b in both]
                    for a in both
                ]
                for (u, v), t in pairs
            ]
        ).reshape(-1, 2, 2, columns)
        self.ends = np.array(problem.edges, dtype=np.intp).reshape(-1, 2)
        self.layer_of = np.array(overlap.layer_of, dtype=np.intp)

    def pieces_s(self, mask: NDArray[np.bool_]) -> FloatArray:
        """Seconds of each piece where some nodes are those of the second choice.

        Args:
            mask: shape (nodes,).
        """
        own = mask.astype(np.intp)
        source, target = self.ends.T
        rows = np.concatenate(
            [
                self.nodes[np.arange(len(own)), own],
                self.pairs[np.arange(len(source)), own[source], own[target]],
            ]
        )
        layers = np.concatenate([self.layer_of, self.layer_of[source]])
        count = self.overlap.count
        loads = [np.bincount(layers, weights=column, minlength=count) for column in rows.T]
        return self.overlap.pieces_s(np.stack(loads, axis=1))
