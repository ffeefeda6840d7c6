"""A plan in the large: what costs most, what each stage does, what limits it, what comes next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ir.folding import folded
from ir.graph import Role
from ir.plan import Pipeline, Plan, PlannedOperator
from ir.plan_enums import Cause
from ir.plan_estimate import Baseline
from ir.plan_stages import once_in_step, overlap_text, part_times, send_times, stage_plan
from planner.candidates.operators import splits_in
from planner.constraints.pins import cuts_text
from planner.explain.causes import EQUAL, Contest, causes
from planner.explain.operator import delta_by_cause, guided, memory_status
from planner.explain.plan_problem import PlanProblem, problem_of, step_s
from planner.explain.reasons import Subject, does_not_fit, is_missed, missed, node_name, reason_of
from planner.explain.restricted_problem import Answer, memory_prices
from planner.lowering.held import held_of
from planner.repricing.other_machine import repriced
from planner.request import Cuts
from report.explanation import (
    FasterLink,
    MemoryHolder,
    MemoryStatus,
    OperatorCost,
    PlanExplanation,
    Rival,
    StageStatus,
)
from report.operators import OperatorFacts, operator_facts
from topology.cluster import Cluster, Tier
from topology.units import format_bytes, format_seconds

OPERATORS = 10
"""Groups of equal operators that are listed."""
PER_STAGE = 3
"""The same of each stage."""
CONTENDERS = 5
"""Groups of operators for which the best other way is sought."""
TRIED = 2
"""Costs that are tried as the reason of each, in large problems."""
LINK_FACTOR = 2.0
WORTHWHILE = 1e-9
"""Relative gain that makes another plan better."""

Report = Callable[[str], None]


def summary(plan: Plan, report: Report = lambda _: None) -> PlanExplanation:
    """What costs most, what limits memory, the closest rivals, and what faster links would bring.

    Args:
        plan: nothing else is needed.
        report: receives progress.
    """
    whole = _Whole(plan)
    report("time that more memory would save, in the stage that needs most")
    tightest = problem_of(plan, whole.fullest)
    prices = memory_prices(tightest.posed)
    slowest = guided(tightest, prices)
    if whole.slowest != whole.fullest:
        slowest = problem_of(plan, whole.slowest)
        slowest = guided(slowest, memory_prices(slowest.posed))
    memory = memory_status(tightest, prices)
    staged = not plan.pipeline.is_single
    return PlanExplanation(
        step_time_s=plan.estimate.step_time_s,
        bound_s=plan.bound.bound_s,
        proof=plan.bound.proof,
        time_by_cause=dict(plan.estimate.time_by_cause),
        operators=whole.dearest(plan.operators, OPERATORS),
        memory=memory,
        holders=_holders(tightest),
        rivals=_rivals(whole, slowest, report),
        links=tuple(_link(plan, tier.name, report) for tier in _linked_tiers(plan)),
        limits=tuple(_limits(whole, memory)) if staged else (),
        stages=tuple(map(whole.status, range(len(plan.pipeline.stages)))) if staged else (),
    )


@dataclass(frozen=True, eq=False)
class _Whole:
    """A plan with sums over the parts of the machine."""

    plan: Plan

    @property
    def pipeline(self) -> Pipeline:
        return self.plan.pipeline

    @cached_property
    def stage_s(self) -> Sequence[float]:
        """What each part works in a step."""
        return [each * self.pipeline.micro_batches for each in part_times(self.plan)]

    @property
    def slowest(self) -> int:
        """The part that works longest."""
        return max(range(len(self.stage_s)), key=self.stage_s.__getitem__)

    @property
    def fullest(self) -> int:
        """The part that holds most."""
        stages = self.pipeline.stages
        most = max(range(len(stages)), key=lambda number: stages[number].peak_memory_bytes)
        return most % self.pipeline.parts

    @cached_property
    def _facts(self) -> dict[str, OperatorFacts]:
        """What each operator takes."""
        return {facts.planned.name: facts for facts in operator_facts(self.plan)}

    @cached_property
    def _splits(self) -> Mapping[str, Cuts]:
        """Cuts of the operands of every operator, as `--pin` takes them: without constants."""
        graph, found = self.plan.graph, dict(splits_in(self.plan))
        roles = {name: tensor.role for name, tensor in graph.tensors.items()}
        return {
            op.name: tuple(
                cuts
                for name, cuts in zip(op.inputs, found[op.name], strict=False)
                if cuts and roles[name] is not Role.CONSTANT
            )
            for op in graph.ops
        }

    def dearest(
        self, operators: Sequence[PlannedOperator], most: int, stage: int | None = None
    ) -> tuple[OperatorCost, ...]:
        """The dearest of some operators, those of one pattern of names with equal cuts together."""
        groups: dict[tuple[object, ...], list[OperatorFacts]] = {}
        for op in operators:
            key = (folded(op.scope or op.name), op.label, self._splits[op.name])
            groups.setdefault(key, []).append(self._facts[op.name])
        costs = []
        for (name, *_), own in groups.items():
            first = own[0].planned
            costs.append(
                OperatorCost(
                    name=str(name),
                    label=first.label,
                    example=first.name,
                    count=len(own),
                    compute_s=math.fsum(facts.compute_s for facts in own),
                    communication_s=math.fsum(facts.communication_s for facts in own),
                    cuts=cuts_text(self._splits[first.name]),
                    stage=stage,
                )
            )
        return tuple(sorted(costs, key=lambda c: (-c.time_s, c.example))[:most])

    def status(self, number: int) -> StageStatus:
        """What one stage does in a step."""
        plan, own, pipeline = self.plan, self.pipeline.stages[number], self.pipeline
        times, part = pipeline.micro_batches, number % pipeline.parts
        each = [item.exposed_s for item in stage_plan(plan, number).collectives]
        once = [item.exposed_s for item in once_in_step(plan, number)]
        return StageStatus(
            stage=number,
            part=part,
            operators=own.end - own.start,
            forward_s=own.forward_s,
            backward_s=own.backward_s,
            once_s=own.once_s,
            work_s=(own.forward_s + own.backward_s) * times + own.once_s,
            waits_s=max(plan.estimate.step_time_s - self.stage_s[part], 0.0),
            communication_s=times * math.fsum((*each, *send_times(plan, number))) + math.fsum(once),
            peak_memory_bytes=own.peak_memory_bytes,
            in_flight=own.in_flight,
            dearest=self.dearest(plan.operators[own.start : own.end], PER_STAGE, number),
        )


def _limits(whole: _Whole, memory: MemoryStatus) -> Iterator[str]:
    """What holds the plan back, in the order of a reader's interest."""
    plan, pipeline, works = whole.plan, whole.pipeline, whole.stage_s
    step = plan.estimate.step_time_s
    if pipeline.parts > 1:
        own = range(whole.slowest, len(pipeline.stages), pipeline.parts)
        name = f"stage {own[0]}" if len(own) == 1 else f"stages {', '.join(map(str, own))} together"
        yield (
            f"{name} {'is' if len(own) == 1 else 'are'} the slowest, "
            f"{format_seconds(works[whole.slowest])}; the fastest takes "
            f"{format_seconds(min(works))}"
        )
        waits = (step - works[whole.slowest]) / step
        yield (
            f"its pipeline bubble is {100 * waits:.1f} % of a step: "
            f"{pipeline.micro_batches} micro-batches through {pipeline.parts} stages"
        )
    causes = plan.estimate.time_by_cause
    moving = math.fsum(spent for cause, spent in causes.items() if " in " in cause)
    yield f"communication is {100 * moving / step:.1f} % of the step: {overlap_text(plan)}"
    again = causes.get(Cause.RECOMPUTE, 0.0)
    if again:
        yield (
            f"{format_seconds(again)} go into recomputation to save memory, "
            f"{100 * again / step:.1f} % of the step"
        )
    if memory.is_binding:
        yield (
            f"memory binds in the stage that holds most, {format_bytes(memory.peak_bytes)}: a GiB "
            f"more would save its devices {format_seconds(memory.price_s_per_gib)} a step"
        )


def _holders(case: PlanProblem) -> tuple[MemoryHolder, ...]:
    """Who holds the memory at the plan's peak, by cause."""
    profile = case.posed.problem.memory_profile(case.choice)
    peak = int(profile.argmax()) if len(profile) else 0
    held: dict[str, list[tuple[float, str]]] = {}
    for item in held_of(case.lowered, case.choice):
        if item.start <= peak < item.end:
            name = item.tensor or node_name(case, item.holder)
            held.setdefault(item.cause, []).append((item.nbytes, name))
    out = [
        MemoryHolder(cause, math.fsum(n for n, _ in own), max(own)[1], max(own)[0])
        for cause, own in held.items()
    ]
    return tuple(sorted((h for h in out if h.nbytes > 0), key=lambda h: -h.nbytes))


def _rivals(whole: _Whole, case: PlanProblem, report: Report) -> tuple[Rival, ...]:
    """The baselines, and the best other way for each of the dearest operators of the part of the
    machine that works longest.
    """
    plan = whole.plan
    own = [op for op in plan.operators if op.stage % plan.pipeline.parts == whole.slowest]
    out = [_of_baseline(baseline, plan.estimate.step_time_s) for baseline in plan.baselines]
    for each in whole.dearest(own, CONTENDERS):
        report(f"second-best candidate of {each.example}")
        found = _otherwise(case, case.node_of(each.example))
        out += [] if found is None else [found]
    known = sorted((r for r in out if r.delta_s is not None), key=lambda r: (r.delta_s, r.name))
    return (*known, *(r for r in out if r.delta_s is None))


def _of_baseline(baseline: Baseline, plan_s: float) -> Rival:
    step_s = baseline.step_time_s if baseline.fits else None
    delta = None if step_s is None else step_s - plan_s
    reason = baseline.reason or ("it is slower" if delta else "it takes as long")
    return Rival(baseline.name, delta, {}, reason)


def _otherwise(case: PlanProblem, number: int) -> Rival | None:
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


def _reason(case: PlanProblem, contest: Contest, found: Answer) -> str:
    if is_missed(case, found):
        return missed(case, found).text
    why = causes(contest, found, TRIED)
    if why:
        return reason_of(case, why[0], [contest.moved, found.choice]).text
    if not found.fits:
        return does_not_fit(case, found).text
    is_slower = found.cost_s > case.plan_answer.cost_s * (1 + EQUAL)
    return "no cost alone keeps it away" if is_slower else "it is as fast"


def _later_s(case: PlanProblem, found: Answer) -> float:
    """Seconds that the whole step takes longer."""
    return case.step_s(found.cost_s) - case.step_s(case.plan_answer.cost_s)


def _linked_tiers(plan: Plan) -> list[Tier]:
    """Tiers of the plan's machine that have links."""
    return [tier for tier in Cluster.from_dict(plan.cluster).tiers if tier.size > 1]


def _link(plan: Plan, tier: str, report: Report) -> FasterLink:
    """Every part anew on the faster machine, its stages as they are cut."""
    report(f"links between devices of tier {tier}, twice as fast")
    faster = repriced(plan, Cluster.from_dict(plan.cluster).with_bandwidth(tier, LINK_FACTOR))
    same: dict[int, float] = {}
    best: dict[int, float] = {}
    for part in range(plan.pipeline.parts):
        case = problem_of(faster, part, repriced=True)
        same[part] = case.plan_answer.cost_s
        best[part] = min(case.posed.thorough().answer().value_s, same[part])
    same_s, best_s = step_s(faster, same), step_s(faster, best)
    return FasterLink(tier, LINK_FACTOR, same_s, best_s, best_s < same_s * (1 - WORTHWHILE))
