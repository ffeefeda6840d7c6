"""Why not another way: the search again with a restriction, and the difference split by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ir.graph import OpGraph
from ir.plan import Plan
from planner.asking.wishes import with_restriction
from planner.baselines import batch_places
from planner.explain.asked import request_of
from planner.explain.records import Record
from planner.joint import search_whole
from planner.liveness import analyse
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import Ready, search
from topology.cluster import Cluster
from topology.units import format_seconds

MOST_CHANGES = 20
"""Changed operators that are listed."""

COMPUTE = ("compute forward", "compute backward", "optimizer update", "recompute")

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CauseDelta(Record):
    """One cause of time, or of memory, in both plans."""

    group: str
    """`compute`, `collective`, `bubble` or `memory`."""
    cause: str
    """As the plans have it: `compute forward`, `all_reduce in card`, `activations`."""
    collective: str
    """Kind of the collective; empty for others."""
    tier: str
    """Outermost tier that the collective crosses; empty for others."""
    before: float
    """Seconds of a step, or bytes per device, in the plan."""
    after: float
    """The same with the restriction."""
    delta: float
    """`after` less `before`."""


@dataclass(frozen=True, slots=True)
class WhyNot(Record):
    """A plan beside the best one under a restriction."""

    asked: str
    """The restriction, such as `tp=8,dp=2`."""
    verdict: str
    """`slower`, `faster`, `equal`, `does not fit` or `impossible`."""
    text: str
    """The same as a sentence."""
    step_time_s: float
    """Of the plan."""
    restricted_s: float | None
    """Of the best plan under the restriction; None where there is none."""
    delta_s: float | None
    """Seconds that it takes more."""
    bound_s: float | None
    """No plan under the restriction takes less."""
    time: tuple[CauseDelta, ...]
    """The difference by cause, the largest first; sums to `delta_s`."""
    memory: tuple[CauseDelta, ...]
    """The difference of the peaks by cause, the largest first."""
    peak_memory_bytes: float
    restricted_peak_bytes: float | None
    """Where nothing fits, the least that was found."""
    memory_limit_bytes: float
    changed: int
    """Operators that are split otherwise."""
    changes: tuple[str, ...]
    """The first of them."""
    notes: tuple[str, ...]
    """What the restricted search assumed."""


def why_not(plan: Plan, asked: str, report: Report = lambda _: None) -> WhyNot:
    """The plan beside the best one under a restriction, which is searched on the plan's machine.

    Args:
        plan: without pipeline stages; nothing else is needed.
        asked: degrees such as `tp=8,dp=2`, or a pin, `NAME=((2,4),(4,1))`.
        report: receives progress.

    Raises:
        RequestError: the restriction is none, or the plan has stages.
    """
    if plan.pipeline is not None:
        raise RequestError(
            "what a plan with stages would be otherwise needs the model\n  at:  --why-not\n"
            "  fix: planner search MODEL --global-batch N --why-not ..."
        )
    request = with_restriction(request_of(plan), asked, "--why-not")
    ready = Ready(analyse(plan.graph, training=request.training), (), batch_places(plan.graph))
    cluster = Cluster.from_dict(plan.cluster)
    return _compared(plan, asked, lambda: search(plan.graph, cluster, request, report, ready))


def why_not_search(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    plan: Plan,
    asked: str,
    report: Report = lambda _: None,
) -> WhyNot:
    """The same for a plan that was just found.

    Args:
        graph: as imported.
        cluster: the machine.
        request: which the plan answers.
        plan: with or without stages.
        asked: as in `why_not`; `pp=4` where the request has a global batch.
        report: receives progress.

    Raises:
        RequestError: the restriction is none, or the request cannot have it.
    """
    restricted = with_restriction(request, asked, "--why-not")
    find = search if restricted.global_batch is None else search_whole
    return _compared(plan, asked, lambda: find(graph, cluster, restricted, report))


def _compared(plan: Plan, asked: str, find: Callable[[], Plan]) -> WhyNot:
    try:
        return difference_of(plan, find(), asked)
    except InfeasibleError as error:
        needed = error.needed_bytes
        memory = _deltas(plan.estimate.memory_by_cause, error.contributors, memory=True)
        return _without_plan(plan, asked, "does not fit", error.what, needed, memory)
    except RequestError as error:
        if "--why-not" in str(error):
            raise
        return _without_plan(plan, asked, "impossible", str(error).splitlines()[0], None, ())


def difference_of(plan: Plan, other: Plan, asked: str) -> WhyNot:
    """Two plans of one model, the second under a restriction."""
    first, second = plan.estimate, other.estimate
    delta = second.step_time_s - first.step_time_s
    splits = {op.name: (op.inputs, op.outputs) for op in plan.operators}
    changed = [op.name for op in other.operators if splits.get(op.name) != (op.inputs, op.outputs)]
    verdict = "equal" if abs(delta) <= 1e-9 * first.step_time_s else "slower"
    verdict = "faster" if verdict == "slower" and delta < 0 else verdict
    time = _deltas(first.time_by_cause, second.time_by_cause, memory=False)
    return WhyNot(
        asked=asked,
        verdict=verdict,
        text=_sentence(verdict, delta, time),
        step_time_s=first.step_time_s,
        restricted_s=second.step_time_s,
        delta_s=delta,
        bound_s=other.bound.bound_s,
        time=time,
        memory=_deltas(first.memory_by_cause, second.memory_by_cause, memory=True),
        peak_memory_bytes=first.peak_memory_bytes,
        restricted_peak_bytes=second.peak_memory_bytes,
        memory_limit_bytes=first.memory_limit_bytes,
        changed=len(changed),
        changes=tuple(changed[:MOST_CHANGES]),
        notes=tuple(note for note in other.notes if note not in plan.notes),
    )


def _without_plan(
    plan: Plan,
    asked: str,
    verdict: str,
    text: str,
    needed: float | None,
    memory: tuple[CauseDelta, ...],
) -> WhyNot:
    return WhyNot(
        asked=asked, verdict=verdict, text=text,
        step_time_s=plan.estimate.step_time_s, restricted_s=None, delta_s=None, bound_s=None,
        time=(), memory=memory,
        peak_memory_bytes=plan.estimate.peak_memory_bytes, restricted_peak_bytes=needed,
        memory_limit_bytes=plan.estimate.memory_limit_bytes,
        changed=0, changes=(), notes=(),
    )  # fmt: skip


def _deltas(
    before: Mapping[str, float], after: Mapping[str, float], *, memory: bool
) -> tuple[CauseDelta, ...]:
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


def _sentence(verdict: str, delta: float, time: Sequence[CauseDelta]) -> str:
    if verdict == "equal":
        return "it takes as long as the plan"
    if verdict == "faster":
        return "it is faster: the search for the plan ended too early"
    worse = [each for each in time if each.delta > 0]
    gained = -math.fsum(each.delta for each in time if each.delta < 0)
    lost = math.fsum(each.delta for each in worse)
    share = f"{100 * worse[0].delta / lost:.0f} %" if worse and lost > 0 else "most"
    first = worse[0].cause.replace("_", "-") if worse else "other things"
    rest = f"; what it saves elsewhere is {100 * gained / lost:.0f} % of that" if gained > 0 else ""
    return f"it is {format_seconds(delta)} slower: {share} of what it costs more is {first}{rest}"
