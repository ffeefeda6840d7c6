"""Which numbers of stages and sizes of micro-batch there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.schedules.in_flight import Moments, moments, most_in_flight
from costmodel.schedules.orders import Shape as ScheduleShape
from ir.dialects import TARGETS
from ir.plan_enums import Schedule
from planner.request import RequestError, SearchRequest
from topology.cluster import Cluster
from topology.part import stage_cluster
from topology.units import format_count

MOST_CHUNKS = 4
"""Chunks on every device that are looked at unless they are asked for."""


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """How a step is cut: into stages, and into micro-batches."""

    stages: int
    """Parts of the machine in a row."""
    micro_batch: int
    """Samples of one micro-batch, over all devices of a stage."""
    micro_batches: int
    chunks: int = 1
    """Pieces of the network on each part of the machine, interleaved."""
    sizes: tuple[int, ...] = ()
    """Devices of each part, where they differ."""

    @property
    def pieces(self) -> int:
        """Pieces that the network is cut into."""
        return self.stages * self.chunks

    def devices_of(self, part: int) -> int:
        """Devices of a part of the machine; 0 where all have the same."""
        return self.sizes[part] if self.sizes else 0

    def __str__(self) -> str:
        chunks = f" of {self.chunks} chunks" if self.chunks > 1 else ""
        if self.sizes:
            chunks = f" of {', '.join(map(str, self.sizes))} devices"
        return (
            f"{format_count(self.stages, 'stage')}{chunks}, "
            f"{format_count(self.micro_batches, 'micro-batch', 'es')} of {self.micro_batch}"
        )


def configurations_of(
    cluster: Cluster, request: SearchRequest, segments: int
) -> tuple[Configuration, ...]:
    """All shapes that the request leaves open.

    Args:
        cluster: the machine.
        request: says the global batch, and what is fixed.
        segments: pieces that the network can be cut into.

    Raises:
        RequestError: there is none; the message names the nearest that there is.
    """
    batch = request.global_batch or 0
    stages = [
        p
        for p in divisors(cluster.devices)
        if p <= segments and _runs(cluster, request, cluster.devices // p)
    ]
    if request.pipeline == "off":
        stages = [1]
    elif request.pipeline != "auto":
        if _is_for_unequal(request, stages, segments):
            _micro_batches(request, batch)
            return ()
        stages = [_wanted_stages(request, stages, segments, cluster)]
    micro = _micro_batches(request, batch)
    every = [
        Configuration(p, b, batch // b, chunks)
        for p in stages
        for b in _filling(micro, batch, p)
        for chunks in _chunks(request)
        if _takes_turns(p, batch // b, chunks, segments)
    ]
    return tuple(every) if every else _no_turns(request, stages, segments)


def _filling(sizes: Sequence[int], batch: int, stages: int) -> Sequence[int]:
    """Sizes of micro-batch that give every stage one; all where none of them does.

    Source: PyTorch's `Schedule1F1B` and MindSpore's pipelines refuse fewer micro-batches.
    """
    return [size for size in sizes if batch // size >= stages] or sizes


def _micro_batches(request: SearchRequest, batch: int) -> list[int]:
    """Sizes of micro-batch that are open, or the one that is asked for."""
    every = divisors(batch)
    if request.micro_batch == "auto":
        return every
    return [_wanted_micro_batch(int(request.micro_batch), every, batch)]


def _is_for_unequal(request: SearchRequest, stages: list[int], segments: int) -> bool:
    """Whether stages are asked for that can be had with unequal numbers of devices alone."""
    wanted = int(request.pipeline)
    return request.stage_meshes == "any" and wanted not in stages and 1 < wanted <= segments


def _chunks(request: SearchRequest) -> tuple[int, ...]:
    if request.interleave != "auto":
        return (int(request.interleave),)
    return tuple(2**i for i in range(MOST_CHUNKS.bit_length()) if 2**i <= MOST_CHUNKS)


def _takes_turns(stages: int, micro_batches: int, chunks: int, segments: int) -> bool:
    """Whether chunks can be interleaved: whole rounds of as many micro-batches as there are stages.

    Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", SC 2021, section 2.2.
    """
    in_rounds = stages > 1 and micro_batches % stages == 0 and stages * chunks <= segments
    return chunks == 1 or in_rounds


def _no_turns(
    request: SearchRequest, stages: list[int], segments: int
) -> tuple[Configuration, ...]:
    """Raise the error for chunks that no configuration can interleave."""
    chunks = int(request.interleave)
    several = [p for p in stages if p > 1]
    room = [p for p in several if p * chunks <= segments]
    if not several:
        why, fix = "there is one stage", "--interleave 1, or --pipeline 2"
    elif not room:
        most = max(segments // min(several), 1)
        why = f"the model can be cut into {segments} pieces at most"
        fix = f"--interleave {most}"
    else:
        batch, own = request.global_batch or 0, request.micro_batch
        size = 1 if own == "auto" else int(own)
        turns = min(room) * size
        why = f"the micro-batches are no multiple of the stages, {min(room)}"
        fix = f"--interleave 1, or --batch {-(-batch // turns) * turns}"
    raise RequestError(
        f"{chunks} chunks cannot be interleaved: {why}\n  at:  --interleave {chunks}\n  fix: {fix}"
    )


def order_of(shape: Configuration) -> tuple[str, ScheduleShape]:
    """Name of the schedule of a step, and what its order is made for."""
    name = Schedule.ONE_FORWARD_ONE_BACKWARD if shape.chunks == 1 else Schedule.INTERLEAVED
    return name, ScheduleShape(shape.stages, shape.chunks, shape.micro_batches)


def in_flight(shape: Configuration) -> tuple[int, ...]:
    """Micro-batches whose activations each piece keeps at most, in the order of the network."""
    return most_in_flight(*order_of(shape))


def moments_of(shape: Configuration, part: int) -> tuple[Moments, ...]:
    """For each chunk of a part of the machine when most of its activations are kept."""
    return moments(*order_of(shape), part)


def moments_of_pieces(shape: Configuration, numbers: Sequence[int]) -> tuple[Moments, ...]:
    """The same of some pieces; empty without chunks, where `in_flight` says all."""
    if shape.chunks == 1:
        return ()
    return tuple(moments_of(shape, k % shape.stages)[k // shape.stages] for k in numbers)


def _runs(cluster: Cluster, request: SearchRequest, devices: int) -> bool:
    runs = TARGETS[request.target].runs_on(devices)
    return runs and stage_cluster(cluster, devices) is not None


def _wanted_stages(
    request: SearchRequest, offered: list[int], segments: int, cluster: Cluster
) -> int:
    wanted, unequal = int(request.pipeline), ""
    if wanted in offered:
        return wanted
    if wanted > segments:
        why = f"the model can be cut into {segments} pieces at most"
    elif cluster.devices % wanted:
        why = f"{cluster.devices} devices do not divide by {wanted}"
        unequal = "" if TARGETS[request.target].equal_stages else ", or --stage-meshes any"
    else:
        why = f"{cluster.devices // wanted} devices of this machine are no stage for the target"
    nearest = min(offered, key=lambda p: (abs(p - wanted), p))
    raise RequestError(
        f"there are no {wanted} stages: {why}\n  at:  --pipeline {wanted}\n"
        f"  fix: --pipeline {nearest}, the nearest of {', '.join(map(str, offered))}{unequal}"
    )


def _wanted_micro_batch(wanted: int, offered: list[int], batch: int) -> int:
    if wanted in offered:
        return wanted
    if wanted > batch:
        what = f"a micro-batch of {wanted} samples is more than the batch of {batch}"
    else:
        what = f"a batch of {batch} samples does not divide into micro-batches of {wanted}"
    nearest = min(offered, key=lambda b: (abs(b - wanted), b))
    larger = -(-batch // wanted) * wanted
    raise RequestError(
        f"{what}\n  at:  --micro-batch {wanted}\n"
        f"  fix: --micro-batch {nearest}, or --batch {larger}"
    )


def divisors(number: int) -> list[int]:
    """All, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
