"""A part of a machine: so many neighbouring devices."""

from __future__ import annotations

import math
from dataclasses import replace

from topology.cluster import Cluster


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
