"""A data-parallel plan whose devices exchange gradients through parameter servers."""

from __future__ import annotations

import math

from costmodel.simulation.parameter_server import ServerError
from costmodel.simulation.plan_index import CAUSE_GATHER, CAUSE_SYNC
from costmodel.simulation.served import Workers
from ir.dtypes import dtype_bytes
from ir.plan import CAUSE_UPDATED, Plan
from ir.throughput import load_of
from topology.cluster import Cluster

_OF_PARAMETERS = frozenset({CAUSE_GATHER, CAUSE_SYNC, CAUSE_UPDATED})


def plan_workers(plan: Plan) -> Workers:
    """The devices of a plan as workers that are alike, with ports to the outermost network.

    What the plan exchanges of parameters goes through the servers instead, and these update.

    Raises:
        ServerError: a device of the plan is no such worker.
    """
    _check(plan)
    load, tier = load_of(plan), Cluster.from_dict(plan.cluster).tiers[0]
    return Workers(
        name=plan.graph.name,
        count=plan.devices,
        compute_s=math.fsum(
            (
                *(op.compute_s + op.recompute_s for op in plan.operators),
                *(tensor.recompute_s for tensor in plan.tensors),
            )
        ),
        nbytes=math.fsum(
            math.prod(tensor.dims) * dtype_bytes(tensor.dtype) for tensor in plan.parameters
        ),
        port_bytes_per_s=tier.bandwidth_bytes_per_s,
        port_latency_s=tier.latency_s,
        samples=load.samples / plan.devices,
        tokens=load.tokens / plan.devices,
    )


def _check(plan: Plan) -> None:
    """Raise `ServerError` unless every device computes the whole model for samples of its own.

    That is so where parameters are used whole, the gradients of each are summed over all devices,
    and nothing else is exchanged.
    """
    if not plan.request.get("training"):
        raise ServerError("the plan trains nothing: workers have no gradients to push")
    if plan.pipeline is not None and len(plan.pipeline.stages) > 1:
        raise ServerError("the plan has pipeline stages; a worker is one device")
    for tensor in plan.parameters:
        if tensor.used is not None and any(tensor.used.dims):
            raise ServerError(
                f"{tensor.name} is used split, as {tensor.used}; a worker has whole parameters"
            )
    for item in plan.collectives:
        if item.cause not in _OF_PARAMETERS:
            what = item.tensor or item.operator
            raise ServerError(
                f"devices exchange more than parameters: {item.kind} {item.cause} of {what}"
            )
    _check_gradients(plan)


def _check_gradients(plan: Plan) -> None:
    axes = {name for name, size, _ in plan.mesh if size > 1}
    summed: dict[str, set[str]] = {}
    for item in plan.collectives:
        if item.cause == CAUSE_SYNC:
            summed.setdefault(item.tensor, set()).update(item.axes)
    for tensor in plan.parameters:
        if tensor.update_s and summed.get(tensor.name, set()) != axes:
            raise ServerError(
                f"devices have the same samples: the gradient of {tensor.name} is summed over "
                f"{'*'.join(sorted(summed.get(tensor.name, ()))) or 'none of them'}"
            )
