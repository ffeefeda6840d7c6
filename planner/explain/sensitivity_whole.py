"""The same for plans of a global batch: the whole search is made again at every value.

That takes a while, so that fewer values are tried, and a plan that was found better at one
bandwidth is first tried at the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from costmodel.simulation.step_in_order import in_order_s
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Pipeline, Plan
from planner.explain.asked import source_of, whole_request_of
from planner.explain.difference_by_cause import changed_operators
from planner.explain.turns import Judge, Range, Sensitivity, Turn, Verdict, turn
from planner.moving import resized
from planner.moving_stages import on_machine
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from topology.cluster import Cluster

FARTHEST = 4.0
"""Factor on every quantity up to which a change is looked for."""
BISECTIONS = 2
"""The place of a change is found to a quarter of a doubling."""
WORTHWHILE = 1e-3
"""Relative gain that makes another plan better: less may be the rounding of prices."""
MOST_SHOWN = 5
MOST_SEARCHES = 4
"""For one side of one quantity."""

Report = Callable[[str], None]


def whole_sensitivity(plan: Plan, report: Report = lambda _: None) -> Sensitivity:
    """How far bandwidth of every tier, batch and memory may move before the plan changes.

    Args:
        plan: for a global batch.
        report: receives progress.
    """
    return _Moving(plan, report).run()


@dataclass(slots=True)
class _Moving:
    plan: Plan
    report: Report
    source: OpGraph = field(init=False)
    cluster: Cluster = field(init=False)
    request: SearchRequest = field(init=False)
    searches: int = 0
    most: int = 0
    better: list[Plan] = field(default_factory=list)
    """Plans that were found better at some bandwidth."""

    def __post_init__(self) -> None:
        self.source, self.request = source_of(self.plan), whole_request_of(self.plan)
        self.cluster = Cluster.from_dict(self.plan.cluster)

    def run(self) -> Sensitivity:
        """All quantities, one at a time."""
        tiers = [tier for tier in self.cluster.tiers if tier.size > 1]
        self.most = MOST_SEARCHES * (2 * len(tiers) + 3)
        ranges = [self._bandwidth(tier.name, tier.bandwidth_bytes_per_s) for tier in tiers]
        ranges += [self._batch(), self._memory()]
        return Sensitivity(self.plan.estimate.step_time_s, tuple(ranges))

    def _bandwidth(self, tier: str, value: float) -> Range:
        def judge(rate: float) -> Verdict:
            machine = self.cluster.with_bandwidth(tier, rate / value)
            own_s = on_machine(self.plan, machine).estimate.step_time_s
            for known in self.better:
                if on_machine(known, machine).estimate.step_time_s < own_s * (1 - WORTHWHILE):
                    return self._verdict(own_s, on_machine(known, machine))
            what = f"bandwidth of {tier} x{rate / value:.3g}"
            return self._verdict(own_s, self._search(what, machine, self.request))

        return self._range(f"bandwidth of {tier}", "B/s", value, judge)

    def _batch(self) -> Range:
        def judge(size: float) -> Verdict:
            batch = round(size)
            own_s = self._own_s(batch)
            best = self._search(
                f"batch {batch}", self.cluster, replace(self.request, global_batch=batch)
            )
            return self._verdict(own_s, best)

        return self._range("batch", "samples", float(self.plan.batch), judge, _unit(self.plan))

    def _own_s(self, batch: int) -> float | None:
        """The step of this plan with another batch; None if it cannot have it."""
        if self.plan.pipeline is not None:
            return _with_batch_s(self.plan.pipeline, batch)
        try:
            return resized(self.plan, self.cluster, batch).estimate.step_time_s
        except (RequestError, BatchError):
            return None

    def _memory(self) -> Range:
        peak, limit = (
            self.plan.estimate.peak_memory_bytes,
            self.plan.estimate.memory_limit_bytes,
        )
        below = Turn(peak, peak / limit, peak, None, (), "with less this plan does not fit")

        def judge(nbytes: float) -> Verdict:
            request = replace(self.request, memory_limit_bytes=nbytes)
            best = self._search(f"memory x{nbytes / limit:.3g}", self.cluster, request)
            return self._verdict(self.plan.estimate.step_time_s, best)

        highest = limit * FARTHEST
        above = None if judge(highest).is_best else turn(judge, limit, 2.0, highest, 0, BISECTIONS)
        return Range("memory", "B", limit, below, above, peak, highest)

    def _range(
        self, quantity: str, unit: str, value: float, judge: Judge, multiple: int = 0
    ) -> Range:
        low, high = max(value / FARTHEST, float(multiple)), value * FARTHEST
        below = turn(judge, value, 0.5, low, multiple, BISECTIONS)
        above = turn(judge, value, 2.0, high, multiple, BISECTIONS)
        return Range(quantity, unit, value, below, above, low, high)

    def _search(self, what: str, machine: Cluster, request: SearchRequest) -> Plan | None:
        """The best plan there; None if none was found."""
        self.searches += 1
        self.report(f"search {self.searches} of at most {self.most}: {what}")
        try:
            return search(self.source, machine, request)
        except (InfeasibleError, RequestError):
            return None

    def _verdict(self, own_s: float | None, best: Plan | None) -> Verdict:
        if best is None:
            return Verdict(True)
        if own_s is None:
            return Verdict(False, None, (_shape_text(best),), "this plan cannot cut it")
        gain = own_s - best.estimate.step_time_s
        if gain <= own_s * WORTHWHILE:
            return Verdict(True)
        if best not in self.better:
            self.better.append(best)
        return Verdict(
            False, gain, (_shape_text(best), *changed_operators(self.plan, best))[:MOST_SHOWN]
        )


def _unit(plan: Plan) -> int:
    """What every batch is a multiple of that the plan can be cut into."""
    pipeline = plan.pipeline
    if pipeline is None:
        return pieces_of_batch(plan)
    turns = pipeline.parts if pipeline.chunks > 1 else 1
    return pipeline.micro_batch * turns


def pieces_of_batch(plan: Plan) -> int:
    """The number that divides every batch that a plan without stages can cut."""
    sizes = {name: size for name, size, _ in plan.mesh}
    cuts = [
        math.prod(sizes[axis] for axis in tensor.layout.dims[0])
        for tensor in plan.tensors
        if tensor.role == "input" and tensor.layout.dims
    ]
    return math.gcd(plan.graph.batch, max(cuts, default=1))


def _with_batch_s(pipeline: Pipeline, batch: int) -> float:
    """Seconds of a step with more or fewer micro-batches."""
    times = batch // pipeline.micro_batch
    return in_order_s(replace(pipeline, micro_batches=times))


def _shape_text(plan: Plan) -> str:
    pipeline = plan.pipeline
    if pipeline is None:
        return "one stage, one micro-batch"
    chunks = f" of {pipeline.chunks} chunks" if pipeline.chunks > 1 else ""
    stages = "one stage" if pipeline.parts == 1 else f"{pipeline.parts} stages"
    return f"{stages}{chunks}, {pipeline.micro_batches} micro-batches of {pipeline.micro_batch}"
