"""What training steps communicate with, from the description of a cluster: links and ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel.collectives.kinds import Collective
from costmodel.collectives.model import CollectiveModel
from topology.cluster import Tier, TierKind
from topology.cluster_file import ordered_fabrics
from topology.errors import ClusterError
from topology.fabric import fabric_nic, hop_latency_s
from topology.mesh import tier_mesh
from topology.units import parse_bandwidth, parse_ratio, parse_seconds
from topology.wiring import nic_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.cluster import Cluster
    from topology.machine import Machine as ClusterMachine
    from topology.server_file import LinkEntry, ServerFile

__all__ = ["Wiring", "wiring_of"]


_LARGE_BYTES = (2**28, 2**30)
"""Messages between which the rate of links is taken."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The two levels of links that the estimate of a training step knows."""

    server: int
    """Devices that the inner network joins."""

    mesh: bool
    """Whether the inner network is a link for each pair; else every device has a port."""

    link_bytes_per_s: float
    """As the maker states one link of the mesh, or one port; of a torus, all its ports as software
    reaches them. In one direction."""

    meshed: int
    """Devices of a server that one mesh joins."""

    ring_bytes_per_s: float
    """Rate of collectives over more devices of a server than a mesh joins; 0 where it joins all."""

    link_latency_s: float
    port_bytes_per_s: float
    """Share of one device of its server's ports as the maker states them, in one direction."""

    port_latency_s: float

    link_efficiency: float
    """Rate that measured collectives reach inside a server over what the maker states."""

    port_efficiency: float
    """The same of ports between servers."""

    ports: float
    """Ports that a device has a share of, over devices: as many as one has for itself."""


def wiring_of(found: ClusterMachine) -> Wiring:
    """Links of the first kind of server of a cluster, and the innermost network between servers.

    Raises:
        ClusterError: the devices of a server have no links, or nothing joins servers.
    """
    server = found.file.servers[found.entries[0].use]
    tiers = found.cluster(server.devices).tiers
    inner, torus = tiers[-1], tiers[-1].kind is TierKind.TORUS
    meshed = server.devices if torus or len(tiers) == 1 else inner.size
    port_bytes_per_s, port_latency_s, port_efficiency, ports = _port(found, server)
    return Wiring(
        server=server.devices,
        mesh=inner.kind is TierKind.FULL_MESH,
        link_bytes_per_s=_torus(tiers) if torus else inner.nominal_bandwidth_bytes_per_s,
        meshed=meshed,
        ring_bytes_per_s=0.0 if meshed == server.devices else _across(found, tiers),
        link_latency_s=max(
            _latency_s(entry) for entry in server.links.values() if entry.kind == inner.transport
        ),
        port_bytes_per_s=port_bytes_per_s,
        port_latency_s=port_latency_s,
        link_efficiency=1.0 if torus else _link_efficiency(found.cluster(server.devices)),
        port_efficiency=port_efficiency,
        ports=ports,
    )


def _torus(tiers: Sequence[Tier]) -> float:
    """What all ports of a device into a torus reach together: two for each dimension."""
    return sum(2.0 * tier.bandwidth_bytes_per_s for tier in tiers if tier.kind is TierKind.TORUS)


def _link_efficiency(server: Cluster) -> float:
    """Rate at which large all-gathers inside a server grow, as measured, over the maker's.

    Starts of collectives and what short messages lose are priced apart, so that the rate is that
    between two large messages. Where a server has several networks, the innermost counts as its
    file has it.
    """
    inner = server.tiers[-1]
    nominal = inner.nominal_bandwidth_bytes_per_s
    stated = inner.bandwidth_bytes_per_s / nominal
    if len(server.tiers) > 1 or inner.size == 1:
        return stated
    model = CollectiveModel(server, tier_mesh(server))
    short, long = (model.time_s(Collective.ALL_GATHER, nbytes, (0,)) for nbytes in _LARGE_BYTES)
    links = inner.size - 1 if inner.kind is TierKind.FULL_MESH else 1
    moved = (_LARGE_BYTES[1] - _LARGE_BYTES[0]) * (1.0 - 1.0 / inner.size)
    found = float(moved / (long - short) / (nominal * links))
    # Beyond the sizes of groups that were measured the model of collectives may promise more.
    return found if found <= 1.0 else stated


def _across(found: ClusterMachine, tiers: Sequence[Tier]) -> float:
    """Rate of one device in collectives over all parts of a server.

    Where all devices of a part share the way out, rings pass it one after the other. Links of one
    kind inside and between parts make rings that use all of them. Else gathers of the parts follow
    an exchange of their counterparts.
    """
    inner, outer = tiers[-1], tiers[-2]
    if outer.shared_capacity_bytes_per_s is not None:
        return outer.shared_capacity_bytes_per_s
    if outer.transport == inner.transport:
        links = found.server_links(found.entries[0].use).links
        own = (each for each in links if each.source == 0 and each.kind == inner.transport)
        return sum(each.nominal_bandwidth_bytes_per_s for each in own)
    devices, fan = inner.size * outer.size, inner.nominal_bandwidth_bytes_per_s
    fan *= inner.size - 1 if inner.kind is TierKind.FULL_MESH else 1
    crossing = (outer.size - 1) / devices / outer.nominal_bandwidth_bytes_per_s
    return (1.0 - 1.0 / devices) / (crossing + (1.0 - 1.0 / inner.size) / fan)


def _port(found: ClusterMachine, server: ServerFile) -> tuple[float, float, float, float]:
    """Rate, latency and efficiency of one device in the innermost network between servers, and its
    ports.
    """
    fabrics = ordered_fabrics(found.file.cluster)
    if not fabrics or not server.nics:
        raise ClusterError(
            "nothing joins its servers",
            f"cluster {found.name!r}",
            "give it a fabric, and its servers network ports",
        )
    fabric = fabrics[0][1]
    nic = server.nics[fabric_nic(fabric, server)]
    share = len(nic_ports(nic, range(server.devices))) / server.devices
    latency_s = parse_seconds(nic.latency.value) + hop_latency_s(fabric)
    efficiency = parse_ratio(nic.efficiency.value)
    return parse_bandwidth(nic.bandwidth.value) * share, latency_s, efficiency, share


def _latency_s(entry: LinkEntry) -> float:
    return parse_seconds((entry.collective_latency or entry.latency).value)
