"""The composition root: a graph, a cluster and a request become a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ir.batch import BatchError
from ir.dialects import TARGETS
from ir.graph import OpGraph
from ir.plan import Plan
from planner.pipeline.batch_search import PROMISED
from planner.pipeline.infeasibility import check_states
from planner.pipeline.one_batch import (
    BatchAnswer,
    PreparedModel,
    batch_answer,
    prepared_model,
)
from planner.pipeline.pipeline_search import Among, search_pipeline
from planner.pipeline.preparation import check_pipeline_request
from planner.pipeline.search_state import Report
from planner.pipeline.stage_plan import bound_of
from planner.request import (
    NEEDED,
    PROMISING,
    Deadline,
    InfeasibleError,
    RequestError,
    SearchRequest,
)
from planner.solvers import RECURSIVE
from topology.cluster import Cluster
from topology.units import format_memory, format_seconds

__all__ = ["PreparedModel", "Report", "in_micro_batches", "prepared_model", "search"]


def search(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    ready: PreparedModel | None = None,
) -> Plan:
    """The fastest plan within memory.

    A batch that does not fit as one, or pays for its memory, is split into micro-batches whose
    gradients are added up, where that is faster. It is cut into stages too where nothing fits
    without them, or where they promise to be faster; a global batch where they are faster.

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
    if request.global_batch is not None:
        return search_pipeline(graph, cluster, request, report)
    deadline = Deadline.after(request.time_limit_s)
    ready = ready or prepared_model(graph, cluster, request)
    planned = ready.liveness.graph
    asked = in_micro_batches(planned, request)
    cut = partial(search_pipeline, graph, cluster, report=report, ready=ready)
    try:
        whole = batch_answer(graph, cluster, request, report, ready)
    except InfeasibleError as error:
        if asked is None or error.interrupted:
            raise
        check_states(planned, cluster, request)
        asked = replace(asked, time_limit_s=deadline.left_s)
        try:
            return _split(error, asked, report, cut)
        except InfeasibleError:
            if request.pipeline not in {NEEDED, PROMISING}:
                raise
        report("nothing fits without pipeline stages: they are tried")
        asked = replace(asked, pipeline="auto", time_limit_s=deadline.left_s)
        return _split(error, asked, report, cut)
    if asked is None:
        return whole.plan
    plan = whole.plan
    if _pays_for_memory(whole, request):
        asked = replace(asked, time_limit_s=deadline.left_s)
        plan = _faster(whole, asked, report, cut)
    if _may_have_stages(request) and not deadline.is_over:
        asked = replace(asked, pipeline="auto", time_limit_s=deadline.left_s)
        plan = _in_stages(plan, asked, cut)
    return plan


def _split(
    error: InfeasibleError, asked: SearchRequest, report: Report, cut: Callable[..., Plan]
) -> Plan:
    """The plan in micro-batches of a batch that does not fit as one."""
    needed = format_memory(error.needed_bytes)
    report(f"the whole batch needs {needed}: it is split into micro-batches")
    try:
        plan = cut(asked, among=Among.MICRO_BATCHES)
    except (RequestError, BatchError):
        raise error from None
    except InfeasibleError as smaller:
        raise _with_stages_named(error, smaller, asked) from error
    return replace(plan, whole_batch_bytes=error.needed_bytes)


def _pays_for_memory(whole: BatchAnswer, request: SearchRequest) -> bool:
    """Whether the plan of one batch may be slower than one of micro-batches: these save memory,
    and cost time otherwise.
    """
    over = whole.plan.estimate.step_time_s > whole.free_s * (1 + PROMISED)
    return request.leaves_all and over


def _faster(
    whole: BatchAnswer, asked: SearchRequest, report: Report, cut: Callable[..., Plan]
) -> Plan:
    """The plan of one batch, or that with micro-batches and ZeRO if it is faster."""
    as_one, free = map(format_seconds, (whole.plan.estimate.step_time_s, whole.free_s))
    report(f"the whole batch takes {as_one}, {free} with more memory: micro-batches are tried")
    try:
        found = cut(asked, one_batch=whole)
    except (RequestError, BatchError):
        return whole.plan
    if found.pipeline.is_single:
        return found
    now = format_seconds(found.estimate.step_time_s)
    note = f"micro-batches and ZeRO are decided for the memory: {now}; without them {as_one}"
    return replace(found, notes=(note, *found.notes))


def _may_have_stages(request: SearchRequest) -> bool:
    """Whether stages are tried beside a plan without them."""
    return request.pipeline == PROMISING and request.leaves_all and TARGETS[request.target].stages


def _in_stages(plan: Plan, asked: SearchRequest, cut: Callable[..., Plan]) -> Plan:
    """The plan without stages, or one with them if they promise enough and one is faster."""
    known = BatchAnswer(plan, math.inf)
    try:
        found = cut(asked, one_batch=known, among=Among.STAGES)
    except (RequestError, BatchError):
        return plan
    truncated = found.bound.truncated or plan.bound.truncated
    if found.pipeline == plan.pipeline:
        return replace(plan, bound=replace(plan.bound, truncated=truncated))
    steps = found.estimate.step_time_s, plan.estimate.step_time_s
    least_s = min(found.bound.bound_s, plan.bound.bound_s)
    bound = bound_of(steps[0], least_s, found.bound.solver, truncated=truncated)
    now, alone = map(format_seconds, steps)
    note = f"pipeline stages are faster: {now}; without them {alone}"
    return replace(found, bound=bound, notes=(note, *found.notes))


def in_micro_batches(graph: OpGraph, request: SearchRequest) -> SearchRequest | None:
    """The request with its batch split into micro-batches on one stage; None if it cannot be.

    Args:
        graph: as it is planned.
        request: without a global batch.
    """
    batch = request.batch or graph.batch
    if batch < 2 or request.global_batch is not None or request.solver == RECURSIVE:
        return None
    asked = replace(request, batch=None, global_batch=batch, pipeline="off")
    degrees = dict(request.degrees)
    if degrees.pop("zero3", None) is not None:
        asked = replace(asked, zero="3", degrees=tuple(degrees.items()))
    try:
        check_pipeline_request(graph, asked)
    except RequestError:
        return None
    return asked


def _with_stages_named(
    whole: InfeasibleError, split: InfeasibleError, asked: SearchRequest
) -> InfeasibleError:
    """The refusal of a batch that fits neither as one nor in micro-batches."""
    stages = () if asked.pipeline == "auto" else ("--pipeline auto, which may cut stages too",)
    return replace(
        split,
        what=f"{split.what}, in micro-batches too",
        remedies=(*stages, *split.remedies),
        baselines=whole.baselines,
    )
