"""Why one operator is split, or one tensor laid out, as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.explain.causes import Contest, ObstacleKind, causes
from planner.explain.guided import Guide, at_prices
from planner.explain.plan_problem import PlanProblem
from planner.explain.reasons import Subject, does_not_fit, is_missed, missed, node_name, reason_of
from planner.explain.restricted_problem import (
    Answer,
    MemoryPrices,
    RestrictedProblem,
    memory_prices,
)
from planner.explain.terms import HiddenShare, Terms, by_label
from planner.problem import FloatArray
from planner.reduction.restriction import IndexArray
from report.explanation import (
    Candidate,
    CostPart,
    MemoryStatus,
    Neighbour,
    OperatorExplanation,
    Reason,
)

RIVALS = 3
"""Next best candidates that are shown."""
REASONS = 4
"""Reasons that are kept for each."""
MOST_CHANGED = 12
"""Other decisions that are listed for a candidate."""
GIB = 2**30
SMALL = 300
"""Decisions up to which every question is put to a solver, even where the limit binds."""

Report = Callable[[str], None]
"""Receives one line of progress."""


def explained(
    case: PlanProblem,
    number: int,
    *,
    rivals: int = RIVALS,
    asked: Sequence[int] = (),
    report: Report = lambda _: None,
) -> OperatorExplanation:
    """Why a node of the problem has its candidate.

    Args:
        case: the plan.
        number: the node.
        rivals: how many of the next best candidates to explain.
        asked: candidates to explain in their place: the best one of them, all else chosen anew.
        report: receives progress.
    """
    report("the time that more memory would save")
    prices = memory_prices(case.posed)
    case = guided(case, prices)
    explaining = _Explaining(case, Subject(case, number), prices, report)
    return explaining.run(explaining.next_best(rivals) if not asked else explaining.best_of(asked))


def guided(case: PlanProblem, prices: MemoryPrices) -> PlanProblem:
    """The case with the plan as a guide to what fits, where the limit binds a large problem."""
    if len(case.choice) <= SMALL or not prices.per_byte.any() or not case.plan_answer.fits:
        return case
    paid = at_prices(case.posed.problem, prices.per_byte, case.posed.allowed())
    guide = Guide(case.choice, prices.per_byte, paid.choice or case.choice, paid.cost_s)
    return replace(case, posed=replace(case.posed, guide=guide))


def planned_around(case: PlanProblem, subject: Subject, candidate: int) -> Candidate:
    """One way to split the operator with everything else as planned; infinite where it cannot be.

    What a search would say of it is left out.
    """
    problem, planned, number = case.posed.problem, case.choice, subject.number
    moved = case.posed.followed([*planned[:number], candidate, *planned[number + 1 :]], number)
    inputs, outputs = subject.layouts(candidate)
    costs = parts_of(case, number, moved)
    delta_s = problem.cost_s(moved) - problem.cost_s(planned)
    return Candidate(
        cuts="" if subject.cuts(candidate) is None else subject.cuts_text(candidate),
        inputs=inputs,
        outputs=outputs,
        is_chosen=candidate == planned[number],
        local_s=math.fsum(part.time_s for part in costs),
        parts=costs,
        fixed_delta_s=delta_s if case.posed.is_possible(moved) else math.inf,
        delta_s=None,
        step_time_s=None,
        peak_memory_bytes=None,
        memory_bytes=0.0,
        memory_charge_s=0.0,
    )


def memory_status(case: PlanProblem, prices: MemoryPrices) -> MemoryStatus:
    """How much the limit has a say in a plan."""
    return MemoryStatus(
        limit_bytes=case.posed.limit_bytes,
        peak_bytes=case.plan_answer.peak_bytes,
        is_binding=bool(prices.per_byte.any()),
        price_s_per_gib=prices.per_byte_s * GIB,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """A candidate with the best answer that has it; None where a hold forbids it."""

    candidate: int
    answer: Answer | None


@dataclass(frozen=True, slots=True, eq=False)
class _Explaining:
    case: PlanProblem
    subject: Subject
    prices: MemoryPrices
    report: Report

    @property
    def number(self) -> int:
        return self.subject.number

    @property
    def planned(self) -> int:
        return self.case.choice[self.number]

    def run(self, rivals: Sequence[_Shown]) -> OperatorExplanation:
        """The record with these rivals."""
        chosen = self._candidate(_Shown(self.planned, self.case.plan_answer), ())
        shown = [self._candidate(rival, self._reasons(rival)) for rival in rivals]
        return OperatorExplanation(
            name=self.subject.node.origin.name,
            kind=self.subject.node.kind.value,
            label=self.subject.label(),
            scope=self.subject.scope(),
            step_time_s=self.case.step_s(self.case.plan_answer.cost_s),
            chosen=chosen,
            rivals=tuple(shown),
            neighbours=self._neighbours([self.planned, *(r.candidate for r in rivals)]),
            memory=memory_status(self.case, self.prices),
            candidates=len(set(self.subject.looks)),
        )

    def best_of(self, asked: Sequence[int]) -> list[_Shown]:
        """The best of some candidates, one of them even if a pin forbids all."""
        pool = np.array(sorted(asked), dtype=np.intp)
        if self.case.posed.is_allowed({self.number: pool}):
            return [*self._best_of(pool, self.case.posed, 1)]
        free = _without_holds_on(self.case.posed, self.number)
        return [_Shown(each.candidate, None) for each in self._best_of(pool, free, 1)]

    def next_best(self, count: int) -> list[_Shown]:
        """The next best candidates: the best that is left, again and again.

        Candidates that a pin forbids come after all others.
        """
        posed, number = self.case.posed, self.number
        free = _without_holds_on(posed, number)
        left = np.setdiff1d(np.arange(self.subject.size), self.subject.alike(self.planned))
        allowed = posed.allowed()[number]
        out = [*self._best_of(np.intersect1d(left, allowed), posed, count)]
        if len(out) < count:
            forbidden = self._best_of(np.setdiff1d(left, allowed), free, count - len(out))
            out += [_Shown(each.candidate, None) for each in forbidden]
        return sorted(out, key=lambda s: math.inf if s.answer is None else s.answer.value_s)

    def _best_of(self, pool: IndexArray, posed: RestrictedProblem, count: int) -> Iterator[_Shown]:
        for _ in range(count):
            if not len(pool):
                return
            found = posed.answer({self.number: pool})
            if not found.fits:
                # The smallest choice may be one that cannot be; it stands for its candidate.
                found = replace(
                    found, choice=posed.without_limit().answer({self.number: pool}).choice
                )
            if not posed.is_possible(found.choice):
                return
            alike = self.subject.alike(found.choice[self.number])
            candidate = found.choice[self.number]
            self.report(f"a whole search with {self.subject.cuts_text(candidate)}")
            yield _Shown(candidate, posed.settled(found, {self.number: alike}))
            pool = np.setdiff1d(pool, alike)

    def _reasons(self, rival: _Shown) -> tuple[Reason, ...]:
        case, subject = self.case, self.subject
        if rival.answer is not None and is_missed(case, rival.answer):
            return (missed(case, rival.answer),)
        contest = Contest(
            case.posed,
            case.plan_answer,
            {self.number: subject.alike(self.planned)},
            {self.number: subject.alike(rival.candidate)},
        )
        found = causes(contest, rival.answer)
        alternatives: list[Sequence[int]] = [self._moved(rival.candidate)]
        if rival.answer is not None:
            alternatives.append(rival.answer.choice)
        out = [reason_of(case, cause, alternatives) for cause in found[:REASONS]]
        stuck = rival.answer is not None and not rival.answer.fits
        if rival.answer is not None and stuck and not out:
            out = [does_not_fit(case, rival.answer)]
        return tuple(out)

    def _moved(self, candidate: int) -> tuple[int, ...]:
        """The plan with another candidate here, and what cannot but follow it."""
        choice = list(self.case.choice)
        choice[self.number] = candidate
        return self.case.posed.followed(choice, self.number)

    def _candidate(self, shown: _Shown, reasons: tuple[Reason, ...]) -> Candidate:
        case, problem = self.case, self.case.posed.problem
        moved = self._moved(shown.candidate)
        plan_s = case.plan_answer.cost_s
        answer = shown.answer if shown.answer is not None and shown.answer.fits else None
        return replace(
            planned_around(case, self.subject, shown.candidate),
            fixed_delta_s=problem.cost_s(moved) - plan_s,
            delta_s=None if answer is None else answer.cost_s - plan_s,
            step_time_s=None if answer is None else case.step_s(answer.cost_s),
            peak_memory_bytes=None if answer is None else answer.peak_bytes,
            memory_bytes=self._held_at_peak(moved),
            memory_charge_s=self.prices.charge_s(problem, moved, self.number),
            delta_by_cause={} if answer is None else delta_by_cause(case, answer.choice),
            also_changed=() if answer is None else self._changed(answer.choice),
            reasons=reasons,
        )

    def _held_at_peak(self, choice: Sequence[int]) -> float:
        problem = self.case.posed.problem
        profile = problem.memory_profile(self.case.choice)
        peak = int(profile.argmax()) if len(profile) else 0
        edges = [edge for edge, _ in problem.edges_at[self.number]]
        held = problem.held(choice, [self.number], edges)
        return math.fsum(nbytes for start, end, nbytes in held if start <= peak < end)

    def _changed(self, choice: Sequence[int]) -> tuple[str, ...]:
        """Other decisions that look different, by name."""
        case, out = self.case, []
        for number, (old, new) in enumerate(zip(case.choice, choice, strict=True)):
            other = Subject(case, number)
            if number != self.number and old != new and other.layouts(old) != other.layouts(new):
                out.append(node_name(case, number))
        rest = [f"and {len(out) - MOST_CHANGED} more"] if len(out) > MOST_CHANGED else []
        return (*out[:MOST_CHANGED], *rest)

    def _neighbours(self, candidates: Sequence[int]) -> tuple[Neighbour, ...]:
        terms = Terms(self.case.lowered)
        hidden = [terms.hidden_share(self._moved(candidate)) for candidate in candidates]
        ways = list(zip(candidates, hidden, strict=True))
        edges = self.case.lowered.problem.edges_at[self.number]
        found = [self._neighbour(index, other, ways) for index, other in edges]
        return tuple(sorted(found, key=lambda n: -n.time_s))

    def _neighbour(
        self, index: int, other: int, ways: Sequence[tuple[int, HiddenShare]]
    ) -> Neighbour:
        """What an edge costs with each candidate, given what hides beside it.

        Where messages of the edge hide, all candidates are weighed as if so much of each kind hid.
        """
        case, terms = self.case, Terms(self.case.lowered)
        edge, planned = case.lowered.edges[index], list(case.choice)
        matrix = case.posed.problem.edge_tables[case.posed.problem.edge_table_of[index]].time_s
        ours_first, at = edge.source == self.number, case.choice[other]

        def exposed(candidate: int, hidden: HiddenShare) -> float:
            planned[self.number] = candidate
            return math.fsum(term.exposed_s for term in terms.of_edge(index, planned, hidden))

        costs = matrix[:, at] if ours_first else matrix[at, :]
        told = tuple(exposed(*way) for way in ways)
        if told[0] < costs[self.planned]:
            costs = np.array([exposed(c, ways[0][1]) for c in range(len(costs))])
        table = edge.target_layouts if ours_first else edge.source_layouts
        state = table.states[table.of[case.lowered.nodes[other].row(at)]]
        best = self._least(costs)
        return Neighbour(
            name=case.lowered.nodes[other].origin.name,
            kind=case.lowered.nodes[other].kind.value,
            tensor=case.plain(edge.tensor),
            layout=Subject(case, other).layout_text(state.forward),
            time_s=told[0],
            costs_s=told,
            wants=self.subject.cuts_text(best),
            least_s=float(costs[best]),
        )

    def _least(self, costs: FloatArray) -> int:
        """The candidate that costs least at an edge: the plan's, if it is one of them."""
        if costs[self.planned] <= costs.min():
            return self.planned
        return int(costs.argmin())


def parts_of(case: PlanProblem, number: int, choice: Sequence[int]) -> tuple[CostPart, ...]:
    """What a node and the edges at it take under a choice, what takes most first."""
    found = []
    for term in Terms(case.lowered).near(choice, number):
        tensor = neighbour = ""
        if term.owner is ObstacleKind.EDGE:
            edge = case.lowered.edges[term.index]
            other = edge.target if edge.source == number else edge.source
            tensor, neighbour = case.plain(edge.tensor), node_name(case, other)
        shown = term.label, term.cause, tensor, neighbour, term.exposed_s, term.hidden_s
        found.append(CostPart(*shown))
    return tuple(sorted(found, key=lambda part: (-part.time_s, -part.hidden_s)))


def delta_by_cause(case: PlanProblem, choice: Sequence[int]) -> Mapping[str, float]:
    """What a choice costs more than the plan, by cause; sums to the difference of the two."""
    terms = Terms(case.lowered)
    before, after = by_label(terms.of_choice(case.choice)), by_label(terms.of_choice(choice))
    found = {
        label: after.get(label, 0.0) - before.get(label, 0.0)
        for label in dict.fromkeys((*before, *after))
    }
    return {label: each for label, each in found.items() if each}


def _without_holds_on(posed: RestrictedProblem, number: int) -> RestrictedProblem:
    for index in reversed(range(len(posed.holds))):
        if number in posed.holds[index].allowed:
            posed = posed.without_hold(index)
    return posed
