"""The machine of one stage, and what lies between stages."""

from __future__ import annotations

from costmodel.collectives import Collective, CollectiveModel
from topology.cluster import Cluster
from topology.mesh import tier_mesh


def send_s(cluster: Cluster, nbytes: float) -> float:
    """Seconds in which every device sends so many bytes to its place in the next stage, over the
    outermost links: some neighbours are that far apart.
    """
    model = CollectiveModel(cluster, tier_mesh(cluster))
    return float(model.time_s(Collective.POINT_TO_POINT, nbytes, (0,)))


def send_tier(cluster: Cluster) -> str:
    """The links that a send crosses."""
    return CollectiveModel(cluster, tier_mesh(cluster)).tier_of((0,))
