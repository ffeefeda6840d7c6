"""Trials of changed requests: whether something fits with them, as soon as that is known.

They share what does not depend on what was changed: the model made ready, and for amounts of memory
the priced problem too. What they may do is counted in searches and effort, not in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from costmodel.redistribution import UNREACHABLE_S
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Estimate
from planner.explain.posed import QUICK
from planner.fit import check_states
from planner.joint import any_whole
from planner.pricing import MEMORY, TIME
from planner.request import Cuts, InfeasibleError, RequestError, SearchRequest
from planner.search import Ready, made_ready, search
from planner.soon import Soon
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
    interrupted: bool = False
    """Whether the user ended them (Ctrl-C)."""
    _ready: dict[_Form, Ready] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.left <= 0

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
            return self._soon(request).fits()
        except UNFIT:
            return False

    def estimate(self, request: SearchRequest, cluster: Cluster | None = None) -> Estimate | None:
        """Of a plan that fits; None if none was found, no trial is left or the request cannot be.

        Raises:
            KeyboardInterrupt: the user ended it.
        """
        if self.is_over:
            return None
        self.left -= 1
        try:
            if _is_of_time(request):
                soon = self._soon(request, cluster)
                found = soon.estimate()
                if soon.interrupted:
                    self.end()
                return found
            return self._searched(request, cluster or self.cluster)
        except UNFIT:
            return None

    def within(self, soon: Soon, limit_bytes: float) -> Estimate | None:
        """The same of a request that was taken apart, with another amount of memory."""
        if self.is_over:
            return None
        self.left -= 1
        found = soon.estimate(limit_bytes)
        if soon.interrupted:
            self.end()
        return found

    def room(self, request: SearchRequest) -> Soon | None:
        """A request taken apart, to be tried with more memory; None if it cannot be."""
        try:
            return self._soon(replace(request, memory_limit_bytes=math.inf))
        except UNFIT:
            return None

    def _soon(self, request: SearchRequest, cluster: Cluster | None = None) -> Soon:
        """A request taken apart; raises one of `UNFIT` where that shows that it cannot be."""
        machine = cluster or self.cluster
        asked = replace(request, time_limit_s=None, cost=TIME)
        return Soon(self._made_ready(asked), machine, asked)

    def states_fit(self, request: SearchRequest) -> bool:
        """Whether weights, gradients and optimizer state fit, whatever the batch."""
        try:
            check_states(self._made_ready(request).liveness.graph, self.cluster, request)
        except InfeasibleError:
            return False
        return True

    def _made_ready(self, request: SearchRequest) -> Ready:
        form = request.batch, request.pins
        if form not in self._ready:
            self._ready[form] = made_ready(self.graph, self.cluster, request)
        return self._ready[form]

    def _searched(self, request: SearchRequest, cluster: Cluster) -> Estimate | None:
        quick = replace(request, solver=QUICK, time_limit_s=None)
        find = search if request.global_batch is None else any_whole
        found = find(self.graph, cluster, quick).estimate
        return found if found.step_time_s < UNREACHABLE_S else None


def _is_of_time(request: SearchRequest) -> bool:
    """Whether any plan that fits tells enough: the least memory is sought among those."""
    return request.global_batch is None and request.cost in {TIME, MEMORY}
