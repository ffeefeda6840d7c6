"""A conventional layout whose replicas exchange gradients through parameter servers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_job import LayoutConstants, layout_job
from costmodel.simulation.layout_simulation import calibrated, simulate_job
from costmodel.simulation.parameter_server import ServedTraining, ServerError
from costmodel.training.machines import machine
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.simulation.job import Block, Job
    from costmodel.training.records import TrainingRun

GRADIENT_BYTES = 2.0
"""Of each gradient and each parameter on the way."""


@dataclass(frozen=True, slots=True)
class Servers:
    """What serves the workers."""

    count: int
    synchronous: bool = True
    bytes_per_s: float = 0.0
    """Of the port of one server; 0 says as that of a worker."""
    update_s: float = 0.0
    """For one server alone to apply all gradients of one worker; several share them."""
    slow_workers: int = 0
    slow_factor: float = 1.0
    """How much longer those take to compute."""
    steps: int = 10


def served_training(
    run: TrainingRun, servers: Servers, constants: LayoutConstants | None = None
) -> ServedTraining:
    """Workers that are one device each, and what they exchange with servers.

    Raises:
        ServerError: a replica is more than one device.
    """
    layout = run.layout
    if layout.devices != layout.dp:
        raise ServerError(f"a replica is {layout.devices // layout.dp} devices; a worker is one")
    known = calibrated(run) if constants is None else constants
    job = layout_job(run, known)
    compute_s = simulate_job(_alone(job), Effects.none()).step_s
    found = machine(run.machine)
    port = (run.port_bytes_per_s or found.port_bytes_per_s) * known.step.port
    slow = min(servers.slow_workers, layout.dp)
    times = (compute_s,) * (layout.dp - slow) + (compute_s * servers.slow_factor,) * slow
    return ServedTraining(
        compute_s=times,
        servers=servers.count,
        nbytes=GRADIENT_BYTES * float(model_parameters(RunTable.of([run]))[0]),
        worker_bytes_per_s=port,
        server_bytes_per_s=servers.bytes_per_s or port,
        latency_s=found.port_latency_s,
        update_s=servers.update_s / servers.count,
        synchronous=servers.synchronous,
        steps=servers.steps,
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
