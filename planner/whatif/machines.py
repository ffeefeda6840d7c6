"""The machine of a point: a cluster with some of its numbers multiplied."""

from __future__ import annotations

from dataclasses import replace

from planner.whatif.axes import FACTORS, Place
from topology.cluster import Cluster

_LATENCIES = ("_start_s", "_step_s", "_fill_s", "_peer_s")
"""How names of a library's constants end that are seconds."""


def scaled(
    cluster: Cluster,
    *,
    bandwidth: float = 1.0,
    latency: float = 1.0,
    memory: float = 1.0,
    compute: float = 1.0,
) -> Cluster:
    """The same machine with some of its numbers multiplied.

    Args:
        cluster: the machine.
        bandwidth: of every link and of what links share.
        latency: of every link, and of the steps that the communication library was measured with.
        memory: of the capacity of every device.
        compute: of the arithmetic rates of every device; the bandwidth of its memory stays.
    """
    if bandwidth != 1.0:
        cluster = replace(cluster, tiers=tuple(tier.scaled(bandwidth) for tier in cluster.tiers))
    if latency != 1.0:
        cluster = _slower(cluster, latency)
    chip = cluster.chip
    if memory != 1.0:
        chip = replace(chip, memory_bytes=round(chip.memory_bytes * memory))
    if compute != 1.0:
        peaks = {dtype: flops * compute for dtype, flops in chip.peak_flops.items()}
        chip = replace(chip, peak_flops=peaks, vector_flops=chip.vector_flops * compute)
    return replace(cluster, chip=chip) if chip is not cluster.chip else cluster


def _slower(cluster: Cluster, factor: float) -> Cluster:
    tiers = tuple(replace(tier, latency_s=tier.latency_s * factor) for tier in cluster.tiers)
    library = cluster.library
    if library is not None:
        constants = {
            name: value * factor if name.endswith(_LATENCIES) else value
            for name, value in library.constants.items()
        }
        library = replace(library, constants=constants)
    return replace(cluster, tiers=tiers, library=library)


def of_place(cluster: Cluster, place: Place) -> Cluster:
    """The machine of a point."""
    return scaled(cluster, **{name: place.factor(name) for name in FACTORS})
