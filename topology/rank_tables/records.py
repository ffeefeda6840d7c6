"""What a rank table says, whatever its version: servers, their cards, and how they are grouped."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

__all__ = ["Device", "RankTable", "Server", "ServerGroup", "Template", "place"]


class Template(StrEnum):
    """The published forms of the file."""

    CLOUD = "group_list"
    """Oldest but one, without a version: instances are pods, ranks are not written."""

    LAB = "lab"
    """The oldest, without a version but with `deploy_mode`: one instance per rank."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    """Cards and hosts mixed, with a `node_list`."""

    V1_2 = "1.2"
    """Like 1.0, with super pods."""

    V2_0 = "2.0"
    """Generation 950: a `rank_list` with addresses by network layer."""


@dataclass(frozen=True, slots=True)
class Device:
    """One card, or one host process of a mixed table."""

    device_id: int | None
    """Position in the server; None if it is not written as a number, or for a host."""

    rank: int | None
    """None if it is not written as a number."""

    ips: tuple[str, ...] = ()
    """Addresses of its network ports, as written."""

    fields: Mapping[str, object] = field(default_factory=dict, hash=False)
    """All other fields, as written."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server, with its cards in the order of the file."""

    server_id: str
    devices: tuple[Device, ...]
    fields: Mapping[str, object] = field(default_factory=dict, hash=False)
    """All other fields, as written."""


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A super pod, or a cluster of MindSpore's cross-cluster tables."""

    group_id: str
    server_ids: tuple[str, ...]
    fields: Mapping[str, object] = field(default_factory=dict, hash=False)
    """All other fields, as written."""


@dataclass(frozen=True, slots=True)
class RankTable:
    """A rank table. What could not be understood is missing, and was reported on reading."""

    template: Template
    servers: tuple[Server, ...]
    """In the order of the file."""

    pods: tuple[ServerGroup, ...] | None = None
    """Super pods; None if the table has no list of them."""

    clusters: tuple[ServerGroup, ...] | None = None
    """Clusters of a cross-cluster job; None if the table has no list of them."""

    fields: Mapping[str, object] = field(default_factory=dict, hash=False)
    """All other fields of the table, as written."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(server.devices) for server in self.servers)

    def placed(self) -> Iterator[tuple[Server, Device]]:
        """Every card with its server, in the order of the file."""
        return ((server, device) for server in self.servers for device in server.devices)

    def ranked(self, rank: Callable[[Device], int]) -> "RankTable":
        """The same cards with other ranks."""
        servers = tuple(
            replace(
                server, devices=tuple(replace(each, rank=rank(each)) for each in server.devices)
            )
            for server in self.servers
        )
        return replace(self, servers=servers)


LONGEST_SHOWN = 80
"""Characters of a value that a message repeats."""


def shown(value: object) -> str:
    r"""A value of a file as a message repeats it: on one line, printable, not too long.

    >>> shown("node_0"), shown("a\nb"), shown(["x"])
    ('node_0', "'a\\nb'", "['x']")
    """
    text = value if isinstance(value, str) else repr(value)
    if len(text) > LONGEST_SHOWN:
        text = f"{text[: LONGEST_SHOWN - 20]}... ({len(text)} characters)"
    return text if text.isprintable() and text else ascii(text)


def place(server_id: str, device_id: object = None) -> str:
    """How messages name a server or a card.

    >>> place("node_0"), place("node_0", 3)
    ('server node_0', 'server node_0, device 3')
    """
    server = f"server {shown(server_id)}"
    return server if device_id is None else f"{server}, device {shown(device_id)}"
