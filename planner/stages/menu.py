"""Which numbers of stages and sizes of micro-batch there are."""

from __future__ import annotations

from dataclasses import dataclass

from planner.dialects import mindspore_devices_allowed
from planner.request import RequestError, SearchRequest
from planner.stages.machine import stage_cluster
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """How a step is cut: into stages, and into micro-batches."""

    stages: int
    micro_batch: int
    """Samples of one micro-batch, over all devices of a stage."""
    micro_batches: int


def shapes_of(
    cluster: Cluster, request: SearchRequest, segments: int, *, cut_counts: bool
) -> tuple[Shape, ...]:
    """All shapes that the request leaves open.

    Args:
        cluster: the machine.
        request: says the global batch, and what is fixed.
        segments: pieces that the network can be cut into.
        cut_counts: the target is MindSpore, which does not run on any number of devices.

    Raises:
        RequestError: there is none; the message names the nearest that there is.
    """
    batch = request.global_batch or 0
    stages = [
        p
        for p in divisors(cluster.devices)
        if p <= segments and _runs(cluster, cluster.devices // p, cut_counts=cut_counts)
    ]
    if request.pipeline == "off":
        stages = [1]
    elif request.pipeline != "auto":
        stages = [_wanted_stages(int(request.pipeline), stages, segments, cluster)]
    micro = divisors(batch)
    if request.micro_batch != "auto":
        micro = [_wanted_micro_batch(int(request.micro_batch), micro, batch)]
    return tuple(Shape(p, b, batch // b) for p in stages for b in micro)


def in_flight(shape: Shape) -> tuple[int, ...]:
    """Micro-batches whose activations each stage keeps under 1F1B.

    >>> in_flight(Shape(4, 1, 3))
    (3, 3, 2, 1)
    """
    return tuple(min(shape.micro_batches, shape.stages - stage) for stage in range(shape.stages))


def _runs(cluster: Cluster, devices: int, *, cut_counts: bool) -> bool:
    if cut_counts and not mindspore_devices_allowed(devices):
        return False
    return stage_cluster(cluster, devices) is not None


def _wanted_stages(wanted: int, offered: list[int], segments: int, cluster: Cluster) -> int:
    if wanted in offered:
        return wanted
    if wanted > segments:
        why = f"the model can be cut into {segments} pieces at most"
    elif cluster.devices % wanted:
        why = f"{cluster.devices} devices do not divide by {wanted}"
    else:
        why = f"{cluster.devices // wanted} devices of this machine are no stage for the target"
    nearest = min(offered, key=lambda p: (abs(p - wanted), p))
    raise RequestError(
        f"there are no {wanted} stages: {why}\n  at:  --pipeline {wanted}\n"
        f"  fix: --pipeline {nearest}, the nearest of {', '.join(map(str, offered))}"
    )


def _wanted_micro_batch(wanted: int, offered: list[int], batch: int) -> int:
    if wanted in offered:
        return wanted
    if wanted > batch:
        what = f"a micro-batch of {wanted} samples is more than the global batch of {batch}"
    else:
        what = f"a global batch of {batch} samples does not divide into micro-batches of {wanted}"
    nearest = min(offered, key=lambda b: (abs(b - wanted), b))
    larger = -(-batch // wanted) * wanted
    raise RequestError(
        f"{what}\n  at:  --micro-batch {wanted}\n"
        f"  fix: --micro-batch {nearest}, or --global-batch {larger}"
    )


def divisors(number: int) -> list[int]:
    """All, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
