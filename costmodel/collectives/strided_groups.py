"""Groups of ranks at equal distances, ranks numbered server by server: their curves.

A group that does not divide the tiers of its machine has the curve of the nearest one that fills
what it has of each tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from costmodel.collectives.curves import Curve, FloatArray
from costmodel.collectives.kinds import Collective
from costmodel.collectives.model import CollectiveModel
from topology.cluster import Cluster, Tier
from topology.mesh import Mesh, MeshAxis

__all__ = ["Group", "strided_curve"]


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate, of many groups at once; whole numbers of 1 or more."""

    size: FloatArray
    """Members."""

    stride: FloatArray
    """Between two of them that are next to each other."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What a group has of one tier."""

    tier: Tier
    """Cut down to the members and what lies between them, where they do not divide it."""

    apart: int
    """Members of the tier from one of the group to the next."""

    members: int

    def axes(self, number: int) -> Iterator[MeshAxis]:
        """Axes of the tier, outermost first; the second is that of the group."""
        sizes = self.tier.size // (self.members * self.apart), self.members, self.apart
        for name, size in zip(("outside", "group", "between"), sizes, strict=True):
            yield MeshAxis(f"{name}{number}", size, number)


def strided_curve(cluster: Cluster, kind: Collective, size: int, stride: int) -> Curve:
    """Seconds of a collective of `size` ranks that are `stride` apart.

    Args:
        cluster: of which they are a part; its outermost tier may have fewer members than they need.
        kind: what is done.
        size: of the group.
        stride: from a rank to the next.
    """
    parts = _parts(cluster.tiers, size, stride)
    axes = [axis for number, part in enumerate(parts) for axis in part.axes(number)]
    own = tuple(range(1, len(axes), 3))
    sized = replace(cluster, tiers=tuple(part.tier for part in parts))
    return CollectiveModel(sized, Mesh(tuple(axes))).curve(kind, own)


def _parts(tiers: tuple[Tier, ...], size: int, stride: int) -> list[_Part]:
    """What a group has of each tier, outermost first."""
    found: list[_Part] = []
    inside = 1
    for tier in reversed(tiers):
        apart = max(stride // inside, 1)
        members = size if tier is tiers[0] else min(max(tier.size // apart, 1), size)
        found.insert(0, _part(tier, apart if members > 1 else 1, members))
        inside, size = inside * tier.size, -(-size // members)
    return found


def _part(tier: Tier, apart: int, members: int) -> _Part:
    taken = apart * members
    if tier.size % taken == 0:
        return _Part(tier, apart, members)
    wrap = tier.wrap and taken == tier.size
    return _Part(replace(tier, size=taken, wrap=wrap), apart, members)
