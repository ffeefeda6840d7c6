"""Why not another way: the search again with a restriction, and the difference split by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_enums import Cause
from planner.constraints.pinning import pinned_candidates
from planner.constraints.pins import pins_of
from planner.explain.difference_by_cause import compared, deltas_of, difference_of, without_plan
from planner.explain.plan_problem import PlanProblem, problem_of, step_s
from planner.explain.plan_request import request_of, source_of, whole_request_of
from planner.explain.reasons import Subject
from planner.explain.restricted_problem import Answer
from planner.explain.terms import ROUNDING, Term, Terms, by_label
from planner.lowering.liveness import analyse
from planner.pipeline.baselines import batch_places
from planner.pipeline.one_batch import PreparedModel, search_batch
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.requests.option_texts import pins as hard_pins
from planner.requests.search_request import split_pins, with_restriction
from planner.search import search
from report.explanation import CauseDelta, WhyNot
from topology.cluster import Cluster

Report = Callable[[str], None]


def why_not(plan: Plan, asked: str, report: Report = lambda _: None) -> WhyNot:
    """The plan beside the best one under a restriction, which is searched on the plan's machine.

    Args:
        plan: nothing else is needed.
        asked: degrees such as `tp=8,dp=2`, or a pin, `NAME=((2,4),(4,1))`. Of a plan for a global
            batch also `pp=4` and `mb=2`; a pin keeps its stages and micro-batches as they are, one
            with a price leaves them open.
        report: receives progress.

    Raises:
        RequestError: the restriction is none.
    """
    cluster = Cluster.from_dict(plan.cluster)
    pinned = "(" in asked
    priced = pinned and bool(split_pins([asked])[1])
    if pinned and not priced and not plan.pipeline.is_single:
        return why_not_pinned(plan, asked)
    if "global_batch" not in plan.request or (pinned and plan.pipeline.is_single):
        request = with_restriction(request_of(plan), asked, "--why-not")
        ready = PreparedModel(
            analyse(plan.graph, training=request.training), (), batch_places(plan.graph)
        )
        return _compared(
            plan, asked, lambda: search_batch(plan.graph, cluster, request, report, ready)
        )
    request = with_restriction(whole_request_of(plan), asked, "--why-not")
    source = source_of(plan)
    return _compared(plan, asked, lambda: search(source, cluster, request, report))


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
    if restricted.global_batch is None and plan.pipeline.is_single:
        return _compared(plan, asked, lambda: search_batch(graph, cluster, restricted, report))
    return _compared(plan, asked, lambda: search(graph, cluster, restricted, report))


def _compared(plan: Plan, asked: str, find: Callable[[], Plan]) -> WhyNot:
    try:
        return difference_of(plan, find(), asked)
    except InfeasibleError as error:
        needed = error.needed_bytes
        memory = deltas_of(plan.estimate.memory_by_cause, error.contributors, memory=True)
        return without_plan(plan, asked, "does not fit", error.what, needed, memory)
    except RequestError as error:
        if "--why-not" in str(error):
            raise
        return without_plan(plan, asked, "impossible", str(error).splitlines()[0], None, ())


@dataclass(frozen=True, slots=True, eq=False)
class _PinnedPart:
    """The best answer of one part of the machine with pins on its operators."""

    part: int
    case: PlanProblem
    answer: Answer


def why_not_pinned(plan: Plan, asked: str) -> WhyNot:
    """A plan with stages beside the best one with a pin, its stages and micro-batches kept.

    Args:
        plan: with a pipeline.
        asked: `NAME=((2,4),(4,1))`; the name may have wildcards.

    Raises:
        RequestError: it names no operator, or cuts one as it cannot be.
    """
    found = [*_pinned_parts(plan, asked)]
    short = [each for each in found if not each.answer.fits]
    if short:
        text = "nothing fits with it in the memory of a stage"
        return without_plan(plan, asked, "does not fit", text, short[0].answer.peak_bytes, ())
    step_time_s = step_s(plan, {each.part: each.answer.cost_s for each in found})
    time = _pinned_time(found, step_time_s - plan.estimate.step_time_s)
    peaks = [stage.peak_memory_bytes for stage in plan.pipeline.stages]
    return replace(
        compared(plan, asked, step_time_s, time, [n for each in found for n in _changed(each)]),
        restricted_peak_bytes=max(*(each.answer.peak_bytes for each in found), *peaks),
        notes=("stages, micro-batches and blocks computed again are as planned",),
    )


def _pinned_parts(plan: Plan, asked: str) -> Iterator[_PinnedPart]:
    pipeline = plan.pipeline
    pins = pins_of(plan.graph, hard_pins([asked]))
    stages = {op.name: op.stage for op in plan.operators}
    for part in sorted({stages[pin.op.name] % pipeline.parts for pin in pins}):
        case = problem_of(plan, part)
        forced = pinned_candidates(case.lowered, pins)
        if not case.posed.is_allowed(forced):
            raise RequestError(
                f"what the plan was asked for forbids it\n  at:  --why-not {asked}\n"
                "  fix: ask for something else"
            )
        yield _PinnedPart(part, case, case.posed.thorough().answer(forced))


def _pinned_time(found: list[_PinnedPart], delta_s: float) -> tuple[CauseDelta, ...]:
    """What the parts in question work by cause, and what the step takes less or more beside it."""
    before = _by_cause([Terms(e.case.lowered).of_choice(e.case.choice) for e in found])
    after = _by_cause([Terms(e.case.lowered).of_choice(e.answer.choice) for e in found])
    rest = delta_s - (math.fsum(after.values()) - math.fsum(before.values()))
    if abs(rest) > ROUNDING * math.fsum(before.values()):
        after[Cause.OTHER_STAGES] = rest
    return deltas_of(before, after, memory=False)


def _by_cause(parts: Iterable[Iterable[Term]]) -> dict[str, float]:
    return by_label(term for part in parts for term in part)


def _changed(found: _PinnedPart) -> Iterator[str]:
    """Operators that are split otherwise."""
    case = found.case
    for number, (old, new) in enumerate(zip(case.choice, found.answer.choice, strict=True)):
        subject = Subject(case, number)
        if subject.node.candidates is not None and subject.looks[old] != subject.looks[new]:
            yield subject.node.origin.name
