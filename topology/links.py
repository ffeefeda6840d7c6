"""What a machine is wired with: links, shared resources, the inside of servers, networks."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from topology.routing import LocalRoutes

__all__ = ["Fabric", "Link", "Node", "Resource", "ServerLinks"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Node:
    """An end of a link."""

    name: str
    """`3` for a device, `roce 3` for its network port, `nvlink` for a switch."""

    kind: str
    """`device`, `nic` or `switch`."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable or bus. Both directions work at the same time."""

    source: int
    """Node that sends."""

    target: int
    """Node that receives."""

    bandwidth_bytes_per_s: float
    """Achieved: what the maker states times the efficiency."""

    latency_s: float
    """Seconds that a message spends on it apart from its bytes."""

    resource: int | None
    """Index of the resource that it draws on besides itself."""

    kind: str
    """`HCCS`, `PCIe`, `NVLink`, ...: for people."""

    nominal_bandwidth_bytes_per_s: float
    """As the maker states it."""

    name: str = ""
    """Name of the entry of the machine file that made it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What several links have in common, such as a PCIe switch."""

    name: str
    capacity_bytes_per_s: float
    both_ways: bool = False
    """Both directions draw on it."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerLinks:
    """The inside of one kind of server. Nodes 0 to devices - 1 are the devices in rank order."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    resources: tuple[Resource, ...]
    devices: int
    local_ids: tuple[int, ...]
    """The server's own number of each device, in rank order."""

    nics: dict[str, Ints]
    """For every kind of network port the node of each device's port, shape (devices,)."""

    routes: LocalRoutes = field(repr=False)
    """Ways between devices inside the server."""


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """One network between servers: ports below leaves, leaves below one spine."""

    name: str
    nics: tuple[str, ...]
    """The ports that it joins, of each kind of server."""

    domain: int
    """Consecutive servers that it joins; it joins several such sets, each on its own."""

    leaf_of_port: Ints
    """Leaf of every port, shape (ports,); ports are numbered server by server."""

    port_base: Ints
    """Number of the first port of each server, shape (servers,)."""

    uplink_of_leaf: Ints
    """Link from each leaf to the spine, shape (leaves,); the link back is the next one. -1
    where there is no spine."""

    first_link: int
    """Link from port 0 into its leaf; the link back is the next one, then port 1 follows."""
