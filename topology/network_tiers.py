"""The planner's view of networks: a tier of servers, and one of leaves where these are narrow."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from topology.cluster import Tier, TierKind
from topology.cluster_file import FabricEntry
from topology.fabric import fabric_nic, hop_latency_s, nic_rate, uplinks_of
from topology.server_file import NicEntry, ServerFile
from topology.tiers import common_tier
from topology.units import parse_bandwidth, parse_seconds
from topology.wiring import nic_ports

__all__ = ["few_tiers", "network_tiers"]

_MOST_TIERS = 3
"""Tiers of the planner's view: as many as a mesh has axes."""


def network_tiers(
    name: str, entry: FabricEntry, kinds: Sequence[ServerFile], size: int, unit: int
) -> list[Tier]:
    """The tiers of one network, outermost first: what servers of all kinds have of it.

    Args:
        name: of the tier.
        entry: the network.
        kinds: templates of the servers that it joins.
        size: how many servers, or how many parts of `unit` devices.
        unit: devices of a member of the tier.
    """
    leaves = any(_is_narrow(entry, kind, size) for kind in kinds)
    views = []
    for kind in kinds:
        nic = kind.nics[fabric_nic(entry, kind)]
        port = replace(
            _port_tier(name, nic, unit, kind.devices),
            in_network_reduction=entry.in_network_reduction,
            algorithm=entry.algorithm,
        )
        views.append(_of_kind(port, entry, kind, size, leaves=leaves))
    return [reduce(common_tier, tiers) for tiers in zip(*views, strict=True)]


def _of_kind(
    port: Tier, entry: FabricEntry, server: ServerFile, size: int, *, leaves: bool
) -> list[Tier]:
    """The tiers of one network for one kind of server."""
    nic = server.nics[fabric_nic(entry, server)]
    uplinks = uplinks_of(entry, nic, server.devices)
    spine = None if uplinks is None else uplinks.capacity_bytes_per_s
    latency, hop = parse_seconds(nic.latency.value), hop_latency_s(entry)
    if uplinks is None or spine is None:
        return [replace(port, size=size, latency_s=latency + hop)]
    far = replace(port, latency_s=latency + (3 if size > uplinks.servers else 1) * hop)
    if not leaves:
        return [replace(far, size=size)]
    below = math.gcd(size, uplinks.servers)
    near = replace(port, latency_s=latency + hop, size=below)
    # Fewer servers than are below a leaf have their part of its uplinks.
    shared = spine * uplinks.leaves * (below / uplinks.servers)
    leaf = replace(far, name="leaf", size=size // below, shared_capacity_bytes_per_s=shared)
    return [leaf, near]


def _is_narrow(entry: FabricEntry, server: ServerFile, size: int) -> bool:
    """Whether so many servers have more bandwidth below their leaves than above."""
    nic = server.nics[fabric_nic(entry, server)]
    uplinks = uplinks_of(entry, nic, server.devices)
    if uplinks is None or uplinks.capacity_bytes_per_s is None or size <= uplinks.servers:
        return False
    ports = len(nic_ports(nic, range(server.devices)))
    below = uplinks.servers * ports * nic_rate(nic)
    return uplinks.capacity_bytes_per_s * uplinks.leaves < below


def _port_tier(name: str, nic: NicEntry, unit: int, devices: int) -> Tier:
    """A tier of ports into a network, without its size and latency."""
    ports = len(nic_ports(nic, range(devices)))
    shared = nic_rate(nic) * ports * unit / devices if ports < devices else None
    return Tier(
        name=name,
        size=1,
        kind=TierKind.SWITCH,
        bandwidth_bytes_per_s=nic_rate(nic),
        nominal_bandwidth_bytes_per_s=parse_bandwidth(nic.bandwidth.value),
        latency_s=0.0,
        shared_capacity_bytes_per_s=shared,
        transport=nic.kind,
    )


def few_tiers(tiers: list[Tier]) -> list[Tier]:
    """At most so many tiers as a mesh has axes: the outermost networks become one."""
    while len(tiers) > _MOST_TIERS and tiers[0].kind is tiers[1].kind is TierKind.SWITCH:
        outer, inner, *rest = tiers
        joined = common_tier(outer, inner)
        shared = outer.shared_capacity_bytes_per_s
        whole = replace(
            joined,
            name=inner.name,
            size=outer.size * inner.size,
            shared_capacity_bytes_per_s=None if shared is None else shared / inner.size,
        )
        tiers = [whole, *rest]
    return tiers
