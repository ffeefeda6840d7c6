"""A plan in the large: what costs most, what limits it, what comes next, and faster links."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from exporters.folding import folded
from ir.plan import Baseline, Plan
from planner.explain.case import Case, case_of
from planner.explain.causes import EQUAL, Contest, causes
from planner.explain.memory_price import memory_prices
from planner.explain.operator import delta_by_cause, guided, memory_status
from planner.explain.posed import Answer
from planner.explain.reasons import does_not_fit, is_missed, missed, node_name, reason_of
from planner.explain.records import (
    FasterLink,
    MemoryHolder,
    OperatorCost,
    PlanExplanation,
    Rival,
)
from planner.explain.subject import Subject
from planner.explain.terms import Term, Terms
from planner.lowered import NodeKind
from topology.cluster import Cluster, Tier

OPERATORS = 10
"""Groups of equal operators that are listed."""
CONTENDERS = 5
"""Groups of operators for which the best other way is sought."""
TRIED = 2
"""Costs that are tried as the reason of each, in large problems."""
LINK_FACTOR = 2.0
WORTHWHILE = 1e-9
"""Relative gain that makes another plan better."""

Report = Callable[[str], None]


def summarised(plan: Plan, case: Case, report: Report = lambda _: None) -> PlanExplanation:
    """The summary of a plan.

    Args:
        plan: without pipeline stages.
        case: the same as a problem.
        report: receives progress.
    """
    report("the price of memory")
    prices = memory_prices(case.posed)
    case = guided(case, prices)
    groups = _groups(case)
    operators = sorted((_cost(case, each) for each in groups), key=lambda c: (-c.time_s, c.example))
    return PlanExplanation(
        step_time_s=case.plan_answer.cost_s,
        bound_s=plan.bound.bound_s,
        proof=plan.bound.proof,
        time_by_cause=dict(plan.estimate.time_by_cause),
        operators=tuple(operators[:OPERATORS]),
        memory=memory_status(case, prices),
        holders=holders_of(case),
        rivals=_rivals(plan, case, operators, report),
        links=tuple(_link(plan, tier.name, report) for tier in tiers_of(plan)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Operators of one pattern of names with equal cuts."""

    name: str
    nodes: tuple[int, ...]


def _groups(case: Case) -> list[_Group]:
    found: dict[tuple[str, str, str], list[int]] = {}
    ops = {op.name: op for op in case.graph.ops}
    for number, node in enumerate(case.lowered.nodes):
        if node.kind is not NodeKind.OPERATOR:
            continue
        op, subject = ops[node.name], Subject(case, number)
        cuts = subject.cuts_text(case.choice[number])
        found.setdefault((folded(op.scope or op.name), op.label, cuts), []).append(number)
    return [_Group(name, tuple(nodes)) for (name, _, _), nodes in found.items()]


def _cost(case: Case, group: _Group) -> OperatorCost:
    terms = [term for number in group.nodes for term in _charged(case, number)]
    subject = Subject(case, group.nodes[0])
    return OperatorCost(
        name=group.name,
        label=subject.label(),
        example=subject.node.name,
        count=len(group.nodes),
        compute_s=math.fsum(t.time_s for t in terms if not t.tier),
        communication_s=math.fsum(t.time_s for t in terms if t.tier),
        cuts=subject.cuts_text(case.choice[subject.number]),
    )


def _charged(case: Case, number: int) -> list[Term]:
    """What an operator does, and what is moved for it: the edges into it and its parameters'."""
    terms, choice = Terms(case.lowered), case.choice
    out = [*terms.of_node(number, choice[number])]
    for index, edge in enumerate(case.lowered.edges):
        if edge.target == number:
            out += terms.of_edge(index, choice[edge.source], choice[edge.target])
    return out


def holders_of(case: Case) -> tuple[MemoryHolder, ...]:
    """Who holds the memory at the plan's peak, by cause."""
    problem, choice = case.posed.problem, case.choice
    profile = problem.memory_profile(choice)
    peak = int(profile.argmax()) if len(profile) else 0
    held: dict[str, list[tuple[float, str]]] = {}
    for number, node in enumerate(case.lowered.nodes):
        table = problem.node_tables[problem.node_table_of[number]]
        for vector, (start, end), cause in zip(
            table.memory_bytes, problem.node_intervals[number], node.memory_causes, strict=True
        ):
            if start <= peak < end:
                nbytes = float(vector[choice[number]])
                held.setdefault(cause, []).append((nbytes, node_name(case, number)))
    for index, edge in enumerate(case.lowered.edges):
        matrices = problem.edge_tables[problem.edge_table_of[index]].memory_bytes
        for matrix, (start, end) in zip(matrices, problem.edge_intervals[index], strict=True):
            if start <= peak < end:
                nbytes = float(matrix[choice[edge.source], choice[edge.target]])
                held.setdefault("gathered copies", []).append((nbytes, edge.tensor))
    out = [
        MemoryHolder(cause, math.fsum(n for n, _ in own), max(own)[1], max(own)[0])
        for cause, own in held.items()
    ]
    return tuple(sorted((h for h in out if h.nbytes > 0), key=lambda h: -h.nbytes))


def _rivals(
    plan: Plan, case: Case, operators: Sequence[OperatorCost], report: Report
) -> tuple[Rival, ...]:
    """The best other way for each of the dearest operators, and the baselines."""
    out = [_of_baseline(baseline, case.plan_answer.cost_s) for baseline in plan.baselines]
    for each in operators[:CONTENDERS]:
        report(f"the next best way for {each.example}")
        found = otherwise(case, case.node_of(each.example))
        out += [] if found is None else [found]
    known = sorted((r for r in out if r.delta_s is not None), key=lambda r: (r.delta_s, r.name))
    return (*known, *(r for r in out if r.delta_s is None))


def _of_baseline(baseline: Baseline, plan_s: float) -> Rival:
    step_s = baseline.step_time_s if baseline.fits else None
    delta = None if step_s is None else step_s - plan_s
    reason = baseline.reason or ("it is slower" if delta else "it takes as long")
    return Rival(baseline.name, delta, {}, reason)


def otherwise(case: Case, number: int) -> Rival | None:
    """The best plan in which one operator is split in another way; None if there is none."""
    posed, subject = case.posed, Subject(case, number)
    alike = subject.alike(case.choice[number])
    pool = np.setdiff1d(posed.allowed()[number], alike)
    if not len(pool):
        return None
    near = posed.answer({number: pool})
    if not posed.is_possible(near.choice):
        return None
    rival = {number: subject.alike(near.choice[number])}
    found = posed.settled(near, rival)
    contest = Contest(posed, case.plan_answer, {number: alike}, rival)
    return Rival(
        name=f"{node_name(case, number)} as {subject.cuts_text(found.choice[number])}",
        delta_s=_later_s(case, found) if found.fits else None,
        delta_by_cause=delta_by_cause(case, found.choice) if found.fits else {},
        reason=_reason(case, contest, found),
    )


def _reason(case: Case, contest: Contest, found: Answer) -> str:
    if is_missed(case, found):
        return missed(case, found).text
    why = causes(contest, found, TRIED)
    if why:
        return reason_of(case, why[0], [contest.moved, found.choice]).text
    if not found.fits:
        return does_not_fit(case, found).text
    is_slower = found.cost_s > case.plan_answer.cost_s * (1 + EQUAL)
    return "no cost alone keeps it away" if is_slower else "it is as fast"


def _later_s(case: Case, found: Answer) -> float:
    """Seconds that the whole step takes longer."""
    return case.step_s(found.cost_s) - case.step_s(case.plan_answer.cost_s)


def tiers_of(plan: Plan) -> list[Tier]:
    """Tiers of the plan's machine that have links."""
    return [tier for tier in Cluster.from_dict(plan.cluster).tiers if tier.size > 1]


def _link(plan: Plan, tier: str, report: Report) -> FasterLink:
    report(f"links of tier {tier} twice as fast")
    faster = case_of(plan, Cluster.from_dict(plan.cluster).with_bandwidth(tier, LINK_FACTOR))
    same, best = faster.plan_answer, faster.posed.thorough().answer()
    better = best.fits and best.cost_s < same.cost_s * (1 - WORTHWHILE)
    return FasterLink(tier, LINK_FACTOR, same.cost_s, min(best.value_s, same.cost_s), better)
