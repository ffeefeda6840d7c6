"""That nothing fits: what is needed, what holds it, and what is reckoned to be enough.

`planner.explain.infeasible` tries changes.
"""

from __future__ import annotations

import math

from costmodel.memory import tensor_bytes
from ir.graph import OpGraph
from ir.plan_enums import MemoryCause
from ir.plan_estimate import Baseline
from planner.lowering.lowered import Lowered
from planner.pipeline.plan_builder import PlanBuilder
from planner.request import InfeasibleError, SearchRequest
from planner.solvers import Solution
from topology.cluster import Cluster
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
