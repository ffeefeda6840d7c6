"""Where groups of ranks stand: which of them lie inside a ring, across rings, across servers.

A job gives its ranks roles, such as tensor parallel 4 times data parallel 2, each with traffic of
its own. A placement says which axes of a mesh each role varies over. All are tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.collectives.kinds import Collective
from costmodel.collectives.model import CollectiveModel
from topology.cluster import Cluster
from topology.errors import ClusterError
from topology.mesh import Mesh, grouped_meshes

__all__ = ["Message", "Placement", "Role", "best_placement", "placements"]

_SPARE_AXES = 3
"""Axes beyond one for each tier: with the roles at hand more never helped."""


@dataclass(frozen=True, slots=True)
class Message:
    """A collective of one role."""

    kind: Collective
    nbytes: float
    """As `Collective` counts them."""

    count: float = 1.0
    """How often it is sent."""


@dataclass(frozen=True, slots=True)
class Role:
    """A way in which the ranks of a job are grouped."""

    name: str
    size: int
    """Ranks of each group, at least 1."""

    messages: tuple[Message, ...]
    """What every group sends; the groups of a role all at the same time, roles in turn."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Axes for roles."""

    mesh: Mesh
    axes: tuple[tuple[int, ...], ...]
    """Mesh axes of each role, in the order of the roles."""

    time_s: float
    """Of all messages, one after the other."""

    def device_order(self) -> tuple[int, ...]:
        """Device of each rank, ranks row-major over the roles, the last role fastest."""
        flat = [axis for axes in self.axes for axis in axes]
        sizes = [self.mesh.sizes[axis] for axis in flat]
        strides = [self.mesh.stride(axis) for axis in flat]
        return tuple(
            sum(place * stride for place, stride in zip(places, strides, strict=True))
            for places in itertools.product(*map(range, sizes))
        )


def placements(cluster: Cluster, roles: Sequence[Role]) -> Iterator[Placement]:
    """Every placement of the roles on the machine, in a fixed order.

    Raises:
        ClusterError: the sizes of the roles do not multiply to the devices.
    """
    total = math.prod(role.size for role in roles)
    if total != cluster.devices or not roles:
        sizes = " x ".join(f"{role.name} {role.size}" for role in roles)
        raise ClusterError(
            f"{sizes or 'no roles'} for {cluster.devices} devices",
            f"cluster {cluster.name!r}",
            "choose sizes that multiply to the number of devices",
        )
    for mesh in grouped_meshes(cluster, len(cluster.tiers) + _SPARE_AXES):
        model = CollectiveModel(cluster, mesh)
        for axes in _assignments(mesh, [role.size for role in roles]):
            time_s = sum(
                message.count * model.time_s(message.kind, message.nbytes, own)
                for role, own in zip(roles, axes, strict=True)
                for message in role.messages
            )
            yield Placement(mesh, axes, time_s)


def best_placement(cluster: Cluster, roles: Sequence[Role]) -> Placement:
    """The placement whose messages take least time; of equals that on the coarsest mesh."""
    return min(placements(cluster, roles), key=lambda placement: placement.time_s)


def _assignments(mesh: Mesh, sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give every axis to a role so that each role has its size."""
    axes = [axis for axis, size in enumerate(mesh.sizes) if size > 1]
    for owners in itertools.product(range(len(sizes)), repeat=len(axes)):
        groups = tuple(
            tuple(axis for axis, owner in zip(axes, owners, strict=True) if owner == role)
            for role in range(len(sizes))
        )
        reached = [math.prod(mesh.sizes[axis] for axis in group) for group in groups]
        if reached == list(sizes):
            yield groups
