"""The part of a machine on which a group was measured, and its times for given constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from costmodel.collectives.curves import Curve
from costmodel.collectives.model import CollectiveModel
from costmodel.collectives.nccl_constants import Constants
from costmodel.collectives.rank_groups import ring_bandwidth
from costmodel.link_calibration.measurements import CalibrationError, GroupShape
from topology.cluster import Cluster, Tier, TierKind
from topology.link_graph import LinkGraph
from topology.machine import Machine
from topology.mesh import tier_mesh

__all__ = ["Bench", "bench_of", "constants_of", "with_constants"]


@dataclass(frozen=True, slots=True)
class Bench:
    """A machine whose collectives were measured."""

    cluster: Cluster
    """With all tiers, at least as large as the largest group inside a server."""

    links: LinkGraph | None = None
    """Of one server, where its wiring is irregular: groups then have the rings that fit into it."""

    @property
    def has_network(self) -> bool:
        """Whether the outermost tier joins servers."""
        tiers = self.cluster.tiers
        return len(tiers) > 1 and tiers[0].kind is TierKind.SWITCH

    def curve(self, group: GroupShape, cluster: Cluster | None = None) -> Curve:
        """Time of a group's collective over bytes.

        Args:
            group: who takes part.
            cluster: the machine with other constants.

        Raises:
            CalibrationError: the machine has no such group.
        """
        sized = self.sized(cluster or self.cluster, group)
        mesh = tier_mesh(sized)
        model = CollectiveModel(sized, mesh)
        return model.curve(group.kind, tuple(range(len(mesh.axes))))

    def sized(self, cluster: Cluster, group: GroupShape) -> Cluster:
        """The machine cut down to the group: equal numbers of ranks on each of its servers."""
        tiers = cluster.tiers if self.has_network else (None, *cluster.tiers)
        left = group.ranks // group.servers
        if left * group.servers != group.ranks:
            raise self._misfit(group)
        kept: list[Tier] = []
        if self.links is not None and left > 1:
            kept, left = [self._ringed(cluster, left)], 1
        else:
            for tier in reversed(tiers[1:]):
                assert tier is not None
                taken = math.gcd(left, tier.size) if left > tier.size else left
                kept.insert(0, replace(tier, size=taken))
                left //= taken
        network = tiers[0]
        if left > 1 or (group.servers > 1 and network is None):
            raise self._misfit(group)
        if network is not None:
            kept.insert(0, replace(network, size=group.servers))
        used = [tier for tier in kept if tier.size > 1] or kept[-1:]
        if group.algorithm != "auto":
            used = [replace(tier, algorithm=group.algorithm) for tier in used]
        return replace(cluster, tiers=tuple(used))

    def _ringed(self, cluster: Cluster, ranks: int) -> Tier:
        """A tier whose port is as wide as all rings through the first ranks of a server."""
        assert self.links is not None
        inner = cluster.tiers[-1]
        nominal = ring_bandwidth(self.links, range(ranks), nominal=True)
        efficiency = inner.bandwidth_bytes_per_s / inner.nominal_bandwidth_bytes_per_s
        return replace(
            inner,
            size=ranks,
            kind=TierKind.SWITCH,
            bandwidth_bytes_per_s=nominal * efficiency,
            nominal_bandwidth_bytes_per_s=nominal,
        )

    def _misfit(self, group: GroupShape) -> CalibrationError:
        sizes = " x ".join(f"{tier.name} {tier.size}" for tier in self.cluster.tiers)
        return CalibrationError(
            f"{group}: the machine has no such group",
            f"cluster {self.cluster.name!r} of {sizes}",
            "name the cluster that was measured, or leave these rows out",
        )


def with_constants(cluster: Cluster, values: Mapping[str, float]) -> Cluster:
    """The machine with other constants.

    Args:
        cluster: the machine.
        values: by name: `library.X` for a constant of the library, `TIER.latency_s` and
            `TIER.efficiency` for those of a tier.
    """
    tiers: list[Tier] = []
    for tier in cluster.tiers:
        latency = values.get(f"{tier.name}.latency_s", tier.latency_s)
        known = tier.bandwidth_bytes_per_s / tier.nominal_bandwidth_bytes_per_s
        efficiency = values.get(f"{tier.name}.efficiency", known)
        rate = tier.nominal_bandwidth_bytes_per_s * efficiency
        tiers.append(replace(tier, latency_s=latency, bandwidth_bytes_per_s=rate))
    library = cluster.library
    if library is not None:
        prefix = "library."
        own = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
        library = replace(library, constants={**library.constants, **own})
    return replace(cluster, tiers=tuple(tiers), library=library)


def constants_of(cluster: Cluster) -> dict[str, float]:
    """Everything that `with_constants` can change, with the values it has now."""
    library = cluster.library
    if library is None or library.name != "nccl":
        found: dict[str, float] = {}
        for tier in cluster.tiers:
            rate = tier.bandwidth_bytes_per_s / tier.nominal_bandwidth_bytes_per_s
            found |= {f"{tier.name}.latency_s": tier.latency_s, f"{tier.name}.efficiency": rate}
        return found
    near, far = cluster.tiers[-1], cluster.tiers[0]
    own = asdict(Constants.of(library.constants))
    for place, tier in (("simple", near), ("network", far)):
        rate = tier.bandwidth_bytes_per_s / tier.nominal_bandwidth_bytes_per_s
        if own[f"{place}_share"] is None:
            own[f"{place}_share"] = rate
        if own[f"{place}_step_s"] is None:
            own[f"{place}_step_s"] = tier.latency_s
    own["network_start_s"] = own["network_start_s"] or 1e-6
    return {f"library.{name}": float(value) for name, value in own.items()}


def bench_of(machine: Machine) -> Bench:
    """The bench of a machine: two of its servers, if it has so many."""
    first = machine.entries[0]
    size = machine.file.servers[first.use].devices
    most = machine.max_devices
    wide = (most is None or most >= 2 * size) and bool(machine.file.cluster.fabrics)
    cluster = machine.cluster(2 * size if wide else size)
    library = cluster.library
    uneven = cluster.tiers[-1].kind is not TierKind.SWITCH
    nccl = library is not None and library.name == "nccl"
    return Bench(cluster, machine.links(size) if nccl and uneven else None)
