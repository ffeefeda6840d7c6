"""The fastest plan of a step whose batch is computed as one, on one mesh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_estimate import Baseline
from planner.constraints.pins import pin_notes, with_recursive_pins
from planner.lowering.liveness import Liveness, analyse
from planner.lowering.pricing import MEMORY, TIME, check_cost
from planner.pipeline.baselines import baselines, batch_places, with_baselines
from planner.pipeline.batch_search import BatchSearch, Outcome
from planner.pipeline.infeasibility import check_states, infeasible
from planner.pipeline.networks import Networks
from planner.pipeline.objectives import (
    least_memory,
    with_objective,
)
from planner.pipeline.preparation import dialect_for, input_notes, prepare
from planner.pipeline.search_state import Report
from planner.pipeline.stage_plan import bound_of, drafted_batch, plan_of, space_of
from planner.request import SearchRequest
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A model made ready for a request; searches that differ in the machine alone may share it."""

    liveness: Liveness
    notes: tuple[str, ...]
    batch: Mapping[str, int] | str
    """Where the batch is, as `batch_places` says it."""
    _networks: dict[SearchRequest, Networks] = field(default_factory=dict, compare=False)

    def networks(self, graph: OpGraph, cluster: Cluster, request: SearchRequest) -> Networks:
        """The model at the sizes of micro-batch of a request with a global batch."""
        key = replace(request, pipeline="auto", time_limit_s=None)
        if key not in self._networks:
            self._networks[key] = Networks(graph, cluster, request, self.liveness)
        return self._networks[key]


def prepared_model(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> PreparedModel:
    """The model in the form in which it is planned; raises as `search` does."""
    ready, notes = prepare(graph, cluster, request)
    liveness = analyse(ready, training=request.training)
    return PreparedModel(liveness, tuple(notes), batch_places(ready))


class BatchAnswer(NamedTuple):
    """The plan of a batch that is computed as one."""

    plan: Plan
    free_s: float
    """Seconds that a step takes at least with memory enough; infinite where memory is not short,
    or the plan is not meant to be the fastest."""
    least_s: float = 0.0
    """Seconds that no step of one batch on this mesh takes less than, whatever ZeRO it has; 0 where
    that is not known."""


def search_batch(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    ready: PreparedModel | None = None,
) -> Plan:
    """The plan of `batch_answer`."""
    return batch_answer(graph, cluster, request, report, ready).plan


def batch_answer(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    ready: PreparedModel | None = None,
) -> BatchAnswer:
    """The fastest plan within memory of a batch that is computed as one.

    Args:
        graph: as imported.
        cluster: the machine.
        request: what is asked.
        report: receives progress.
        ready: what `prepared_model` gave for this request and a machine with the same types.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    if request.cost == MEMORY:
        least = least_memory(
            request, lambda asked: search_batch(graph, cluster, asked, report, ready)
        )
        return BatchAnswer(least, math.inf)
    ready = ready or prepared_model(graph, cluster, request)
    planned = ready.liveness.graph
    request = with_recursive_pins(request, planned, cluster.devices)
    dialect = dialect_for(request, cluster.devices)
    report(
        f"{len(planned.ops)} operators, {len(planned.parameters)} parameters "
        f"on {cluster.devices} devices of {cluster.name}"
    )
    check_cost(request.cost, dialect, planned)
    check_states(planned, cluster, request)
    search = BatchSearch(ready.liveness, cluster, dialect, request, report)
    notes = (*ready.notes, *pin_notes(search.pins))
    outcomes = search.outcomes()
    best = min(outcomes, key=lambda o: o.rank)
    if request.cost != TIME and best.fits:
        in_time, fastest = search.in_time(best)
        priced = tuple(baseline for baseline, _ in baselines(in_time.lowered, ready.batch))
        plan = _plan(in_time, fastest, request, notes, priced)
        bounds_s = [o.solution.bound_s for o in outcomes]
        return BatchAnswer(with_objective(plan, request.cost, best.solution, bounds_s), math.inf)
    least_s = 0.0
    if request.leaves_all and request.training and not search.interrupted:
        in_parts, least_s = search.in_parts(best)
        outcomes = outcomes if in_parts.lowered is best.lowered else [in_parts]
        best = in_parts
    priced = ()
    if request.cost == TIME and search.soft.allow_baselines:
        solution, priced = with_baselines(best.lowered, best.solution, ready.batch)
        best = replace(best, solution=solution)
    if not best.fits:
        search.soft.check(best.solution)
        raise infeasible(
            best.lowered, best.solution, request, priced, interrupted=search.interrupted
        )
    plan = _plan(best, outcomes, request, notes, priced)
    bound_s = min(o.solution.bound_s for o in outcomes)
    plan = search.soft.noted(plan, best.lowered, best.choice, bound_s)
    return BatchAnswer(plan, best.free_s, least_s)


def _plan(
    best: Outcome,
    outcomes: Sequence[Outcome],
    request: SearchRequest,
    notes: Sequence[str],
    priced: tuple[Baseline, ...],
) -> Plan:
    """The plan of the best answer; the bounds of all meshes hold together."""
    graph, setting = best.lowered.liveness.graph, best.lowered.setting
    draft = drafted_batch(best.lowered, best.choice)
    bound = bound_of(
        draft.step_s,
        min(o.solution.bound_s for o in outcomes),
        request.solver,
        truncated=any(o.solution.truncated for o in (best, *outcomes)),
        proof=best.solution.proof,
    )
    said = (
        *notes,
        *input_notes(graph, setting.mesh, setting.input_layouts),
    )
    return plan_of(draft, request, said, space_of([o.lowered for o in outcomes]), bound, priced)
