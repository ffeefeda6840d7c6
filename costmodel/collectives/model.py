"""Times of collectives over groups of ranks of a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import overload

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.algorithms import ALGORITHMS, AUTO, Stage
from costmodel.collectives.curves import NOTHING, Amounts, Curve, CurveTable, FloatArray
from costmodel.collectives.hccl import hccl_curve
from costmodel.collectives.hierarchy import PAIRED_RINGS, Level, composed
from costmodel.collectives.kinds import Collective
from costmodel.collectives.nccl import NcclModel, Port
from costmodel.collectives.nccl_constants import Constants
from costmodel.collectives.nccl_tuning import ALGORITHMS as NCCL_ALGORITHMS
from costmodel.collectives.nccl_tuning import NcclGroup
from topology.cluster import Cluster, Tier, TierKind
from topology.errors import ClusterError
from topology.mesh import Mesh

__all__ = ["CollectiveModel", "GroupTier"]


@dataclass(frozen=True, slots=True)
class GroupTier:
    """What a group has of one tier."""

    name: str
    """Name of the tier."""

    ranks: int
    """Members of the tier that the group holds."""

    bandwidth_bytes_per_s: float
    """Per direction of each link or port, while all groups of the same axes are at work."""

    latency_s: float
    """Of one step."""

    algorithm: str
    """What is forced for the tier, or `auto`."""


@dataclass(frozen=True, slots=True)
class CollectiveModel:
    """Times of collectives over groups of ranks that vary given axes of a mesh.

    All groups of the same mesh axes run at once. They share no link of a full mesh and no port of
    a switch; where a tier has a shared capacity, each has its fair share of it. A group over
    several axes of one tier is one joint group.
    """

    cluster: Cluster
    """The machine."""

    mesh: Mesh
    """Axes over all ranks of the machine."""

    _known: dict[tuple[Collective, tuple[int, ...]], Curve] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        tiers = range(len(self.cluster.tiers))
        sizes = tuple(self._ranks(position, range(len(self.mesh.axes))) for position in tiers)
        wanted = tuple(tier.size for tier in self.cluster.tiers)
        if sizes != wanted or self.mesh.axes[-1].tier not in tiers:
            raise ClusterError(
                f"the mesh {self.mesh} puts {sizes} ranks on tiers of {wanted}",
                f"cluster {self.cluster.name!r}",
                "build the mesh from this cluster: tier_mesh, prime_mesh or grouped_meshes",
            )
        for tier in self.cluster.tiers:
            _check_algorithm(self.cluster, tier)

    @overload
    def time_s(
        self, kind: Collective, nbytes: float, axes: tuple[int, ...], latency_scale: float = 1.0
    ) -> float: ...

    @overload
    def time_s(
        self,
        kind: Collective,
        nbytes: Amounts,
        axes: tuple[int, ...],
        latency_scale: float = 1.0,
    ) -> FloatArray: ...

    def time_s(
        self,
        kind: Collective,
        nbytes: float | Amounts,
        axes: tuple[int, ...],
        latency_scale: float = 1.0,
    ) -> float | FloatArray:
        """Seconds of one collective, one per element of `nbytes`.

        Args:
            kind: what is done.
            nbytes: bytes on each device, as `Collective` counts them; a number or any array.
            axes: mesh axes that the group varies over; no axis, no time.
            latency_scale: share of a bucket that these bytes are, for tensors sent together: they
                pay this share of the bucket's latency, and their bytes at its rate.
        """
        return self.curve(kind, axes).time_s(nbytes, latency_scale)

    def curve(self, kind: Collective, axes: tuple[int, ...]) -> Curve:
        """Seconds of one collective over its bytes."""
        key = (kind, axes)
        if key not in self._known:
            self._known[key] = self._curve(kind, self._checked(axes))
        return self._known[key]

    def table(self, groups: Iterable[tuple[Collective, tuple[int, ...]]]) -> CurveTable:
        """Curves of many kinds and groups, to price many messages at once; rows in order."""
        return CurveTable.of([self.curve(kind, axes) for kind, axes in groups])

    def times_s(
        self,
        groups: Sequence[tuple[Collective, tuple[int, ...]]],
        rows: NDArray[np.integer],
        nbytes: FloatArray,
    ) -> FloatArray:
        """Seconds of messages: message i is of `nbytes[i]` in group `groups[rows[i]]`."""
        return self.table(groups).time_s(rows, nbytes)

    def tier_of(self, axes: tuple[int, ...]) -> str:
        """Name of the outermost tier that the group crosses, `local` if it crosses none."""
        crossed = [p for p, tier in enumerate(self.cluster.tiers) if self._ranks(p, axes) > 1]
        return self.cluster.tiers[crossed[0]].name if crossed else "local"

    def group(self, axes: tuple[int, ...]) -> tuple[GroupTier, ...]:
        """What a group over these axes has of each tier that it crosses, outermost first."""
        ranks = [self._ranks(position, axes) for position in range(len(self.cluster.tiers))]
        return tuple(
            GroupTier(tier.name, p, self._bandwidth(i), tier.latency_s, tier.algorithm)
            for i, (tier, p) in enumerate(zip(self.cluster.tiers, ranks, strict=True))
            if p > 1
        )

    def _curve(self, kind: Collective, axes: tuple[int, ...]) -> Curve:
        crossed = [p for p in range(len(self.cluster.tiers)) if self._ranks(p, axes) > 1]
        if not crossed:
            return NOTHING
        library = self.cluster.library
        if library is not None and library.name == "nccl":
            return self.nccl_model(axes).curve(kind)
        if kind is Collective.POINT_TO_POINT:
            tier = self.cluster.tiers[crossed[0]]
            return Curve.line(tier.latency_s, 1 / self._bandwidth(crossed[0]))
        levels, inner = self._levels(crossed, axes)
        if library is not None and library.name == "hccl":
            return hccl_curve(library.generation, levels, inner, kind).growing()
        return composed(levels, kind)

    def nccl_model(self, axes: tuple[int, ...]) -> NcclModel:
        """The group as NCCL sees it: GPUs of a server, and servers."""
        library, tiers = self.cluster.library, self.cluster.tiers
        assert library is not None
        first = _domain(tiers)
        counts = [self._ranks(position, axes) for position in range(len(tiers))]
        servers, inside = math.prod(counts[:first]), math.prod(counts[first:])
        near = [p for p in range(first, len(tiers)) if counts[p] > 1]
        far = [p for p in range(first) if counts[p] > 1]
        algorithms = [tiers[p].algorithm for p in (*far, *near) if tiers[p].algorithm != AUTO]
        return NcclModel(
            NcclGroup(library.generation, servers, inside),
            Constants.of(library.constants),
            self._port(near, counts) if near else None,
            self._port(far, counts) if far else None,
            algorithms[0] if algorithms else AUTO,
        )

    def _port(self, positions: Sequence[int], counts: Sequence[int]) -> Port:
        """What a device has in some tiers, with the longest latency.

        Of switches the narrowest port; links to single devices, of a mesh and of pairs, carry
        rings side by side.
        """
        rates, shares = [], []
        for position in positions:
            tier = self.cluster.tiers[position]
            links = counts[position] - 1 if tier.kind is TierKind.FULL_MESH else 1
            left = self._bandwidth(position) / tier.bandwidth_bytes_per_s
            rates.append(tier.nominal_bandwidth_bytes_per_s * left * links)
            shares.append(tier.bandwidth_bytes_per_s / tier.nominal_bandwidth_bytes_per_s)
        direct = all(self.cluster.tiers[p].kind is not TierKind.SWITCH for p in positions)
        slowest = rates.index(min(rates))
        latency = max(self.cluster.tiers[position].latency_s for position in positions)
        return Port(sum(rates) if direct else rates[slowest], shares[slowest], latency)

    def _levels(self, crossed: Sequence[int], axes: tuple[int, ...]) -> tuple[list[Level], int]:
        """What a group does in each tier, innermost first, and how many levels a server holds.

        The outermost tier joins servers, if the cluster has more than one tier.
        """
        tiers = self.cluster.tiers
        wide = len(tiers) > 1 and tiers[0].kind is TierKind.SWITCH
        levels: list[Level] = []
        inner = 0
        for _, run in groupby(reversed(crossed), key=self._joint):
            positions = list(run)
            stages = tuple(self._stage(position, axes) for position in positions)
            algorithm = tiers[positions[0]].algorithm
            if self._is_paired_mesh(positions[0], levels, axes):
                levels[-1] = Level((*levels[-1].stages, *stages), PAIRED_RINGS)
                continue
            levels.append(Level(stages, algorithm))
            inner += not (wide and positions[-1] == 0)
        return levels, inner

    def _joint(self, position: int) -> int:
        """Equal for tiers that work as one: the dimensions of a torus."""
        return -1 if self.cluster.tiers[position].kind is TierKind.TORUS else position

    def _stage(self, position: int, axes: tuple[int, ...]) -> Stage:
        tier, ranks = self.cluster.tiers[position], self._ranks(position, axes)
        stride = self._stride(position, axes) if tier.kind is TierKind.TORUS else 1
        return Stage(
            ranks,
            tier.latency_s * stride,
            stride / self._bandwidth(position),
            tier.kind,
            wrap=tier.wrap and ranks * stride == tier.size,
        )

    def _stride(self, position: int, axes: tuple[int, ...]) -> int:
        """Distance between neighbours of a group inside one tier.

        Groups that lie between one another share the links between them.
        """
        mine = [a for a, axis in enumerate(self.mesh.axes) if axis.tier == position]
        last = max(axis for axis in axes if axis in mine)
        return math.prod(self.mesh.axes[axis].size for axis in mine if axis > last)

    def _is_paired_mesh(
        self, position: int, levels: Sequence[Level], axes: tuple[int, ...]
    ) -> bool:
        """True if the group holds both whole meshes that the pairs of this tier join."""
        tiers = self.cluster.tiers
        inner = position + 1
        return (
            tiers[position].kind is TierKind.PAIRS
            and tiers[position].algorithm == AUTO
            and inner < len(tiers)
            and tiers[inner].kind is TierKind.FULL_MESH
            and bool(levels)
            and self._ranks(inner, axes) == tiers[inner].size
        )

    def _bandwidth(self, position: int) -> float:
        """Bytes per second of a link or port of one tier while all its groups are at work.

        A shared capacity is divided by the devices inside one member of the tier: each has a link
        or a port that draws on it.
        """
        tier = self.cluster.tiers[position]
        if tier.shared_capacity_bytes_per_s is None:
            return tier.bandwidth_bytes_per_s
        links = math.prod(inner.size for inner in self.cluster.tiers[position + 1 :])
        return min(tier.bandwidth_bytes_per_s, tier.shared_capacity_bytes_per_s / links)

    def _ranks(self, position: int, axes: tuple[int, ...] | range) -> int:
        """Members of one tier that a group over these axes holds."""
        mine = (self.mesh.axes[axis] for axis in axes)
        return math.prod(axis.size for axis in mine if axis.tier == position)

    def _checked(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        count = len(self.mesh.axes)
        if len(set(axes)) != len(axes) or not all(0 <= axis < count for axis in axes):
            raise ClusterError(
                f"a group over axes {axes}",
                f"the mesh {self.mesh}",
                f"name each axis at most once, by its index from 0 to {count - 1}",
            )
        return axes


def forced(cluster: Cluster, tier: str, algorithm: str) -> Cluster:
    """The same machine with one algorithm for all collectives inside one tier.

    Raises:
        ClusterError: no such tier, or the library has no such algorithm.
    """
    index = cluster.tier_index(tier)
    changed = replace(cluster.tiers[index], algorithm=algorithm)
    _check_algorithm(cluster, changed)
    return replace(cluster, tiers=(*cluster.tiers[:index], changed, *cluster.tiers[index + 1 :]))


def _domain(tiers: Sequence[Tier]) -> int:
    """First of the tiers inside a server: the innermost and those of the same kind of link."""
    first = len(tiers) - 1
    while first > 0 and tiers[-1].transport and tiers[first - 1].transport == tiers[-1].transport:
        first -= 1
    return first


def _check_algorithm(cluster: Cluster, tier: Tier) -> None:
    nccl = cluster.library is not None and cluster.library.name == "nccl"
    known = NCCL_ALGORITHMS if nccl else tuple(ALGORITHMS)
    if tier.algorithm != AUTO and tier.algorithm.partition("/")[0] not in known:
        raise ClusterError(
            f"no algorithm {tier.algorithm!r}",
            f"tier {tier.name!r} of cluster {cluster.name!r}",
            f"use one of {', '.join((AUTO, *known))}",
        )
