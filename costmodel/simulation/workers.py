"""What exchanges gradients through parameter servers: a data-parallel plan, or a layout."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import calibrated
from costmodel.simulation.layout_step import LayoutConstants, layout_step
from costmodel.simulation.parameter_server import ServerError, Workers
from costmodel.simulation.simulate_step import run_step
from costmodel.training.machines import machine
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable
from ir.dtypes import dtype_bytes
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.throughput import load_of
from topology.cluster import Cluster

if TYPE_CHECKING:
    from costmodel.simulation.step import Block, Step
    from costmodel.training.records import TrainingRun

GRADIENT_BYTES = 2.0
"""Of each gradient and each parameter of a layout on the way."""
_OF_PARAMETERS = frozenset({Cause.PARAMETER_GATHER, Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS})


def layout_workers(run: TrainingRun, constants: LayoutConstants | None = None) -> Workers:
    """The replicas of a layout as workers.

    Raises:
        ServerError: a replica is more than one device.
    """
    layout = run.layout
    if layout.devices != layout.dp:
        raise ServerError(f"a replica is {layout.devices // layout.dp} devices; a worker is one")
    known = calibrated(run) if constants is None else constants
    found = machine(run.machine)
    samples = layout.global_batch / layout.dp
    lowered, timeline = run_step(_alone(layout_step(run, known)), Effects.none())
    return Workers(
        name=run.model.name,
        count=layout.dp,
        compute_s=lowered.step_s(timeline),
        nbytes=GRADIENT_BYTES * float(model_parameters(RunTable.of([run]))[0]),
        port_bytes_per_s=(run.port_bytes_per_s or found.port_bytes_per_s)
        * found.port_efficiency
        * known.step.port,
        port_latency_s=found.port_latency_s,
        samples=samples,
        tokens=samples * layout.seq_len,
    )


def _alone(step: Step) -> Step:
    """The step of a worker that exchanges nothing with others and updates nothing."""

    def quiet(block: Block) -> Block:
        return replace(block, gather_s=0.0, sync_s=0.0)

    stages = tuple(
        replace(s, update_s=0.0, chunks=tuple(tuple(map(quiet, c)) for c in s.chunks))
        for s in step.stages
    )
    return replace(step, stages=stages)


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
    if len(plan.pipeline.stages) > 1:
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
        if item.cause == Cause.GRADIENT_SYNC:
            summed.setdefault(item.tensor, set()).update(item.axes)
    for tensor in plan.parameters:
        if tensor.update_s and summed.get(tensor.name, set()) != axes:
            raise ServerError(
                f"devices have the same samples: the gradient of {tensor.name} is summed over "
                f"{'*'.join(sorted(summed.get(tensor.name, ()))) or 'none of them'}"
            )
