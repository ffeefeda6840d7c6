"""A conventional layout whose replicas exchange gradients through parameter servers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_job import LayoutConstants, layout_job
from costmodel.simulation.layout_simulation import calibrated, simulate_job
from costmodel.simulation.parameter_server import ServerError
from costmodel.simulation.served import Workers
from costmodel.training.machines import machine
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.simulation.job import Block, Job
    from costmodel.training.records import TrainingRun

GRADIENT_BYTES = 2.0
"""Of each gradient and each parameter on the way."""


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
    return Workers(
        name=run.model.name,
        count=layout.dp,
        compute_s=simulate_job(_alone(layout_job(run, known)), Effects.none()).step_s,
        nbytes=GRADIENT_BYTES * float(model_parameters(RunTable.of([run]))[0]),
        port_bytes_per_s=(run.port_bytes_per_s or found.port_bytes_per_s) * known.step.port,
        port_latency_s=found.port_latency_s,
        samples=samples,
        tokens=samples * layout.seq_len,
    )


def _alone(job: Job) -> Job:
    """The job of a worker that exchanges nothing with others and updates nothing."""

    def quiet(block: Block) -> Block:
        return replace(block, gather_s=0.0, sync_s=0.0)

    stages = tuple(
        replace(s, update_s=0.0, chunks=tuple(tuple(map(quiet, c)) for c in s.chunks))
        for s in job.stages
    )
    return replace(job, stages=stages)
