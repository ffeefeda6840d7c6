"""Workers of one device each that exchange gradients through parameter servers."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.simulation.parameter_server import ServedTraining


@dataclass(frozen=True, slots=True)
class Workers:
    """Devices that compute the same step side by side, each for samples of its own."""

    name: str
    """Of the model."""
    count: int
    compute_s: float
    """Forward and backward pass of the batch of one of them, nothing exchanged or updated."""
    nbytes: float
    """Of the gradients that one pushes, and of the parameters that it pulls."""
    port_bytes_per_s: float
    """Of one of them, each way."""
    port_latency_s: float
    samples: float
    """Of the batch of one."""
    tokens: float


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


def served_training(workers: Workers, servers: Servers) -> ServedTraining:
    """Workers and what they exchange with servers."""
    slow, compute_s = min(servers.slow_workers, workers.count), workers.compute_s
    slow_s = compute_s * servers.slow_factor
    return ServedTraining(
        compute_s=(compute_s,) * (workers.count - slow) + (slow_s,) * slow,
        servers=servers.count,
        nbytes=workers.nbytes,
        worker_bytes_per_s=workers.port_bytes_per_s,
        server_bytes_per_s=servers.bytes_per_s or workers.port_bytes_per_s,
        latency_s=workers.port_latency_s,
        update_s=servers.update_s / servers.count,
        synchronous=servers.synchronous,
        steps=servers.steps,
    )
