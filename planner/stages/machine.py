"""The machine of one stage, and what lies between stages."""

from __future__ import annotations

import math
from dataclasses import replace

from costmodel.collectives import Collective, CollectiveModel
from topology.cluster import Cluster
from topology.mesh import tier_mesh


def stage_cluster(cluster: Cluster, devices: int) -> Cluster | None:
    """So many neighbouring devices of a cluster; None if equal parts of that size would not lie
    alike in its tiers.
    """
    left = devices
    tiers = []
    for tier in reversed(cluster.tiers):
        size = math.gcd(left, tier.size)
        if size not in {tier.size, left}:
            return None
        if size > 1:
            tiers.append(replace(tier, size=size))
        left //= size
    if left > 1:
        return None
    return replace(cluster, tiers=tuple(reversed(tiers)) or (replace(cluster.tiers[-1], size=1),))


def send_s(cluster: Cluster, nbytes: float) -> float:
    """Seconds in which every device sends so many bytes to its place in the next stage, over the
    outermost links: some neighbours are that far apart.
    """
    model = CollectiveModel(cluster, tier_mesh(cluster))
    return float(model.time_s(Collective.POINT_TO_POINT, nbytes, (0,)))


def send_tier(cluster: Cluster) -> str:
    """The links that a send crosses."""
    return CollectiveModel(cluster, tier_mesh(cluster)).tier_of((0,))
