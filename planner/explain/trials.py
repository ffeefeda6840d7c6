"""Trials of changed requests: whether something fits with them, as soon as that is known.

They share what does not depend on what was changed: the model made ready, and for amounts of memory
the priced problem too. What they may do is counted in searches and effort; the clock ends them only
at the time limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from costmodel.redistribution import UNREACHABLE_S
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan_estimate import Estimate
from planner.explain.restricted_problem import QUICK
from planner.lowering.pricing import MEMORY, TIME
from planner.pipeline.feasibility_probe import FeasibilityProbe
from planner.pipeline.infeasibility import check_states
from planner.pipeline.one_batch import PreparedModel, prepared_model, search_batch
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import Cuts, Deadline, InfeasibleError, RequestError, SearchRequest
from planner.search import in_micro_batches
from topology.cluster import Cluster
from topology.errors import TopologyError

UNFIT = (InfeasibleError, RequestError, BatchError, TopologyError)
"""How a search ends that finds nothing."""

_Form: TypeAlias = tuple[int | None, tuple[tuple[str, Cuts], ...]]
"""What of a request changes the model that is planned: its batch and its pins."""


@dataclass(slots=True)
class Trials:
    """A model and a machine on which changes are tried."""

    graph: OpGraph
    cluster: Cluster
    report: Callable[[str], None]
    left: int
    """Trials that may still be made."""
    deadline: Deadline
    """When the last one shall end."""
    interrupted: bool = False
    """Whether the user ended them (Ctrl-C)."""
    _ready: dict[_Form, PreparedModel] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.left <= 0 or self.deadline.is_over

    @property
    def is_late(self) -> bool:
        """Whether the clock ended them before the effort did."""
        return self.left > 0 and self.deadline.is_over

    def end(self) -> None:
        """Make no further ones: the user does not want to wait."""
        self.left, self.interrupted = 0, True

    def fits(self, request: SearchRequest) -> bool:
        """Whether something fits; False where no trial is left, or the request cannot be."""
        if not _is_of_time(request):
            return self.estimate(request) is not None
        if self.is_over:
            return False
        self.left -= 1
        try:
            fits = self._soon(request).fits()
        except UNFIT:
            return False
        return fits or self._split(request, self.cluster) is not None

    def estimate(self, request: SearchRequest, cluster: Cluster | None = None) -> Estimate | None:
        """Of a plan that fits; None if none was found, no trial is left or the request cannot be.

        Raises:
            KeyboardInterrupt: the user ended it.
        """
        if self.is_over:
            return None
        self.left -= 1
        machine = cluster or self.cluster
        try:
            if not _is_of_time(request):
                return self._searched(request, machine)
            found = self._of(self._soon(request, cluster))
        except UNFIT:
            return None
        return found or self._split(request, machine)

    def within(self, soon: FeasibilityProbe, limit_bytes: float) -> Estimate | None:
        """The same of a request that was taken apart, with another amount of memory."""
        if self.is_over:
            return None
        self.left -= 1
        limited = replace(soon.request, memory_limit_bytes=limit_bytes)
        return self._of(soon, limit_bytes) or self._split(limited, self.cluster)

    def _of(self, soon: FeasibilityProbe, limit_bytes: float | None = None) -> Estimate | None:
        found = soon.estimate(limit_bytes)
        if soon.interrupted:
            self.end()
        return found

    def in_micro_batches(self, request: SearchRequest) -> SearchRequest | None:
        """The request as a search asks it again where its batch does not fit as one."""
        return in_micro_batches(self._made_ready(request).liveness.graph, request)

    def _split(self, request: SearchRequest, cluster: Cluster) -> Estimate | None:
        """What fits of a batch that is split into micro-batches, as a search does where it must."""
        if self.is_over:
            return None
        asked = self.in_micro_batches(request)
        try:
            return None if asked is None else self._searched(asked, cluster)
        except UNFIT:
            return None

    def room(self, request: SearchRequest) -> FeasibilityProbe | None:
        """A request taken apart, to be tried with more memory; None if it cannot be."""
        try:
            return self._soon(replace(request, memory_limit_bytes=math.inf))
        except UNFIT:
            return None

    def _soon(self, request: SearchRequest, cluster: Cluster | None = None) -> FeasibilityProbe:
        """A request taken apart; raises one of `UNFIT` where that shows that it cannot be."""
        machine = cluster or self.cluster
        asked = replace(request, time_limit_s=self.deadline.left_s, cost=TIME)
        return FeasibilityProbe(self._made_ready(asked), machine, asked)

    def states_fit(self, request: SearchRequest) -> bool:
        """Whether weights, gradients and optimizer state fit, whatever the batch."""
        try:
            check_states(self._made_ready(request).liveness.graph, self.cluster, request)
        except InfeasibleError:
            return False
        return True

    def _made_ready(self, request: SearchRequest) -> PreparedModel:
        form = request.batch, request.pins
        if form not in self._ready:
            self._ready[form] = prepared_model(self.graph, self.cluster, request)
        return self._ready[form]

    def _searched(self, request: SearchRequest, cluster: Cluster) -> Estimate | None:
        quick = replace(request, solver=QUICK, time_limit_s=self.deadline.left_s)
        if request.global_batch is None:
            found = search_batch(self.graph, cluster, quick).estimate
        else:
            found = search_pipeline(self.graph, cluster, quick, any_will_do=True).estimate
        return found if found.step_time_s < UNREACHABLE_S else None


def _is_of_time(request: SearchRequest) -> bool:
    """Whether any plan that fits tells enough: the least memory is sought among those."""
    return request.global_batch is None and request.cost in {TIME, MEMORY}
