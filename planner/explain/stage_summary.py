"""A plan with stages in the large: what each stage does, waits for and holds, and what limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from exporters.folding import folded
from ir.plan import Pipeline, Plan, PlannedOperator
from ir.plan_stages import once_in_step, part_times, pipeline_of, send_times, stage_plan
from planner.asking.errors import UserError
from planner.asking.simulation import SimulationOptions, simulated
from planner.explain.case import Case
from planner.explain.memory_price import memory_prices
from planner.explain.operator import guided, memory_status
from planner.explain.records import (
    FasterLink,
    MemoryStatus,
    OperatorCost,
    PlanExplanation,
    Rival,
    StageStatus,
)
from planner.explain.stage_case import stage_case, step_s
from planner.explain.summary import (
    CONTENDERS,
    LINK_FACTOR,
    OPERATORS,
    WORTHWHILE,
    holders_of,
    otherwise,
    tiers_of,
)
from planner.moving_stages import moved_stages
from planner.pins import cuts_text
from planner.request import Cuts
from planner.splits import splits_in
from topology.cluster import Cluster
from topology.units import format_bytes, format_seconds

PER_STAGE = 3
"""Groups of operators that are listed of each stage."""

Report = Callable[[str], None]


def summarised_stages(plan: Plan, report: Report = lambda _: None) -> PlanExplanation:
    """The summary of a plan with a pipeline, be it of one stage.

    Args:
        plan: with a pipeline.
        report: receives progress.
    """
    whole = _Whole(plan)
    report("the price of memory in the stage that holds most")
    tightest = stage_case(plan, whole.fullest)
    prices = memory_prices(tightest.posed)
    slowest = guided(tightest, prices)
    if whole.slowest != whole.fullest:
        slowest = stage_case(plan, whole.slowest)
        slowest = guided(slowest, memory_prices(slowest.posed))
    return PlanExplanation(
        step_time_s=plan.estimate.step_time_s,
        bound_s=plan.bound.bound_s,
        proof=plan.bound.proof,
        time_by_cause=dict(plan.estimate.time_by_cause),
        operators=whole.dearest(plan.operators, OPERATORS),
        memory=memory_status(tightest, prices),
        holders=holders_of(tightest),
        rivals=_rivals(whole, slowest, report),
        links=tuple(_link(plan, tier.name, report) for tier in tiers_of(plan)),
        limits=tuple(_limits(whole, memory_status(tightest, prices))),
        stages=tuple(whole.status(number) for number in range(len(whole.pipeline.stages))),
    )


@dataclass(frozen=True, eq=False)
class _Whole:
    """A plan with a pipeline, with sums over its parts."""

    plan: Plan

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_of(self.plan)

    @cached_property
    def works_s(self) -> Sequence[float]:
        """What each part works in a step."""
        return [each * self.pipeline.micro_batches for each in part_times(self.plan)]

    @property
    def slowest(self) -> int:
        """The part that works longest."""
        return max(range(len(self.works_s)), key=self.works_s.__getitem__)

    @property
    def fullest(self) -> int:
        """The part that holds most."""
        stages = self.pipeline.stages
        most = max(range(len(stages)), key=lambda number: stages[number].peak_memory_bytes)
        return most % self.pipeline.parts

    @cached_property
    def _moving_s(self) -> dict[str, float]:
        """Seconds of communication for each operator."""
        found: dict[str, float] = {}
        for item in self.plan.collectives:
            found[item.operator] = found.get(item.operator, 0.0) + item.time_s
        return found

    @cached_property
    def _splits(self) -> Mapping[str, Cuts]:
        operands = {op.name: len(op.inputs) for op in self.plan.operators}
        every = splits_in(self.plan)
        return {name: tuple(own for own in cuts[: operands[name]] if own) for name, cuts in every}

    def dearest(
        self, operators: Sequence[PlannedOperator], most: int, stage: int | None = None
    ) -> tuple[OperatorCost, ...]:
        """The dearest of some operators, those of one pattern of names with equal cuts together."""
        groups: dict[tuple[object, ...], list[PlannedOperator]] = {}
        for op in operators:
            key = (folded(op.scope or op.name), op.label, self._splits[op.name])
            groups.setdefault(key, []).append(op)
        costs = [
            OperatorCost(
                name=str(key[0]),
                label=own[0].label,
                example=own[0].name,
                count=len(own),
                compute_s=math.fsum(op.compute_s + op.recompute_s for op in own),
                communication_s=math.fsum(self._moving_s.get(op.name, 0.0) for op in own),
                cuts=cuts_text(self._splits[own[0].name]),
                stage=stage,
            )
            for key, own in groups.items()
        ]
        return tuple(sorted(costs, key=lambda c: (-c.time_s, c.example))[:most])

    def status(self, number: int) -> StageStatus:
        """What one stage does in a step."""
        plan, own, pipeline = self.plan, self.pipeline.stages[number], self.pipeline
        times, part = pipeline.micro_batches, number % pipeline.parts
        each = [item.time_s for item in stage_plan(plan, number).collectives]
        once = [item.time_s for item in once_in_step(plan, number)]
        return StageStatus(
            stage=number,
            part=part,
            operators=own.end - own.start,
            forward_s=own.forward_s,
            backward_s=own.backward_s,
            once_s=own.once_s,
            work_s=(own.forward_s + own.backward_s) * times + own.once_s,
            waits_s=max(plan.estimate.step_time_s - self.works_s[part], 0.0),
            communication_s=times * math.fsum((*each, *send_times(plan, number))) + math.fsum(once),
            peak_memory_bytes=own.peak_memory_bytes,
            in_flight=own.in_flight,
            dearest=self.dearest(plan.operators[own.start : own.end], PER_STAGE, number),
        )


def _limits(whole: _Whole, memory: MemoryStatus) -> Iterator[str]:
    """What holds the plan back, in the order of a reader's interest."""
    plan, pipeline, works = whole.plan, whole.pipeline, whole.works_s
    step = plan.estimate.step_time_s
    if pipeline.parts > 1:
        own = range(whole.slowest, len(pipeline.stages), pipeline.parts)
        name = f"stage {own[0]}" if len(own) == 1 else f"stages {', '.join(map(str, own))} together"
        yield (
            f"{name} {'works' if len(own) == 1 else 'work'} longest, "
            f"{format_seconds(works[whole.slowest])}; the quickest part works "
            f"{format_seconds(min(works))}"
        )
        waits = (step - works[whole.slowest]) / step
        yield (
            f"even there {100 * waits:.1f} % of a step is waiting: {pipeline.micro_batches} "
            f"micro-batches through {pipeline.parts} parts of the machine"
        )
    causes = plan.estimate.time_by_cause
    moving = math.fsum(spent for cause, spent in causes.items() if " in " in cause)
    yield f"communication is {100 * moving / step:.1f} % of the step while none of it overlaps"
    yield from _overlapped(plan)
    again = causes.get("recompute", 0.0)
    if again:
        yield (
            f"{format_seconds(again)} go into computing again what memory has no room for, "
            f"{100 * again / step:.1f} % of the step"
        )
    if memory.is_binding:
        yield (
            f"memory binds in the stage that holds most, {format_bytes(memory.peak_bytes)}: a GiB "
            f"more would save its devices {format_seconds(memory.price_s_per_gib)} a step"
        )


def _overlapped(plan: Plan) -> Iterator[str]:
    """What a simulation leaves of communication beside computation; nothing if there is none."""
    try:
        found = simulated(plan, SimulationOptions())
    except UserError:
        return
    yield (
        f"simulated with what can overlap, a step takes {format_seconds(found.step_s)}, "
        f"{format_seconds(found.account.exposed_s)} of it communication that nothing hides"
    )


def _rivals(whole: _Whole, case: Case, report: Report) -> tuple[Rival, ...]:
    """The best other way for each of the dearest operators of the part that works longest."""
    pipeline = whole.pipeline
    own = [op for op in whole.plan.operators if op.stage % pipeline.parts == whole.slowest]
    out = []
    for each in whole.dearest(own, CONTENDERS):
        report(f"the next best way for {each.example}")
        found = otherwise(case, case.node_of(each.example))
        out += [] if found is None else [found]
    known = sorted((r for r in out if r.delta_s is not None), key=lambda r: (r.delta_s, r.name))
    return (*known, *(r for r in out if r.delta_s is None))


def _link(plan: Plan, tier: str, report: Report) -> FasterLink:
    """Every part anew on the faster machine, its stages as they are cut."""
    report(f"links of tier {tier} twice as fast")
    faster = moved_stages(plan, Cluster.from_dict(plan.cluster).with_bandwidth(tier, LINK_FACTOR))
    same: dict[int, float] = {}
    best: dict[int, float] = {}
    for part in range(pipeline_of(plan).parts):
        case = stage_case(faster, part, moved=True)
        same[part] = case.plan_answer.cost_s
        best[part] = min(case.posed.thorough().answer().value_s, same[part])
    same_s, best_s = step_s(faster, same), step_s(faster, best)
    return FasterLink(tier, LINK_FACTOR, same_s, best_s, best_s < same_s * (1 - WORTHWHILE))
