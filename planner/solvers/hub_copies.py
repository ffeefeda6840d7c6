"""A bound for graphs with hubs: every segment of the program gets its own copy of a hub.

With copies the graph is narrow and is solved exactly. Copies that disagree make that a lower bound,
and charging each copy for the choices in which it differs from the others raises it (Lagrangian
decomposition; M. Guignard and S. Kim, Mathematical Programming 39, 1987; steps after B. Polyak,
1969). Equal layers mostly agree, and copies that all agree are a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from planner.problem import FloatArray
from planner.solvers.contract import PROVEN_GAP, Meter
from planner.solvers.elimination import compile_program, run_program
from planner.solvers.elimination_order import Plan, make_plan
from planner.solvers.ledger import Ledger, Numbers

Attempt: TypeAlias = Callable[[tuple[int, ...]], float]
"""Tries the hubs at the given candidates; returns the least priced cost that is known by then."""

MAX_SEGMENTS = 256
"""Segments into which the program is cut, at most."""
PATIENCE = 4
"""Passes without a better bound after which the step is halved."""
FIRST_STEP = 1.0
"""Share of Polyak's step."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The graph in which hubs are copied."""

    sizes: tuple[int, ...]
    """Candidates of each node, copies last."""
    edges: tuple[tuple[int, int], ...]
    """The same edges, ending at copies."""
    copies: tuple[tuple[int, ...], ...]
    """Per hub its copies; the first is the hub itself."""
    shares: tuple[FloatArray, ...]
    """Per hub the share of its own cost that each copy bears."""
    plan: Plan


class HubCopies:
    """Raises the bound by charges for disagreement, which are kept from call to call."""

    def __init__(
        self, ledger: Ledger, meter: Meter, hubs: Sequence[int], cut: Cut, work: int
    ) -> None:
        self.work = work
        """Table entries that one elimination visits."""
        sizes = ledger.problem.sizes
        self._meter = meter
        self._hubs = tuple(hubs)
        self._cut = cut
        self._charges: list[FloatArray] = [
            np.zeros((len(copies), sizes[hub]))
            for hub, copies in zip(hubs, cut.copies, strict=True)
        ]

    def run(self, numbers: Numbers, passes: int, attempt: Attempt) -> float:
        """Raise the bound.

        Args:
            numbers: priced vectors and matrices.
            passes: eliminations at most.
            attempt: called with what most copies of each hub have chosen.

        Returns:
            The best bound.
        """
        best, kept, step, waited = -math.inf, self._charges, FIRST_STEP, 0
        for turn in range(passes):
            bound, choice = self._pass(numbers)
            value = attempt(self._votes(choice))
            if bound > best:
                best, kept, waited = bound, self._charges, 0
            slopes = self._slopes(choice)
            steepness = sum(float((slope * slope).sum()) for slope in slopes)
            room = value - bound
            proven = steepness == 0 or room <= PROVEN_GAP * abs(value)
            if proven or turn == passes - 1 or self._meter.is_spent:
                break
            waited += 1
            if waited > PATIENCE:
                step, waited = step / 2, 0
            length = step * room / steepness
            self._charges = [
                charge + length * slope for charge, slope in zip(self._charges, slopes, strict=True)
            ]
        self._charges = kept
        return best

    def _pass(self, numbers: Numbers) -> tuple[float, tuple[int, ...]]:
        vectors = list(numbers.vectors)
        extra = len(self._cut.sizes) - len(numbers.vector_of)
        vector_of = [*numbers.vector_of, *([0] * extra)]
        for hub, copies, shares, charges in zip(
            self._hubs, self._cut.copies, self._cut.shares, self._charges, strict=True
        ):
            own = numbers.vectors[numbers.vector_of[hub]]
            known: dict[bytes, int] = {}
            for copy, share, charge in zip(copies, shares, charges, strict=True):
                vector = share * own + charge
                vector_of[copy] = known.setdefault(vector.tobytes(), len(vectors))
                if vector_of[copy] == len(vectors):
                    vectors.append(vector)
        cut = Numbers(vectors, numbers.matrices, vector_of, numbers.matrix_of)
        program = compile_program(self._cut.plan, vector_of, numbers.matrix_of)
        self._meter.charge(program.work, self._cut.plan.nodes)
        result = run_program(program, cut)
        return result.value, result.choice

    def _chosen(self, choice: Sequence[int]) -> list[list[int]]:
        return [[choice[copy] for copy in copies] for copies in self._cut.copies]

    def _votes(self, choice: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(np.bincount(chosen).argmax()) for chosen in self._chosen(choice))

    def _slopes(self, choice: Sequence[int]) -> list[FloatArray]:
        """How the bound changes with each charge, such that the charges of a hub cancel."""
        slopes = []
        for chosen, charges in zip(self._chosen(choice), self._charges, strict=True):
            taken = np.zeros_like(charges)
            taken[np.arange(len(chosen)), chosen] = 1.0
            slopes.append(taken - taken.mean(axis=0))
        return slopes


def hub_copies(
    ledger: Ledger,
    meter: Meter,
    hubs: Sequence[int],
    largest_bucket: int,
    works: tuple[int, int],
) -> HubCopies | None:
    """The fewest segments with which a pass takes less than the first work, else the second; none
    if no number is enough.
    """
    problem = ledger.problem
    costly: HubCopies | None = None
    for exponent in range(1, MAX_SEGMENTS.bit_length()):
        cut = _cut(ledger, hubs, 1 << exponent, largest_bucket)
        if cut.plan.largest > largest_bucket:
            continue
        extra = len(cut.sizes) - len(problem.node_table_of)
        vectors = [*problem.node_table_of, *([0] * extra)]
        one_pass = compile_program(cut.plan, vectors, problem.edge_table_of).work
        if one_pass <= works[0]:
            return HubCopies(ledger, meter, hubs, cut, one_pass)
        if one_pass <= works[1] and costly is None:
            costly = HubCopies(ledger, meter, hubs, cut, one_pass)
    return costly


def _cut(ledger: Ledger, hubs: Sequence[int], segments: int, give_up_above: int) -> Cut:
    problem = ledger.problem
    sizes, nodes = list(problem.sizes), len(problem.node_table_of)
    copy_of: dict[tuple[int, int], int] = {}
    uses: dict[int, int] = {}
    copies: dict[int, list[int]] = {hub: [] for hub in hubs}

    def at(node: int, other: int) -> int:
        if node not in copies or other in copies:
            return node
        key = (node, other * segments // nodes)
        if key not in copy_of:
            copy_of[key] = len(sizes) if copies[node] else node
            if copies[node]:
                sizes.append(sizes[node])
            copies[node].append(copy_of[key])
        uses[copy_of[key]] = uses.get(copy_of[key], 0) + 1
        return copy_of[key]

    edges = tuple((at(u, v), at(v, u)) for u, v in problem.edges)
    owned = tuple(tuple(copies[hub] or [hub]) for hub in hubs)
    shares = []
    for group in owned:
        counts = np.array([uses.get(copy, 1) for copy in group], dtype=np.float64)
        shares.append(counts / counts.sum())
    plan = make_plan(sizes, edges, give_up_above=give_up_above)
    return Cut(tuple(sizes), edges, owned, tuple(shares), plan)
