"""Rank tables made from a machine, and merged from tables of single servers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from topology.errors import ClusterError
from topology.rank_tables.fields import MOST_ENTRIES
from topology.rank_tables.products import Product
from topology.rank_tables.records import Device, RankTable, Server, ServerGroup, Template, shown
from topology.rank_tables.rules_products import RING

__all__ = ["Host", "hosts_of_text", "made_table", "merged", "placeholder_hosts"]

_POD_SERVERS = 48
"""Servers of a full Atlas 900 A3 SuperPoD."""

_FIRST_HOST, _LAST_HOST = 100, 254
_LAST_BYTES = 155
"""100 to 254: numbers of three digits, which are in order as strings too."""


@dataclass(frozen=True, slots=True)
class Host:
    """A server by its id, with the addresses of its cards from card 0 on, if they are known."""

    server_id: str
    ips: tuple[str, ...] = ()


def placeholder_hosts(servers: int) -> list[Host]:
    """So many servers under invented ids, in order as strings."""
    return [
        Host(f"10.155.{100 + number // _LAST_BYTES}.{100 + number % _LAST_BYTES}")
        for number in range(servers)
    ]


def hosts_of_text(text: str, where: str) -> list[Host]:
    r"""The servers of a file: a line each, the id and then, if known, the addresses of its cards.

    >>> hosts_of_text("10.0.0.1  # first\n10.0.0.2 192.1.27.6 192.2.27.6", "hosts")[1].ips
    ('192.1.27.6', '192.2.27.6')

    Raises:
        ClusterError: there is no server in the text, or one stands there twice.
    """
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    hosts = [Host(words[0], tuple(words[1:])) for words in lines if words]
    twins = [name for name, n in Counter(host.server_id for host in hosts).items() if n > 1]
    if twins:
        raise ClusterError(
            f"server {shown(twins[0])} stands twice", where, "name every server once"
        )
    if not hosts:
        raise ClusterError(
            "no server is named", where, "write a line for each: its id, then its addresses"
        )
    return hosts


def made_table(product: Product, hosts: Sequence[Host], devices: Sequence[int]) -> RankTable:
    """The table of a job on the same cards of every host.

    Servers stand in the order of their ids as strings, which MindSpore asks for, and ranks go
    through servers first, then cards. Cards without a known address get one of a private network:
    on 910A cards i and i+4 share a segment, on others those of one position do.

    Args:
        product: 910A or 910B give version 1.0, 910C version 1.2 with super pods of 48 servers.
        hosts: the servers, in any order.
        devices: device ids, the same on every server.
    """
    if len(hosts) * len(devices) > MOST_ENTRIES:
        raise ClusterError(
            f"{len(hosts)} servers with {len(devices)} devices",
            "the size of a rank table",
            f"make it {MOST_ENTRIES} ranks at most",
        )
    ranks = count()
    ordered = sorted(hosts, key=lambda host: host.server_id)
    servers = tuple(
        Server(
            host.server_id,
            tuple(
                _device(product, host, len(hosts), index, number, next(ranks))
                for number in sorted(devices)
            ),
            {"host_nic_ip": "reserve"} if product is not Product.A3 else {},
        )
        for index, host in enumerate(ordered)
    )
    if product is not Product.A3:
        return RankTable(Template.V1_0, servers, fields={"status": "completed"})
    names = [server.server_id for server in servers]
    pods = tuple(
        ServerGroup(str(start // _POD_SERVERS), tuple(names[start : start + _POD_SERVERS]))
        for start in range(0, len(names), _POD_SERVERS)
    )
    return RankTable(Template.V1_2, servers, pods=pods, fields={"status": "completed"})


def _device(
    product: Product, host: Host, servers: int, server: int, number: int, rank: int
) -> Device:
    if host.ips and number >= len(host.ips):
        raise ClusterError(
            f"{len(host.ips)} addresses, but none for device {number}",
            f"server {shown(host.server_id)}",
            "give the addresses of all its devices, from device 0 on, or none",
        )
    address = host.ips[number] if host.ips else _invented(product, servers, server, number)
    fields: dict[str, object] = {}
    if product is Product.A3:
        dies = Product.A3.largest_device_id + 1
        fields["super_device_id"] = str(server % _POD_SERVERS * dies + number)
    return Device(number, rank, (address,), fields)


def _invented(product: Product, servers: int, server: int, number: int) -> str:
    """An address of a private network: in a /24 for each rail, or in a larger one if that is too
    small for all servers.
    """
    rails = RING if product is Product.A1 else product.largest_device_id + 1
    per_rail = 2 if product is Product.A1 else 1
    rail, place = number % rails, per_rail * server + number // rails
    if _FIRST_HOST + per_rail * servers <= _LAST_HOST:
        return f"192.168.{100 + rail}.{_FIRST_HOST + place}"
    return f"10.{100 + rail}.{(1 + place) // 256}.{(1 + place) % 256}"


def merged(tables: Sequence[RankTable]) -> RankTable:
    """One table of the servers of several, ranked anew.

    Servers are put in the order of their ids as strings; inside a server the cards keep the order
    of their ranks. The result does not depend on the order of the tables.

    Raises:
        ClusterError: a server is in two of the tables, or they are of different versions.
    """
    templates = {table.template for table in tables}
    if templates != {Template.V1_0}:
        raise ClusterError(
            f"tables of version {', '.join(sorted(map(str, templates)))}",
            "the rank tables to merge",
            "merge tables of version 1.0, one for each server",
        )
    servers = [server for table in tables for server in table.servers]
    twins = [name for name, n in Counter(s.server_id for s in servers).items() if n > 1]
    if twins:
        raise ClusterError(
            f"server {shown(twins[0])} is in two tables",
            "the rank tables to merge",
            "give one table for each server",
        )
    ranks = count()
    ordered = sorted(servers, key=lambda server: server.server_id)
    return RankTable(
        Template.V1_0,
        tuple(replace(server, devices=tuple(_ranked(server.devices, ranks))) for server in ordered),
        fields={"status": "completed"},
    )


def _ranked(devices: Sequence[Device], ranks: Iterator[int]) -> Iterator[Device]:
    for device in sorted(devices, key=lambda each: -1 if each.rank is None else each.rank):
        yield replace(device, rank=next(ranks))
