"""Why nothing fits, and the cheapest change that makes it possible, found by applying it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from costmodel.memory import Optimizer, tensor_bytes
from ir.graph import OpGraph
from ir.plan_enums import Cause, MemoryCause
from ir.plan_estimate import Baseline
from planner.lowering.lowered import Lowered
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.space import divisors
from planner.request import Deadline, InfeasibleError, RequestError, SearchRequest
from planner.solvers import Solution
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.errors import TopologyError
from topology.units import format_bytes, format_memory

GB = 1e9


def check_states(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> None:
    """Raise `InfeasibleError` if weights, gradients and optimizer state alone exceed the memory
    of all devices.
    """
    limit = request.memory_limit_bytes or float(cluster.usable_memory_bytes)
    causes = {
        MemoryCause.WEIGHTS: 0.0,
        MemoryCause.GRADIENTS: 0.0,
        MemoryCause.OPTIMIZER_STATE: 0.0,
    }
    for tensor in graph.parameters:
        cost = tensor_bytes(graph, tensor, request.optimizer, training=request.training)
        causes[MemoryCause.WEIGHTS] += tensor.elements * cost.weight
        causes[MemoryCause.GRADIENTS] += tensor.elements * cost.gradient
        causes[MemoryCause.OPTIMIZER_STATE] += tensor.elements * cost.states
    if request.offload != "off" and cluster.chip.host_bandwidth_bytes_per_s:
        del causes[MemoryCause.OPTIMIZER_STATE]
    named = ", ".join(cause.partition(" ")[0] for cause in causes)
    total = sum(causes.values())
    if total <= limit * cluster.devices:
        return
    enough = (
        f"--devices {next_job_size(math.ceil(total / limit))} or more (activations come on top)"
        if limit
        else f"a device with more than the {_amount(cluster.reserved_memory_bytes, 1)} that are "
        "reserved"
    )
    raise InfeasibleError(
        f"{_amount(total, 0)} of states ({named}) do not fit into "
        f"{cluster.devices} cards with {_amount(limit, 1)} each, "
        f"{_amount(limit * cluster.devices, 0)} in all",
        needed_bytes=total / cluster.devices,
        available_bytes=limit,
        contributors={k: v / cluster.devices for k, v in causes.items() if v},
        remedies=(
            enough,
            *(
                ("--optimizer sgd (no moments)",)
                if request.training and request.optimizer.keeps_moments
                else ()
            ),
            *(("--phase infer (weights only)",) if request.training else ()),
        ),
    )


def _amount(nbytes: float, digits: int) -> str:
    """Decimal gigabytes, or a smaller unit where they would round to nothing."""
    return f"{nbytes / GB:,.{digits}f} GB" if nbytes >= GB else format_bytes(nbytes)


def next_job_size(devices: int) -> int:
    """Smallest usual job of at least that many devices: 1, 2, 4 or whole servers of eight.

    >>> next_job_size(3), next_job_size(17)
    (4, 24)
    """
    small = next((size for size in (1, 2, 4) if size >= devices), None)
    return small if small is not None else -(-devices // 8) * 8


def infeasible(
    lowered: Lowered,
    solution: Solution,
    request: SearchRequest,
    beside: tuple[Baseline, ...] = (),
    *,
    interrupted: bool = False,
) -> InfeasibleError:
    """The error for a problem whose least peak exceeds the limit."""
    limit = lowered.problem.memory_limit_bytes
    devices = lowered.setting.cluster.devices
    causes: dict[str, float] = {}
    if solution.choice is not None:
        causes = PlanBuilder(lowered, solution.choice).memory_by_cause()
    needed = solution.peak_bytes
    proven = solution.proof == "infeasible"
    found = "no plan fits" if proven else "no plan that fits was found in time"
    batch = lowered.liveness.graph.batch
    remedies = [
        f"--memory {math.ceil(needed / 2**30)}GiB, if the devices had it",
        f"--devices {next_job_size(math.ceil(devices * needed / limit))} or more",
    ]
    if batch > 1 and request.global_batch is None:
        smaller = max(1, 2 ** math.floor(math.log2(max(1.0, batch * limit / needed))))
        remedies.insert(0, f"--batch {min(smaller, batch // 2)} (now {batch})")
    if request.training and request.optimizer.keeps_moments:
        remedies.append("--optimizer sgd (no moments)")
    return InfeasibleError(
        f"{found}: the smallest one found needs {format_memory(needed)} per device of "
        f"{format_memory(limit)}",
        needed_bytes=needed,
        available_bytes=limit,
        contributors=causes,
        remedies=tuple(remedies),
        baselines=beside,
        interrupted=interrupted,
    )


MOST_DOUBLINGS = 6
"""Larger machines that are looked at."""
OPERATORS = 24_000
"""Operators of all networks that are planned on the way, per unit of effort."""
FEWEST = 10
"""Changes that are tried at least."""

Finds = Callable[[Cluster, SearchRequest], object]
"""Plans a request; raises as `planner.pipeline.pipeline_search.search_pipeline` does."""


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
                return replace(error, interrupted=False, out_of_time=True)
            report(f"trying {change.text}")
            if _fits(change, find, deadline):
                return replace(error, remedies=(change.text,), interrupted=False, out_of_time=False)
    except KeyboardInterrupt:
        return replace(error, interrupted=True, out_of_time=False)
    return error


def _fits(change: _Change, find: Finds, deadline: Deadline) -> bool:
    try:
        find(change.cluster, replace(change.request, time_limit_s=deadline.left_s))
    except (InfeasibleError, RequestError):
        return False
    return True


def _changes(cluster: Cluster, request: SearchRequest) -> Iterator[_Change]:
    """Changes in the order of what they cost: decisions that are left open cost nothing, a smaller
    batch or an optimizer with less state changes the training, more devices cost money.
    """
    fixed = [
        name
        for name in (Cause.RECOMPUTE, "zero", "micro_batch", "pipeline", "interleave",
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
        yield _Change(f"{prefix}--batch {size} (now {batch})", cluster, smaller)
    for devices in (cluster.devices * 2**step for step in range(1, MOST_DOUBLINGS + 1)):
        larger = _larger(cluster, devices)
        if larger is not None:
            yield _Change(f"{prefix}--devices {devices} (now {cluster.devices})", larger,
                          open_request)  # fmt: skip
    if request.optimizer.keeps_moments:
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
