"""Rules of every product: ranks, servers, cards and their ports.

A value that one rule rejects is left out of the rules after it: one fault, one finding.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from topology.rank_tables.fields import MOST_ENTRIES, decimal
from topology.rank_tables.findings import Findings
from topology.rank_tables.products import Product
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown

__all__ = [
    "cards_of",
    "check_devices",
    "check_ports",
    "check_ranks",
    "check_servers",
    "first_ranks",
    "in_order",
    "unique_devices",
]

LONGEST_SERVER_ID = 64
_LARGEST_PORT = 65_535
_RESERVED_PORTS = 1_023
_PORTS = ("device_port", "backup_device_port", "host_port", "device_vnic_port")


def in_order(table: RankTable) -> list[Server]:
    """The servers by id, and their cards by theirs: findings do not depend on the file's order."""
    servers = (
        replace(server, devices=tuple(sorted(server.devices, key=_card_order)))
        for server in table.servers
    )
    return sorted(servers, key=lambda each: (each.server_id, list(map(_card_order, each.devices))))


def cards_of(table: RankTable) -> list[tuple[str, Server, Device]]:
    """Every card with its place in words and its server, in the order of `in_order`."""
    return [
        (place(server.server_id, device.device_id), server, device)
        for server in in_order(table)
        for device in server.devices
    ]


def _card_order(device: Device) -> tuple[int, int, tuple[str, ...]]:
    number = -1 if device.device_id is None else device.device_id
    return number, -1 if device.rank is None else device.rank, device.ips


def unique_devices(server: Server, most: int) -> dict[int, Device]:
    """The cards whose ids are in range and no other card's, by id in ascending order."""
    counts = Counter(device.device_id for device in server.devices)
    found = {
        device.device_id: device
        for device in server.devices
        if device.device_id is not None
        and device.device_id <= most
        and counts[device.device_id] == 1
    }
    return dict(sorted(found.items()))


def check_servers(table: RankTable, findings: Findings) -> None:
    """Server ids have a bearable length and are unique."""
    counts = Counter(server.server_id for server in table.servers)
    for name, count in sorted(counts.items()):
        if not 0 < len(name) <= LONGEST_SERVER_ID:
            message = f"server_id has {len(name)} characters, it must have 1 to {LONGEST_SERVER_ID}"
            findings.add("E_SERVER_ID_LEN", place(name), message)
        elif count > 1:
            findings.add("E_SERVER_ID_DUP", place(name), f"{count} servers have this server_id")


def check_devices(table: RankTable, product: Product, findings: Findings) -> None:
    """Device ids are in range and unique in their server."""
    most = product.largest_device_id
    for server in in_order(table):
        counts = Counter(d.device_id for d in server.devices if d.device_id is not None)
        for number, count in sorted(counts.items()):
            where = place(server.server_id, number)
            if number > most:
                message = f"device_id {number} is above {most}, the last of a {product} server"
                findings.add("E_DEVICE_ID_RANGE", where, message)
            if count > 1:
                findings.add("E_DEVICE_ID_DUP", where, f"{count} devices have device_id {number}")


def check_ranks(table: RankTable, findings: Findings) -> None:
    """The ranks are 0 to N-1, each once, and those of one server stand together."""
    holders: dict[int, list[str]] = {}
    for where, _, device in cards_of(table):
        if device.rank is not None:
            holders.setdefault(device.rank, []).append(where)
    _check_rank_set(table, holders, findings)
    _check_runs(table, findings)


def _rank_limit(table: RankTable) -> int:
    """Ranks are below this; where a server without cards has been reported, nobody knows."""
    return table.size if all(server.devices for server in table.servers) else MOST_ENTRIES


def _check_rank_set(table: RankTable, holders: dict[int, list[str]], findings: Findings) -> None:
    size = _rank_limit(table)
    unread = table.size - sum(map(len, holders.values()))
    for rank, places in sorted(holders.items()):
        if rank >= size:
            message = f"rank_id {rank}, but {size} ranks are 0 to {size - 1}"
            findings.add("E_RANK_SET", places[0], message)
        first, *more = sorted(places)
        for where in more:
            findings.add("E_RANK_SET", where, f"rank_id {rank} is also that of {first}")
    missing = [rank for rank in range(table.size) if rank not in holders]
    if len(missing) > unread and size == table.size:
        findings.add("E_RANK_SET", "the table", f"no device has rank_id {missing[0]}")


def clean_ranks(table: RankTable) -> list[tuple[int, int, Server]]:
    """Ranks within 0 to N-1 that one card has, ascending, each with the index of its server."""
    size = _rank_limit(table)
    counts = Counter(device.rank for _, device in table.placed())
    found = [
        (device.rank, index, server)
        for index, server in enumerate(table.servers)
        for device in server.devices
        if device.rank is not None and device.rank < size and counts[device.rank] == 1
    ]
    return sorted(found, key=lambda each: each[0])


def _runs(table: RankTable) -> Iterator[tuple[int, Server]]:
    """The servers as the ranks come to them, each with the rank at which they do."""
    before = -1
    for rank, index, server in clean_ranks(table):
        if index != before:
            yield rank, server
        before = index


def _check_runs(table: RankTable, findings: Findings) -> None:
    counts: Counter[str] = Counter()
    last: dict[str, int] = {}
    for rank, server in _runs(table):
        counts[server.server_id] += 1
        last[server.server_id] = rank
    listed = Counter(server.server_id for server in table.servers)
    for name, count in sorted(counts.items()):
        if count > listed[name]:
            message = f"ranks of other servers stand between its own, before rank {last[name]}"
            findings.add("E_RANK_INTERLEAVED", place(name), message)


def first_ranks(table: RankTable) -> Sequence[tuple[int, Server]]:
    """Every server that has a clean rank, with its first one, in the order of the ranks."""
    seen: dict[int, tuple[int, Server]] = {}
    for rank, index, server in clean_ranks(table):
        seen.setdefault(index, (rank, server))
    return list(seen.values())


def check_ports(table: RankTable, findings: Findings) -> None:
    """Ports are numbers that can be one, and not reserved."""
    strict = _json_number if table.template is Template.V2_0 else decimal
    for where, _, device in cards_of(table):
        for key in _PORTS:
            if key in device.fields:
                given = device.fields[key]
                port = strict(given)
                if port is None or not 1 <= port <= _LARGEST_PORT:
                    message = f"{key} {shown(given)} is no port from 1 to {_LARGEST_PORT}"
                    findings.add("E_PORT", where, message)
                elif port <= _RESERVED_PORTS:
                    message = f"{key} {port} is reserved, use 1024 or above"
                    findings.add("W_PORT_RESERVED", where, message)


def _json_number(value: object) -> int | None:
    """A port of version 2.0, which may be a number or a string."""
    return value if isinstance(value, int) and not isinstance(value, bool) else decimal(value)
