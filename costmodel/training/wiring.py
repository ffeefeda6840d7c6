"""What training steps communicate with, from the description of a cluster: links and ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.cluster import Tier, TierKind
from topology.cluster_file import ordered_fabrics
from topology.errors import ClusterError
from topology.fabric import fabric_nic, hop_latency_s
from topology.units import parse_bandwidth, parse_ratio, parse_seconds
from topology.wiring import nic_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.machine import Machine as ClusterMachine
    from topology.server_file import ServerFile

__all__ = ["Wiring", "wiring_of"]


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

    port_bytes_per_s: float
    """Share of one device of its server's ports as the maker states them, in one direction."""

    port_latency_s: float

    port_efficiency: float
    """Rate that is reached over what the maker states."""

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
        port_bytes_per_s=port_bytes_per_s,
        port_latency_s=port_latency_s,
        port_efficiency=port_efficiency,
        ports=ports,
    )


def _torus(tiers: Sequence[Tier]) -> float:
    """What all ports of a device into a torus reach together: two for each dimension."""
    return sum(2.0 * tier.bandwidth_bytes_per_s for tier in tiers if tier.kind is TierKind.TORUS)


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
