"""How far bandwidth, batch and memory may move before another plan is better.

From where the plan stands every quantity is doubled or halved until the plan is no longer the best,
and the place of the change is found by bisection. Between two steps a plan may lose and win again:
what is found is one change, mostly the nearest.

A plan of one batch is compared with the best answer of its own problem; the limit of memory changes
no price, so that the tables are made once for it. Of a plan for a global batch the whole search is
made again at every value. That takes a while, so that fewer values are tried, and a plan that was
found better at one bandwidth is first tried at the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from costmodel.simulation.step_in_order import in_order_s
from ir.batch import BatchError, with_batch
from ir.plan import Plan
from planner.explain.breakpoints import BISECTIONS, Judge, Verdict, turn
from planner.explain.difference_by_cause import changed_operators
from planner.explain.plan_problem import PlanProblem, problem_of
from planner.explain.plan_request import source_of, whole_request_of
from planner.explain.reasons import Subject, node_name
from planner.repricing.other_machine import repriced
from planner.repricing.other_size import resized
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from report.sensitivity import Breakpoint, Range, Sensitivity
from topology.cluster import Cluster
from topology.units import format_count

MOST_SHOWN = 5
MOST_SEARCHES = 4
"""For one side of one quantity."""

Report = Callable[[str], None]


def sensitivity(plan: Plan, report: Report = lambda _: None) -> Sensitivity:
    """How far bandwidth of every tier, batch and memory may move before the plan changes.

    Args:
        plan: nothing else is needed. One for a global batch is searched anew at every value.
        report: receives progress.
    """
    is_searched = "global_batch" in plan.request
    rivals = _SearchRivals(plan, report) if is_searched else _ProblemRivals(plan, problem_of(plan))
    ranges = []
    for each in _quantities(plan, rivals):
        if not is_searched:
            report(each.name)
        ranges.append(_range(each, rivals.trials))
    return Sensitivity(rivals.standing.step_s, tuple(ranges))


@dataclass(frozen=True, slots=True)
class _Trials:
    """How thoroughly a change is looked for."""

    farthest: float
    """Factor on every quantity up to which it is."""
    bisections: int
    """By which its place is found."""
    worthwhile: float
    """Relative gain that makes another plan better."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where the plan stands."""

    step_s: float
    peak_bytes: float
    limit_bytes: float
    batch: float
    """Samples of a step, 0 when unknown."""


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What is moved, and between which values."""

    name: str
    unit: str
    value: float
    judge: Judge
    lowest: float
    highest: float
    multiple: int = 0
    """What all values are multiples of, 0 for any."""
    below: Breakpoint | None = None
    """Where it is known without a trial."""
    can_rise: bool = True
    """Whether a larger value may be better for another plan."""


def _quantities(plan: Plan, rivals: _Rivals) -> Iterator[_Quantity]:
    """Bandwidth of every tier, batch, memory; each is made when the one before it is done."""
    far, own = rivals.trials.farthest, rivals.standing
    for tier in Cluster.from_dict(plan.cluster).tiers:
        if tier.size > 1:
            name, value = f"bandwidth of {tier.name}", tier.bandwidth_bytes_per_s
            judge = _bandwidth_judge(rivals, tier.name, value)
            yield _Quantity(name, "B/s", value, judge, value / far, value * far)
    if own.batch:
        unit = _batch_unit(plan)
        low, high = max(float(unit), own.batch / far), own.batch * far
        yield _Quantity("batch", "samples", own.batch, rivals.with_batch, low, high, unit)
    # What the plan needs is the least; more is of use only where the limit binds.
    peak, limit = own.peak_bytes, own.limit_bytes
    below = Breakpoint(peak, peak / limit, peak, None, (), "with less this plan does not fit")
    high, can_rise = rivals.most_useful_memory()
    yield _Quantity("memory", "B", limit, rivals.with_memory, peak, high, 0, below, can_rise)


def _bandwidth_judge(rivals: _Rivals, tier: str, value: float) -> Judge:
    return lambda rate: rivals.with_bandwidth(tier, rate / value)


def _range(each: _Quantity, trials: _Trials) -> Range:
    def change(factor: float, farthest: float) -> Breakpoint | None:
        return turn(each.judge, each.value, factor, farthest, each.multiple, trials.bisections)

    below = each.below or change(0.5, each.lowest)
    above = change(2.0, each.highest) if each.can_rise else None
    return Range(each.name, each.unit, float(each.value), below, above, each.lowest, each.highest)


def _batch_unit(plan: Plan) -> int:
    """What every batch is a multiple of that the plan can be cut into."""
    pipeline = plan.pipeline
    if not pipeline.is_single:
        return pipeline.micro_batch * (pipeline.parts if pipeline.chunks > 1 else 1)
    sizes = {name: size for name, size, _ in plan.mesh}
    cuts = [
        math.prod(sizes[axis] for axis in tensor.layout.dims[0])
        for tensor in plan.tensors
        if tensor.role == "input" and tensor.layout.dims
    ]
    return math.gcd(plan.graph.batch, max(cuts, default=1))


@dataclass(frozen=True, slots=True)
class _ProblemRivals:
    """A plan of one batch beside the best answer of its problem."""

    plan: Plan
    case: PlanProblem
    trials: ClassVar = _Trials(16.0, BISECTIONS, 1e-6)

    @property
    def standing(self) -> _Standing:
        own = self.case.plan_answer
        limit_bytes, batch = self.case.posed.limit_bytes, self.plan.graph.batch
        return _Standing(own.cost_s, own.peak_bytes, limit_bytes, batch)

    def with_bandwidth(self, tier: str, factor: float) -> Verdict:
        machine = Cluster.from_dict(self.plan.cluster).with_bandwidth(tier, factor)
        return self._verdict(problem_of(self.plan, cluster=machine))

    def with_batch(self, size: float) -> Verdict:
        try:
            graph = with_batch(self.plan.graph, round(size))
            case = problem_of(self.plan, graph=graph)
        except (RequestError, BatchError):
            return Verdict(False, reason="this plan cannot cut it")
        return self._verdict(case)

    def with_memory(self, nbytes: float) -> Verdict:
        return self._verdict(replace(self.case, posed=self.case.posed.with_limit(nbytes)))

    def most_useful_memory(self) -> tuple[float, bool]:
        """The largest limit that is tried, and whether another plan is better there."""
        own, free = self.standing, self.case.posed.without_limit().answer()
        is_faster = free.cost_s < own.step_s * (1 - self.trials.worthwhile)
        if free.peak_bytes > own.limit_bytes and is_faster:
            return free.peak_bytes, True
        return math.inf, False

    def _verdict(self, case: PlanProblem) -> Verdict:
        own, best = case.plan_answer, case.posed.thorough().answer()
        if not own.fits:
            return Verdict(False, None, _changes(case, best.choice), "this plan does not fit")
        if not best.fits or best.cost_s >= own.cost_s * (1 - self.trials.worthwhile):
            return Verdict(True)
        return Verdict(False, own.cost_s - best.cost_s, _changes(case, best.choice))


def _changes(case: PlanProblem, choice: tuple[int, ...]) -> tuple[str, ...]:
    out: list[str] = []
    for number, (old, new) in enumerate(zip(case.choice, choice, strict=True)):
        subject, name = Subject(case, number), node_name(case, number)
        if old != new and subject.looks[old] != subject.looks[new]:
            out.append(name)
        elif old != new and subject.node.recomputes:
            again = subject.node.columns.recompute[new]
            out.append(f"{name} {'computed again' if again else 'kept'}")
    return tuple(out[:MOST_SHOWN])


@dataclass(slots=True)
class _SearchRivals:
    """A plan for a global batch beside what a new search finds."""

    plan: Plan
    report: Report
    searches: int = 0
    better: list[Plan] = field(default_factory=list)
    """Plans that were found better at some bandwidth."""
    trials: ClassVar = _Trials(4.0, 2, 1e-3)
    """Less gain may be the rounding of prices."""

    @property
    def cluster(self) -> Cluster:
        return Cluster.from_dict(self.plan.cluster)

    @property
    def request(self) -> SearchRequest:
        return whole_request_of(self.plan)

    @property
    def standing(self) -> _Standing:
        own, batch = self.plan.estimate, float(self.plan.batch)
        return _Standing(own.step_time_s, own.peak_memory_bytes, own.memory_limit_bytes, batch)

    def with_bandwidth(self, tier: str, factor: float) -> Verdict:
        machine = self.cluster.with_bandwidth(tier, factor)
        own_s = repriced(self.plan, machine).estimate.step_time_s
        for known in self.better:
            there = repriced(known, machine)
            if there.estimate.step_time_s < own_s * (1 - self.trials.worthwhile):
                return self._verdict(own_s, there)
        what = f"bandwidth of {tier} x{factor:.3g}"
        return self._verdict(own_s, self._search(what, machine, self.request))

    def with_batch(self, size: float) -> Verdict:
        batch = round(size)
        own_s = self._own_s(batch)
        request = replace(self.request, global_batch=batch)
        return self._verdict(own_s, self._search(f"batch {batch}", self.cluster, request))

    def with_memory(self, nbytes: float) -> Verdict:
        what = f"memory x{nbytes / self.standing.limit_bytes:.3g}"
        request = replace(self.request, memory_limit_bytes=nbytes)
        return self._verdict(self.standing.step_s, self._search(what, self.cluster, request))

    def most_useful_memory(self) -> tuple[float, bool]:
        highest = self.standing.limit_bytes * self.trials.farthest
        return highest, not self.with_memory(highest).is_best

    def _own_s(self, batch: int) -> float | None:
        """The step of this plan with another batch; None if it cannot have it."""
        pipeline = self.plan.pipeline
        if not pipeline.is_single:
            times = batch // pipeline.micro_batch
            return in_order_s(replace(pipeline, micro_batches=times))
        try:
            return resized(self.plan, self.cluster, batch).estimate.step_time_s
        except (RequestError, BatchError):
            return None

    def _search(self, what: str, machine: Cluster, request: SearchRequest) -> Plan | None:
        """The best plan there; None if none was found."""
        self.searches += 1
        tiers = sum(tier.size > 1 for tier in self.cluster.tiers)
        most = MOST_SEARCHES * (2 * tiers + 3)
        self.report(f"search {self.searches} of at most {most}: {what}")
        try:
            return search(source_of(self.plan), machine, request)
        except (InfeasibleError, RequestError):
            return None

    def _verdict(self, own_s: float | None, best: Plan | None) -> Verdict:
        if best is None:
            return Verdict(True)
        if own_s is None:
            return Verdict(False, None, (_shape_text(best),), "this plan cannot cut it")
        gain = own_s - best.estimate.step_time_s
        if gain <= own_s * self.trials.worthwhile:
            return Verdict(True)
        if best not in self.better:
            self.better.append(best)
        changes = (_shape_text(best), *changed_operators(self.plan, best))
        return Verdict(False, gain, changes[:MOST_SHOWN])


def _shape_text(plan: Plan) -> str:
    pipeline = plan.pipeline
    if pipeline.is_single:
        return "one stage, one micro-batch"
    chunks = f" of {pipeline.chunks} chunks" if pipeline.chunks > 1 else ""
    stages = "one stage" if pipeline.parts == 1 else f"{pipeline.parts} stages"
    batches = format_count(pipeline.micro_batches, "micro-batch", "es")
    return f"{stages}{chunks}, {batches} of {pipeline.micro_batch}"


_Rivals: TypeAlias = _ProblemRivals | _SearchRivals
"""Compare a plan with the best one where one quantity has another value."""
