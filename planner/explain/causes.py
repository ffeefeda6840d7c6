"""Why a candidate is not chosen: the cost, the hold or the limit without which it would do best.

Every possible cause is lifted in turn and the problem solved again, with the candidate and with
what was chosen. A cost is lifted by letting it be no dearer for anything than it is in the plan.
The part of the difference that goes is the share of the cause; shares of several causes may
overlap. A limit or a pin that decides alone is the reason. Of costs that decide alone, that one
comes first which costs the candidate most while all else stays as planned: the others are ways
round it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from planner.explain.guided import edge_s, local_s, node_s
from planner.explain.restricted_problem import Answer, Forced, Hold, RestrictedProblem
from planner.problem import EdgeTable, NodeTable, Problem

ALL_TERMS = 40
"""Nodes and edges up to which each is tried, where no limit binds: solving is quick then."""
TRIED = 6
"""Nodes and edges that are tried otherwise: those that cost the candidate most."""
PAIRS = 10
"""Pairs of an edge that are tried by themselves, in small problems."""
DIRECT_WEIGHT = 1e-2
"""What counts a second of direct cost where the share of the difference is equal."""
EQUAL = 1e-9
"""Relative difference below which two costs are the same number, computed in another order."""


class ObstacleKind(StrEnum):
    """What keeps a candidate from being chosen."""

    MEMORY = "memory limit"
    HOLD = "pin"
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing without which the candidate would do better."""

    kind: ObstacleKind
    index: int
    """Which hold, node or edge of the problem; -1 for the limit."""
    share_s: float
    """What of the difference goes without it; infinite where nothing fits or follows with it."""
    left_s: float
    """The difference without it; below 0 the candidate would be better than what was chosen."""
    direct_s: float = 0.0
    """What a node or edge costs the candidate more while all else stays as planned, or would cost
    it in the choice that would be best without it."""
    choice: tuple[int, ...] = ()
    """That choice, where one pair of an edge is the cause."""
    is_near: bool = False
    """Whether the share was found at the prices of memory, and not by whole solves."""

    @property
    def is_decisive(self) -> bool:
        """Whether the candidate is no worse without it."""
        return self.left_s <= 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """A candidate of some nodes against what a plan has there."""

    posed: RestrictedProblem
    plan: Answer
    """What was chosen, everywhere."""
    stay: Forced
    """The nodes with what was chosen."""
    rival: Forced
    """The nodes with the candidate in question."""

    @property
    def is_quick(self) -> bool:
        """Whether the fastest plan fits, so that every question is answered by one elimination."""
        if self.posed.guide is not None:
            return False
        free = self.posed.without_limit().answer()
        return self.posed.problem.fits(free.peak_bytes)

    @property
    def near(self) -> Contest:
        """The same, compared around what the candidate changes, where a guide tells that."""
        if self.posed.guide is None:
            return self
        _, choice = self.posed.compared(self.rival)
        return replace(self, posed=self.posed.near_guide(choice, self.rival))

    @property
    def moved(self) -> tuple[int, ...]:
        """The plan with nothing changed but the nodes in question and what cannot but follow."""
        return _moved(self.posed, self.plan.choice, self.rival)

    def difference_s(self, posed: RestrictedProblem) -> float:
        """What the candidate costs more than what was chosen, all else chosen anew."""
        if not posed.is_allowed(self.rival):
            return math.inf
        there, _ = posed.compared(self.rival)
        if math.isinf(there):
            return math.inf
        return there - posed.compared(self.stay)[0] if posed.is_allowed(self.stay) else -there


def causes(contest: Contest, rival: Answer | None, tried: int = TRIED) -> tuple[Obstacle, ...]:
    """What keeps a candidate from being chosen, the weightiest first.

    Args:
        contest: the candidate and what was chosen.
        rival: the best answer with the candidate; None where a hold forbids it.
        tried: nodes and edges that are tried at most, unless the problem is small.
    """
    gap = math.inf if rival is None else rival.value_s - contest.plan.cost_s
    found = [_measured(contest, gap, *each) for each in _unbound(contest, rival)]
    if rival is not None and not any(cause.is_decisive for cause in found):
        # Both sides are solved in the same way, so that what a quick solver misses cancels out.
        near = contest.near
        gap = near.difference_s(near.posed)
        found += [_measured(near, gap, *each) for each in _capped(near, rival, tried)]
        found += _of_entries(near, gap) if gap > EQUAL * contest.plan.cost_s else ()
    real = [cause for cause in found if cause.share_s > EQUAL * contest.plan.cost_s]
    ordered = sorted(real, key=lambda cause: _weight(cause, gap))
    first: dict[tuple[ObstacleKind, int], Obstacle] = {}
    for cause in ordered:
        first.setdefault((cause.kind, cause.index), cause)
    return tuple(first.values())


def _of_entries(contest: Contest, gap: float) -> Iterator[Obstacle]:
    """Single pairs of edges that are all that keeps the candidate away."""
    posed = contest.posed
    if not (math.isfinite(gap) and posed.is_allowed(contest.stay)):
        return
    most = PAIRS if len(posed.problem.sizes) <= ALL_TERMS else 1
    stay_s, _ = posed.compared(contest.stay)
    equal_s = EQUAL * contest.plan.cost_s
    for pair in dear_pairs(posed, contest.rival, stay_s + equal_s, most):
        left = pair.there_s - stay_s
        left = left if left < -equal_s else 0.0
        yield Obstacle(
            ObstacleKind.EDGE, pair.edge, gap - left, left, pair.removed_s, pair.choice,
            is_near=posed.guide is not None,
        )  # fmt: skip


def why_candidate(
    problem: Problem, node: int, candidate: int, holds: Sequence[Hold] = ()
) -> tuple[Obstacle, ...]:
    """Why a node of a problem at hand does not have a candidate, the weightiest cause first.

    Args:
        problem: numbers alone, with its limit and without the holds.
        node: which one.
        candidate: one that the best choice does not have; empty causes where it has.
        holds: what the user asked of nodes.
    """
    posed = RestrictedProblem(problem, tuple(holds)).thorough()
    plan, rival = posed.answer(), {node: np.array([candidate])}
    stay = {node: np.array([plan.choice[node]])}
    found = posed.answer(rival) if posed.is_allowed(rival) else None
    return causes(Contest(posed, plan, stay, rival), found)


def _unbound(
    contest: Contest, rival: Answer | None
) -> Iterator[tuple[ObstacleKind, int, RestrictedProblem]]:
    """The problem without each hold, and without the limit."""
    posed = contest.posed
    for number in range(len(posed.holds)):
        yield ObstacleKind.HOLD, number, posed.without_hold(number)
    guided = posed.guide is not None
    if math.isfinite(posed.limit_bytes) and (guided or _may_bind(contest, rival)):
        yield ObstacleKind.MEMORY, -1, posed.without_limit()


def _measured(
    contest: Contest, gap: float, kind: ObstacleKind, index: int, other: RestrictedProblem
) -> Obstacle:
    left = contest.difference_s(other)
    share = gap - left if math.isfinite(left) else 0.0
    if abs(left) <= EQUAL * contest.plan.cost_s:
        left = 0.0
    direct = 0.0
    if kind in {ObstacleKind.NODE, ObstacleKind.EDGE}:
        problem, term = contest.posed.problem, (kind, index)
        direct = term_s(problem, term, contest.moved) - term_s(problem, term, contest.plan.choice)
    return Obstacle(kind, index, share, left, direct, is_near=other.guide is not None)


def _weight(cause: Obstacle, gap: float) -> tuple[bool, float, float, int]:
    bound = cause.kind in {ObstacleKind.MEMORY, ObstacleKind.HOLD} and cause.is_decisive
    weight = min(cause.share_s, gap) + DIRECT_WEIGHT * max(cause.direct_s, 0.0)
    return not bound, -weight, cause.left_s, cause.index


def _may_bind(contest: Contest, rival: Answer | None) -> bool:
    """Whether the limit can have a say: the best answers without it do not fit."""
    if rival is None:
        return True
    free = contest.posed.without_limit()
    peaks = [free.answer(own).peak_bytes for own in (contest.rival, contest.stay)]
    return any(not contest.posed.problem.fits(peak) for peak in peaks)


def _capped(
    contest: Contest, rival: Answer, tried: int
) -> Iterator[tuple[ObstacleKind, int, RestrictedProblem]]:
    """Problems in which one cost is nowhere higher than in the plan."""
    problem, chosen = contest.posed.problem, contest.plan.choice
    for kind, index in _suspects(contest, rival, tried):
        if kind is ObstacleKind.NODE:
            table = problem.node_tables[problem.node_table_of[index]]
            at, loads = chosen[index], table.loads
            node = replace(
                table,
                time_s=np.minimum(table.time_s, table.time_s[at]),
                loads=None if loads is None else np.minimum(loads, loads[:, at, None]),
            )
            other = _with_node(problem, index, node)
        else:
            first, second = problem.edges[index]
            matrix = problem.edge_tables[problem.edge_table_of[index]]
            most = np.minimum(matrix.time_s, matrix.time_s[chosen[first], chosen[second]])
            barred = matrix.time_s == contest.posed.impossible_s
            loads = matrix.loads
            if loads is not None:
                own = loads[:, chosen[first], chosen[second], None, None]
                loads = np.where(barred, loads, np.minimum(loads, own))
            edge = replace(matrix, time_s=np.where(barred, matrix.time_s, most), loads=loads)
            other = _with_edge(problem, index, edge)
        yield kind, index, replace(contest.posed, problem=other)


def _suspects(contest: Contest, rival: Answer, tried: int) -> list[tuple[ObstacleKind, int]]:
    """Nodes and edges that may cost the candidate more than the plan."""
    problem, chosen = contest.posed.problem, contest.plan.choice
    every = [(ObstacleKind.NODE, i) for i in range(len(problem.sizes))]
    every += [(ObstacleKind.EDGE, i) for i in range(len(problem.edges))]
    if len(every) <= ALL_TERMS and contest.is_quick:
        return every
    alone = contest.moved
    excess = {
        each: max(
            term_s(problem, each, other) - term_s(problem, each, chosen)
            for other in (rival.choice, alone)
        )
        for each in every
    }
    dear = sorted((e for e in every if excess[e] > 0), key=lambda e: (-excess[e], e))
    return dear[:tried]


def _moved(posed: RestrictedProblem, chosen: Sequence[int], rival: Forced) -> tuple[int, ...]:
    """The plan with nothing changed but the nodes in question and what cannot but follow."""
    for node, candidates in rival.items():
        out = list(chosen)
        own = candidates.tolist()
        out[node] = min(own, key=lambda c: (local_s(posed.problem, chosen, node, c), c))
        chosen = posed.followed(out, node)
    return tuple(chosen)


def term_s(problem: Problem, term: tuple[ObstacleKind, int], choice: Sequence[int]) -> float:
    """Seconds of one node or edge under a choice."""
    kind, index = term
    return (node_s if kind is ObstacleKind.NODE else edge_s)(problem, index, choice)


def _with_node(problem: Problem, index: int, table: NodeTable) -> Problem:
    of = list(problem.node_table_of)
    of[index] = len(problem.node_tables)
    return replace(problem, node_tables=(*problem.node_tables, table), node_table_of=tuple(of))


def _with_edge(problem: Problem, index: int, table: EdgeTable) -> Problem:
    of = list(problem.edge_table_of)
    of[index] = len(problem.edge_tables)
    return replace(problem, edge_tables=(*problem.edge_tables, table), edge_table_of=tuple(of))


SAME = 1e-9
"""Relative difference below which two pairs cost the same."""


@dataclass(frozen=True, slots=True, eq=False)
class DearPair:
    """A pair of an edge without whose cost the candidate would be as good as the plan's."""

    edge: int
    there_s: float
    """What the best choice costs with the candidate and without that cost, in seconds."""
    removed_s: float
    """What it is spared."""
    choice: tuple[int, ...]


def dear_pairs(
    posed: RestrictedProblem, rival: Forced, planned_s: float, most: int
) -> Iterator[DearPair]:
    """Pairs at the edges of the nodes in question that alone keep the candidate away.

    Args:
        posed: the problem.
        rival: the nodes with the candidate in question.
        planned_s: what the best choice costs without the candidate.
        most: pairs of one edge; those of equal cost are one.
    """
    for index in sorted({e for node in rival for e, _ in posed.problem.edges_at[node]}):
        yield from itertools.islice(_of_edge(posed, rival, planned_s, index), most)


def _of_edge(
    posed: RestrictedProblem, rival: Forced, planned_s: float, index: int
) -> Iterator[DearPair]:
    problem = posed.problem
    table = problem.edge_tables[problem.edge_table_of[index]]
    time_s = table.time_s
    can_be = time_s != posed.impossible_s
    least_s = float(time_s[can_be].min(initial=math.inf))
    pairs = _pairs(problem, index, rival) & can_be & (time_s > least_s)
    while pairs.any():
        loads = table.loads
        if loads is not None:
            least = np.unravel_index(np.where(can_be, time_s, np.inf).argmin(), time_s.shape)
            loads = np.where(pairs, loads[:, least[0], least[1], None, None], loads)
        capped = replace(table, time_s=np.where(pairs, least_s, time_s), loads=loads)
        lifted = replace(posed, problem=_with_edge(problem, index, capped))
        there_s, choice = lifted.compared(rival)
        first, second = problem.edges[index]
        at = (choice[first], choice[second]) if choice else None
        if at is None or there_s > planned_s or not pairs[at]:
            return
        yield DearPair(index, there_s, float(time_s[at]) - least_s, choice)
        pairs &= ~np.isclose(time_s, time_s[at], rtol=SAME, atol=0.0)


def _pairs(problem: Problem, index: int, rival: Forced) -> NDArray[np.bool_]:
    """The pairs of an edge that have the candidate in question."""
    ends = problem.edges[index]
    sizes = [problem.sizes[end] for end in ends]
    rows = [np.isin(np.arange(size), rival[end]) if end in rival else np.ones(size, dtype=bool)
            for end, size in zip(ends, sizes, strict=True)]  # fmt: skip
    return np.outer(*rows).astype(bool)
