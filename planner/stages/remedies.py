"""The cheapest change that makes an impossible request possible, found by applying it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from costmodel.memory import Optimizer
from planner.deadline import Deadline
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.stages.menu import divisors
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.errors import TopologyError

MOST_DOUBLINGS = 6
"""Larger machines that are looked at."""
OPERATORS = 24_000
"""Operators of all networks that are planned on the way, per unit of effort."""
FEWEST = 10
"""Changes that are tried at least."""

Finds = Callable[[Cluster, SearchRequest], object]
"""Plans a request; raises as `planner.joint.search_whole` does."""


class _Change(NamedTuple):
    text: str
    cluster: Cluster
    request: SearchRequest


def with_remedy(
    error: InfeasibleError,
    cluster: Cluster,
    request: SearchRequest,
    find: Finds,
    operators: int,
    report: Callable[[str], None] = lambda _: None,
) -> InfeasibleError:
    """The error with the cheapest change that was seen to make the request possible.

    Without any, with those that were there before. How many are tried follows from the effort and
    the size of the network; the clock ends it only at the time limit. That and Ctrl-C end it with
    the error as it was.

    Args:
        error: what the request raised.
        cluster: the machine.
        request: that nothing fits; its time limit is of all changes together.
        find: plans another request.
        operators: of the network.
        report: receives progress.
    """
    most = max(OPERATORS // max(operators, 1), FEWEST) * request.effort
    deadline = Deadline.after(request.time_limit_s)
    try:
        for change in itertools.islice(_changes(cluster, request), most):
            if deadline.is_over:
                return _with(error, error.remedies, out_of_time=True)
            report(f"trying {change.text}")
            if _fits(change, find, deadline):
                return _with(error, (change.text,))
    except KeyboardInterrupt:
        return _with(error, error.remedies, interrupted=True)
    return error


def _fits(change: _Change, find: Finds, deadline: Deadline) -> bool:
    try:
        find(change.cluster, replace(change.request, time_limit_s=deadline.left_s))
    except (InfeasibleError, RequestError):
        return False
    return True


def _with(
    error: InfeasibleError, remedies: tuple[str, ...], *, interrupted: bool = False,
    out_of_time: bool = False,
) -> InfeasibleError:  # fmt: skip
    return InfeasibleError(
        error.what, error.needed_bytes, error.available_bytes, error.contributors, remedies,
        error.baselines, interrupted=interrupted, out_of_time=out_of_time,
    )  # fmt: skip


def _changes(cluster: Cluster, request: SearchRequest) -> Iterator[_Change]:
    """Changes in the order of what they cost: decisions that are left open cost nothing, a smaller
    batch or an optimizer with less state changes the training, more devices cost money.
    """
    fixed = [
        name
        for name in ("recompute", "zero", "micro_batch", "pipeline", "interleave",
                     "sequence_parallel", "context_parallel")
        if getattr(request, name) != "auto"
    ]  # fmt: skip
    for name in fixed:
        yield _Change(_option(name), cluster, _opened(request, [name]))
    open_request = _opened(request, fixed)
    prefix = "".join(f"{_option(name)} " for name in fixed)
    if len(fixed) > 1:
        yield _Change(prefix.rstrip(), cluster, open_request)
    if request.offload != "auto" and cluster.chip.host_bandwidth_bytes_per_s:
        on_host = replace(open_request, offload="auto")
        yield _Change(f"{prefix}--offload auto", cluster, on_host)
    batch = request.global_batch or 1
    for size in sorted((d for d in divisors(batch) if d < batch), reverse=True):
        smaller = replace(open_request, global_batch=size)
        yield _Change(f"{prefix}--global-batch {size} (now {batch})", cluster, smaller)
    for devices in (cluster.devices * 2**step for step in range(1, MOST_DOUBLINGS + 1)):
        larger = _larger(cluster, devices)
        if larger is not None:
            yield _Change(f"{prefix}--devices {devices} (now {cluster.devices})", larger,
                          open_request)  # fmt: skip
    if request.optimizer.value.startswith("adam"):
        plain = replace(open_request, optimizer=Optimizer.SGD)
        yield _Change(f"{prefix}--optimizer sgd (no moments)", cluster, plain)


def _opened(request: SearchRequest, names: Sequence[str]) -> SearchRequest:
    """The request with some decisions left to the search."""
    changes: dict[str, Any] = dict.fromkeys(names, "auto")
    return replace(request, **changes)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')} auto"


def _larger(cluster: Cluster, devices: int) -> Cluster | None:
    """More devices of the same machine."""
    try:
        found = named_cluster(cluster.name, devices)
    except TopologyError:
        return None
    return replace(found, chip=cluster.chip, reserved_memory_bytes=cluster.reserved_memory_bytes)
