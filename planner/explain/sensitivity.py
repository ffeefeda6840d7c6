"""How far bandwidth, batch and memory may move before another plan is better.

From where the plan stands every quantity is doubled or halved until the plan is no longer the best,
and the place of the change is found by bisection. Between two steps a plan may lose and win again:
what is found is one change, mostly the nearest. The limit of memory changes no price, so that the
tables are made once for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ir.batch import BatchError, with_batch
from ir.plan import Plan
from planner.explain.case import Case, case_of
from planner.explain.reasons import node_name
from planner.explain.sensitivity_whole import pieces_of_batch, whole_sensitivity
from planner.explain.subject import Subject
from planner.explain.turns import Range, Sensitivity, Turn, Verdict, turn
from planner.request import RequestError
from topology.cluster import Cluster

FARTHEST = 16.0
"""Factor on every quantity up to which a change is looked for."""
WORTHWHILE = 1e-6
"""Relative gain that makes another plan better."""
MOST_SHOWN = 5

Report = Callable[[str], None]


def sensitivity(plan: Plan, report: Report = lambda _: None) -> Sensitivity:
    """How far bandwidth of every tier, batch and memory may move before the plan changes.

    Args:
        plan: nothing else is needed. One for a global batch is searched anew at every value.
        report: receives progress.
    """
    if "global_batch" in plan.request:
        return whole_sensitivity(plan, report)
    case = case_of(plan)
    cluster = Cluster.from_dict(plan.cluster)
    ranges = []
    for tier in cluster.tiers:
        if tier.size > 1:
            report(f"bandwidth of {tier.name}")
            ranges.append(_bandwidth(plan, cluster, tier.name, tier.bandwidth_bytes_per_s))
    if plan.graph.batch:
        report("batch")
        ranges.append(_batch(plan))
    report("memory")
    ranges.append(_memory(case))
    return Sensitivity(case.plan_answer.cost_s, tuple(ranges))


def _bandwidth(plan: Plan, cluster: Cluster, tier: str, value: float) -> Range:
    def judge(rate: float) -> Verdict:
        return _judged(case_of(plan, cluster.with_bandwidth(tier, rate / value)))

    low, high = value / FARTHEST, value * FARTHEST
    return Range(
        f"bandwidth of {tier}", "B/s", value,
        turn(judge, value, 0.5, low), turn(judge, value, 2.0, high), low, high,
    )  # fmt: skip


def _batch(plan: Plan) -> Range:
    batch = plan.graph.batch
    unit = pieces_of_batch(plan)

    def judge(size: float) -> Verdict:
        try:
            case = case_of(plan, graph=with_batch(plan.graph, round(size)))
        except (RequestError, BatchError):
            return Verdict(False, reason="this plan cannot cut it")
        return _judged(case)

    low = max(float(unit), batch / FARTHEST)
    high = batch * FARTHEST
    return Range(
        "batch", "samples", float(batch),
        turn(judge, batch, 0.5, low, unit), turn(judge, batch, 2.0, high, unit), low, high,
    )  # fmt: skip


def _memory(case: Case) -> Range:
    """What the plan needs is the least; more is of use only where the limit binds."""
    limit, own = case.posed.limit_bytes, case.plan_answer
    below = Turn(
        own.peak_bytes, own.peak_bytes / limit, own.peak_bytes, None, (),
        "with less this plan does not fit",
    )  # fmt: skip
    free = case.posed.without_limit().answer()
    above, highest = None, math.inf
    if free.peak_bytes > limit and free.cost_s < own.cost_s * (1 - WORTHWHILE):
        highest = free.peak_bytes

        def judge(nbytes: float) -> Verdict:
            return _judged(case, nbytes)

        above = turn(judge, limit, 2.0, highest)
    return Range("memory", "B", limit, below, above, own.peak_bytes, highest)


def _judged(case: Case, limit_bytes: float | None = None) -> Verdict:
    posed = case.posed if limit_bytes is None else case.posed.with_limit(limit_bytes)
    own, best = case.plan_answer, posed.thorough().answer()
    if not posed.problem.fits(own.peak_bytes):
        return Verdict(False, None, _changes(case, best.choice), "this plan does not fit")
    if not best.fits or best.cost_s >= own.cost_s * (1 - WORTHWHILE):
        return Verdict(True)
    return Verdict(False, own.cost_s - best.cost_s, _changes(case, best.choice))


def _changes(case: Case, choice: tuple[int, ...]) -> tuple[str, ...]:
    out: list[str] = []
    for number, (old, new) in enumerate(zip(case.choice, choice, strict=True)):
        subject, name = Subject(case, number), node_name(case, number)
        if old != new and subject.looks[old] != subject.looks[new]:
            out.append(name)
        elif old != new and subject.node.recomputes:
            again = new >= subject.size // 2
            out.append(f"{name} {'computed again' if again else 'kept'}")
    return tuple(out[:MOST_SHOWN])
