"""Two plans side by side, the difference split by cause: what `--why-not` answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ir.causes import cause_text
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.plan_stages import has_equal_stages
from planner.candidates.operators import splits_in
from report.explanation import CauseDelta, WhyNot
from topology.units import format_seconds

MOST_CHANGES = 20
"""Changed operators that are listed."""

FASTER = "it is faster: the search for the plan ended too early"

COMPUTE = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.UPDATE, Cause.RECOMPUTE)


def difference_of(plan: Plan, other: Plan, asked: str) -> WhyNot:
    """Two plans of one model, the second under a restriction."""
    first, second = plan.estimate, other.estimate
    time = deltas_of(first.time_by_cause, second.time_by_cause, memory=False)
    return replace(
        compared(plan, asked, second.step_time_s, time, changed_operators(plan, other)),
        bound_s=other.bound.bound_s,
        memory=deltas_of(first.memory_by_cause, second.memory_by_cause, memory=True),
        restricted_peak_bytes=second.peak_memory_bytes,
        notes=tuple(note for note in other.notes if note not in plan.notes),
    )


def compared(
    plan: Plan,
    asked: str,
    restricted_s: float,
    time: tuple[CauseDelta, ...],
    changed: Sequence[str],
) -> WhyNot:
    """A plan beside one under a restriction.

    Args:
        plan: without it.
        asked: the restriction.
        restricted_s: seconds of a step with it.
        time: what of that differs by cause.
        changed: operators that are split otherwise.
    """
    step_s = plan.estimate.step_time_s
    delta_s = restricted_s - step_s
    verdict = "slower" if delta_s > 0 else "faster"
    if abs(delta_s) <= 1e-9 * step_s:
        verdict = "equal"
    return replace(
        without_plan(plan, asked, verdict, sentence_of(verdict, delta_s, time), None, ()),
        restricted_s=restricted_s,
        delta_s=delta_s,
        time=time,
        changed=len(changed),
        changes=tuple(changed[:MOST_CHANGES]),
    )


def changed_operators(plan: Plan, other: Plan) -> list[str]:
    """Operators that another plan splits otherwise; on other meshes, into other pieces."""
    if plan.mesh == other.mesh and has_equal_stages(plan) and has_equal_stages(other):
        layouts = {op.name: (op.inputs, op.outputs) for op in plan.operators}
        return [o.name for o in other.operators if layouts.get(o.name) != (o.inputs, o.outputs)]
    splits = dict(splits_in(plan))
    return [name for name, cuts in splits_in(other) if splits.get(name) != cuts]


def without_plan(
    plan: Plan,
    asked: str,
    verdict: str,
    text: str,
    needed: float | None,
    memory: tuple[CauseDelta, ...],
) -> WhyNot:
    """A restriction under which there is no plan."""
    return WhyNot(
        asked=asked, verdict=verdict, text=text,
        step_time_s=plan.estimate.step_time_s, restricted_s=None, delta_s=None, bound_s=None,
        time=(), memory=memory,
        peak_memory_bytes=plan.estimate.peak_memory_bytes, restricted_peak_bytes=needed,
        memory_limit_bytes=plan.estimate.memory_limit_bytes,
        changed=0, changes=(), notes=(),
    )  # fmt: skip


def deltas_of(
    before: Mapping[str, float], after: Mapping[str, float], *, memory: bool
) -> tuple[CauseDelta, ...]:
    """What changed by cause, the largest first."""
    out = []
    for cause in dict.fromkeys((*before, *after)):
        first, second = before.get(cause, 0.0), after.get(cause, 0.0)
        if first != second:
            group, kind, tier = ("memory", "", "") if memory else _parts(cause)
            out.append(CauseDelta(group, cause, kind, tier, first, second, second - first))
    return tuple(sorted(out, key=lambda d: (-abs(d.delta), d.cause)))


def _parts(cause: str) -> tuple[str, str, str]:
    """Group, collective and tier of a cause of time."""
    if cause in COMPUTE:
        return "compute", "", ""
    kind, found, tier = cause.partition(" in ")
    if found:
        return "collective", kind, tier
    return "bubble", "", ""


def sentence_of(verdict: str, delta: float, time: Sequence[CauseDelta]) -> str:
    """What came of a restriction, for people."""
    if verdict == "equal":
        return "it takes as long as the plan"
    if verdict == "faster":
        return FASTER
    worse = [each for each in time if each.delta > 0]
    gained = -math.fsum(each.delta for each in time if each.delta < 0)
    lost = math.fsum(each.delta for each in worse)
    share = f"{100 * worse[0].delta / lost:.0f} %" if worse and lost > 0 else "most"
    first = cause_text(worse[0].cause) if worse else "other things"
    rest = f"; what it saves elsewhere is {100 * gained / lost:.0f} % of that" if gained > 0 else ""
    return f"it is {format_seconds(delta)} slower: {share} of what it costs more is {first}{rest}"
