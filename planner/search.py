"""The composition root: a graph, a cluster and a request become a plan."""

from __future__ import annotations

from dataclasses import replace

from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Plan
from planner.at_once import Ready, Report, made_ready, search_at_once
from planner.deadline import Deadline
from planner.fit import check_states
from planner.joint import check_whole, plan_whole, search_whole
from planner.recursive_programming import NAME as RECURSIVE
from planner.request import InfeasibleError, RequestError, SearchRequest
from topology.cluster import Cluster
from topology.units import format_memory

__all__ = ["Ready", "Report", "in_micro_batches", "made_ready", "search"]


def search(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    ready: Ready | None = None,
) -> Plan:
    """The fastest plan within memory.

    A batch that does not fit as one is split into micro-batches whose gradients are added up; a
    global batch may be cut into stages too.

    Args:
        graph: as imported.
        cluster: the machine.
        request: what is asked.
        report: receives progress.
        ready: what `made_ready` gave for this request and a machine with the same types.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    if request.global_batch is not None:
        return search_whole(graph, cluster, request, report)
    deadline = Deadline.after(request.time_limit_s)
    ready = ready or made_ready(graph, cluster, request)
    try:
        return search_at_once(graph, cluster, request, report, ready)
    except InfeasibleError as error:
        asked = in_micro_batches(ready.liveness.graph, request)
        if asked is None or error.interrupted:
            raise
        check_states(ready.liveness.graph, cluster, request)
        needed = format_memory(error.needed_bytes)
        report(f"the whole batch needs {needed}: it is split into micro-batches")
        asked = replace(asked, time_limit_s=deadline.left_s)
        try:
            plan = plan_whole(graph, cluster, asked, report, tries_whole_batch=False)
        except (RequestError, BatchError):
            raise error from None
        except InfeasibleError as smaller:
            raise _with_stages_named(error, smaller, asked) from error
        return replace(plan, whole_batch_bytes=error.needed_bytes)


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
        check_whole(graph, asked)
    except RequestError:
        return None
    return asked


def _with_stages_named(
    whole: InfeasibleError, split: InfeasibleError, asked: SearchRequest
) -> InfeasibleError:
    """The refusal of a batch that fits neither as one nor in micro-batches."""
    stages = f"--global-batch {asked.global_batch} in place of --batch, which may cut stages too"
    return InfeasibleError(
        f"{split.what}, in micro-batches too",
        split.needed_bytes, split.available_bytes, split.contributors,
        (stages, *split.remedies), whole.baselines, interrupted=split.interrupted,
    )  # fmt: skip
