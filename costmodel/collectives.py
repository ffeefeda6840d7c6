"""Time of collective communication. Every formula of it stands here and nowhere else.

Notation: p ranks, n bytes, a seconds of latency per step, b seconds per byte of one link (full
mesh, pairs) or of one port (switch). n is the whole vector: the input of an all-reduce or a
reduce-scatter, the output of an all-gather, the local tensor of an all-to-all.

All groups of the same mesh axes run at once. They share no link of a full mesh and no port of a
switch, so only the pairs of a tier with a shared capacity slow one another down.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from topology.cluster import Cluster, Tier, TierKind
from topology.errors import ClusterError
from topology.mesh import Mesh

__all__ = ["Collective", "CollectiveModel"]

FloatArray: TypeAlias = NDArray[np.float64]
Amounts: TypeAlias = NDArray[np.float64] | NDArray[np.int64]


class Collective(StrEnum):
    """Kinds of communication, and what their `nbytes` counts on each device."""

    ALL_REDUCE = "all_reduce"
    """Bytes of the tensor, which every device has before and after."""

    ALL_GATHER = "all_gather"
    """Bytes of the gathered output."""

    REDUCE_SCATTER = "reduce_scatter"
    """Bytes of the input."""

    ALL_TO_ALL = "all_to_all"
    """Bytes of the local tensor, the same before and after."""

    BROADCAST = "broadcast"
    """Bytes of the tensor."""

    POINT_TO_POINT = "point_to_point"
    """Bytes sent from one device to one other."""


@dataclass(frozen=True, slots=True)
class _Affine:
    """A time that is a latency plus a number of seconds per byte."""

    latency_s: float
    seconds_per_byte: float

    def __add__(self, other: "_Affine") -> "_Affine":
        return _Affine(
            self.latency_s + other.latency_s, self.seconds_per_byte + other.seconds_per_byte
        )

    def on_share(self, parts: int) -> "_Affine":
        """The same work on n / parts bytes, per byte of n."""
        return _Affine(self.latency_s, self.seconds_per_byte / parts)


_NOTHING = _Affine(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Phase:
    """What the part of a group that lies inside one tier costs."""

    ranks: int
    gather: _Affine
    """An all-gather of n bytes; a reduce-scatter takes as long."""
    exchange: _Affine
    """An all-to-all of n bytes."""


@dataclass(frozen=True, slots=True)
class CollectiveModel:
    """Times of collectives over groups of ranks that vary given axes of a mesh.

    A group over several axes of one tier is one joint group. A group over several tiers works
    hierarchically, so that an outer tier carries only 1 / p of the bytes, p the ranks inside.
    """

    cluster: Cluster
    """The machine."""

    mesh: Mesh
    """Axes over all ranks of the machine."""

    _known: dict[tuple[Collective, tuple[int, ...]], tuple[float, float]] = field(
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
            latency_scale: multiplies the latency alone, for tensors that share a fusion bucket.
        """
        latency_s, seconds_per_byte = self.coefficients(kind, axes)
        amounts = nbytes.astype(np.float64) if isinstance(nbytes, np.ndarray) else nbytes
        return latency_s * latency_scale + amounts * seconds_per_byte

    def coefficients(self, kind: Collective, axes: tuple[int, ...]) -> tuple[float, float]:
        """Latency in seconds, and seconds per byte: the time is linear in the bytes."""
        key = (kind, axes)
        if key not in self._known:
            cost = self._cost(kind, self._checked(axes))
            self._known[key] = (cost.latency_s, cost.seconds_per_byte)
        return self._known[key]

    def tier_of(self, axes: tuple[int, ...]) -> str:
        """Name of the outermost tier that the group crosses, `local` if it crosses none."""
        crossed = [p for p, tier in enumerate(self.cluster.tiers) if self._ranks(p, axes) > 1]
        return self.cluster.tiers[crossed[0]].name if crossed else "local"

    def _cost(self, kind: Collective, axes: tuple[int, ...]) -> _Affine:
        """Latency and seconds per byte of one collective.

        An all-gather gathers the small pieces over the outer tiers first, then the larger ones
        inside; a reduce-scatter is its mirror image. All-reduce = reduce-scatter + all-gather,
        broadcast = scatter + all-gather, both at equal cost. All-to-all exchanges all n bytes in
        every tier in turn. HCCL's own two-level all-gather and reduce-scatter send the full n
        over the outer tier unless its pipelined form applies: those would take longer.

        Source: HCCL algorithm guide, two-level table (AllReduce, AlltoAll); van de Geijn,
        "On global combine operations", J. Parallel Distrib. Comput. 22, 1994 (broadcast).
        """
        if kind is Collective.POINT_TO_POINT:
            return self._point_to_point(axes)
        phases = self._phases(axes)
        if kind is Collective.ALL_TO_ALL:
            return sum((phase.exchange for phase in phases), _NOTHING)
        gather, inside = _NOTHING, 1
        for phase in phases:
            gather += phase.gather.on_share(inside)
            inside *= phase.ranks
        one_way = kind in {Collective.ALL_GATHER, Collective.REDUCE_SCATTER}
        return gather if one_way else gather + gather

    def _point_to_point(self, axes: tuple[int, ...]) -> _Affine:
        """Time a + n b over the outermost tier between the two; every device sends at once."""
        for position, tier in enumerate(self.cluster.tiers):
            if self._ranks(position, axes) > 1:
                return _Affine(tier.latency_s, 1 / self._bandwidth(position))
        return _NOTHING

    def _phases(self, axes: tuple[int, ...]) -> list[_Phase]:
        """The parts of a group, innermost tier first."""
        ranks = [self._ranks(position, axes) for position in range(len(self.cluster.tiers))]
        phases: list[_Phase] = []
        for position in reversed(range(len(ranks))):
            if ranks[position] == 1:
                continue
            phase = self._phase(position, ranks[position])
            if self._is_paired_mesh(position, ranks):
                phase = self._paired_mesh(position, phases.pop(), phase)
            phases.append(phase)
        return phases

    def _phase(self, position: int, ranks: int) -> _Phase:
        tier, bandwidth = self.cluster.tiers[position], self._bandwidth(position)
        direct = tier.kind is not TierKind.SWITCH
        return _direct(ranks, tier, bandwidth) if direct else _switched(ranks, tier, bandwidth)

    def _is_paired_mesh(self, position: int, ranks: list[int]) -> bool:
        """True if the group holds both whole meshes that the pairs of this tier join."""
        tiers = self.cluster.tiers
        inner = position + 1
        return (
            tiers[position].kind is TierKind.PAIRS
            and inner < len(tiers)
            and tiers[inner].kind is TierKind.FULL_MESH
            and ranks[inner] == tiers[inner].size
        )

    def _paired_mesh(self, position: int, mesh: _Phase, pairs: _Phase) -> _Phase:
        """Two full meshes of q cards joined by q pairs, worked as q rings over all 2 q cards.

        all-gather: (p - 1) a + (p - 1) / p * n / q * b, with p = 2 q and b of the slower of mesh
        link and pair. Each ring carries n / q; together they use every link once per direction
        (checked for q = 4, the cards of a first-generation Ascend server).

        Source: HCCL's 8P_RING, four concurrent rings.
        """
        inner, outer = self.cluster.tiers[position + 1], self.cluster.tiers[position]
        ranks = mesh.ranks * pairs.ranks
        slowest = min(self._bandwidth(position), self._bandwidth(position + 1))
        step_s = max(inner.latency_s, outer.latency_s)
        gather = _Affine((ranks - 1) * step_s, (ranks - 1) / (ranks * mesh.ranks * slowest))
        return _Phase(ranks, gather, mesh.exchange + pairs.exchange)

    def _bandwidth(self, position: int) -> float:
        """Bytes per second of a link or port of one tier while all its groups are at work.

        A shared capacity is divided by the links that draw on it: one for each device inside one
        half of the pairs.
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


def _direct(ranks: int, tier: Tier, bandwidth: float) -> _Phase:
    """Every two ranks own a link, and each rank uses its p - 1 links at once.

    all-gather: a + n b / p, since each peer's n / p comes over its own link; all-to-all: the
    same, since n / p goes to each peer.

    Source: HCCL algorithm guide, Mesh.
    """
    cost = _Affine(tier.latency_s, 1 / (ranks * bandwidth))
    return _Phase(ranks, gather=cost, exchange=cost)


def _switched(ranks: int, tier: Tier, bandwidth: float) -> _Phase:
    """Every rank owns one port into a switch that never blocks.

    all-gather: ceil(log2 p) a + (p - 1) / p n b; all-to-all: the same bytes. Its steps are
    counted as ceil(log2 p) too, not p - 1 as in the pairwise form: the messages to different
    peers are in flight together, and their latencies overlap.

    Source: HCCL algorithm guide, NHR and Pairwise; Thakur et al., "Optimization of Collective
    Communication Operations in MPICH", IJHPCA 19(1), 2005, section 4.1.
    """
    steps = math.ceil(math.log2(ranks))
    cost = _Affine(steps * tier.latency_s, (ranks - 1) / (ranks * bandwidth))
    return _Phase(ranks, gather=cost, exchange=cost)
