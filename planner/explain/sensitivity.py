"""How far bandwidth, batch and memory may move before another plan is better.

From where the plan stands every quantity is doubled or halved until the plan is no longer the best,
and the place of the change is found by bisection. Between two steps a plan may lose and win again:
what is found is one change, mostly the nearest. The limit of memory changes no price, so that the
tables are made once for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ir.batch import BatchError, with_batch
from ir.plan import Plan
from planner.explain.case import Case, case_of
from planner.explain.reasons import node_name
from planner.explain.records import Record
from planner.explain.subject import Subject
from planner.request import RequestError
from topology.cluster import Cluster

FARTHEST = 16.0
"""Factor on every quantity up to which a change is looked for."""
BISECTIONS = 6
"""The place of a change is found to a 64th of a doubling, about 1 %."""
WORTHWHILE = 1e-6
"""Relative gain that makes another plan better."""
MOST_SHOWN = 5

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """Where the plan stops being the best."""

    value: float
    """The first value found at which another plan is better."""
    factor: float
    """The same over the present value."""
    still: float
    """The last value found at which this plan is the best."""
    gain_s: float | None
    """Seconds of a step that the other plan saves there; None where this one cannot be."""
    changes: tuple[str, ...]
    """Operators and tensors that it lays out otherwise, the first of them."""
    text: str


@dataclass(frozen=True, slots=True)
class Range(Record):
    """How far one quantity may move."""

    quantity: str
    """`bandwidth of TIER`, `batch` or `memory`."""
    unit: str
    """`B/s`, `samples` or `B`."""
    value: float
    """The present one."""
    below: Turn | None
    """Change towards less; None if there is none down to `lowest`."""
    above: Turn | None
    """Change towards more; None if there is none up to `highest`."""
    lowest: float
    """The smallest value that was tried."""
    highest: float
    """The largest value that was tried; infinite, hence None in JSON, for all."""


@dataclass(frozen=True, slots=True)
class Sensitivity(Record):
    """How far everything may move, one quantity at a time."""

    step_time_s: float
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Verdict:
    """The plan beside the best one at some value."""

    is_best: bool
    gain_s: float | None = None
    changes: tuple[str, ...] = ()
    reason: str = "another plan is better"


_Judge = Callable[[float], _Verdict]


def sensitivity(plan: Plan, report: Report = lambda _: None) -> Sensitivity:
    """How far bandwidth of every tier, batch and memory may move before the plan changes.

    Args:
        plan: without pipeline stages; nothing else is needed.
        report: receives progress.

    Raises:
        RequestError: the plan has stages.
    """
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
    def judge(rate: float) -> _Verdict:
        return _judged(case_of(plan, cluster.with_bandwidth(tier, rate / value)))

    low, high = value / FARTHEST, value * FARTHEST
    return Range(
        f"bandwidth of {tier}", "B/s", value,
        _turn(judge, value, 0.5, low), _turn(judge, value, 2.0, high), low, high,
    )  # fmt: skip


def _batch(plan: Plan) -> Range:
    batch = plan.graph.batch
    unit = _pieces(plan)

    def judge(size: float) -> _Verdict:
        try:
            case = case_of(plan, graph=with_batch(plan.graph, round(size)))
        except (RequestError, BatchError):
            return _Verdict(False, reason="this plan cannot cut it")
        return _judged(case)

    low = max(float(unit), batch / FARTHEST)
    high = batch * FARTHEST
    return Range(
        "batch", "samples", float(batch),
        _turn(judge, batch, 0.5, low, unit), _turn(judge, batch, 2.0, high, unit), low, high,
    )  # fmt: skip


def _pieces(plan: Plan) -> int:
    """The number that divides every batch that the plan can cut."""
    sizes = {name: size for name, size, _ in plan.mesh}
    cuts = [
        math.prod(sizes[axis] for axis in tensor.layout.dims[0])
        for tensor in plan.tensors
        if tensor.role == "input" and tensor.layout.dims
    ]
    return math.gcd(plan.graph.batch, max(cuts, default=1))


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

        def judge(nbytes: float) -> _Verdict:
            return _judged(case, nbytes)

        above = _turn(judge, limit, 2.0, highest)
    return Range("memory", "B", limit, below, above, own.peak_bytes, highest)


def _judged(case: Case, limit_bytes: float | None = None) -> _Verdict:
    posed = case.posed if limit_bytes is None else case.posed.with_limit(limit_bytes)
    own, best = case.plan_answer, posed.answer()
    if not posed.problem.fits(own.peak_bytes):
        return _Verdict(False, None, _changes(case, best.choice), "this plan does not fit")
    if not best.fits or best.cost_s >= own.cost_s * (1 - WORTHWHILE):
        return _Verdict(True)
    return _Verdict(False, own.cost_s - best.cost_s, _changes(case, best.choice))


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


def _turn(
    judge: _Judge, value: float, factor: float, farthest: float, unit: int = 0
) -> Turn | None:
    """The change on one side; `unit` is what all values are multiples of, 0 for any."""
    still, moved = value, value
    found = _Verdict(True)
    while found.is_best:
        if moved == farthest:
            return None
        still = moved
        beyond = moved * factor
        moved = max(beyond, farthest) if factor < 1 else min(beyond, farthest)
        moved = _rounded(moved, unit)
        if moved == still:
            return None
        found = judge(moved)
    for _ in range(BISECTIONS):
        middle = _rounded(math.sqrt(still * moved), unit)
        if middle in {still, moved}:
            break
        verdict = judge(middle)
        if verdict.is_best:
            still = middle
        else:
            moved, found = middle, verdict
    return Turn(moved, moved / value, still, found.gain_s, found.changes, found.reason)


def _rounded(value: float, unit: int) -> float:
    return value if not unit else float(max(1, round(value / unit)) * unit)
