"""Rules of one product: numbers of cards, rings, modules, segments and rails."""

from collections import Counter
from collections.abc import Iterator

from topology.rank_tables.addresses import Address, segment, sound
from topology.rank_tables.findings import Findings
from topology.rank_tables.products import Product
from topology.rank_tables.records import RankTable, Server, place
from topology.rank_tables.rules_addresses import repeated_addresses
from topology.rank_tables.rules_common import first_ranks, in_order, unique_devices

__all__ = [
    "CARDS_OF_ONE_SERVER",
    "MODULE",
    "RING",
    "check_first_generation",
    "check_later_generations",
]

RING = 4
"""Cards 0-3 and 4-7 of a first-generation server are two fully meshed groups."""

CARDS_OF_ONE_SERVER = (1, 2, 4, 8)
MODULE = 8
"""Cards of one module of an Atlas 200T A2 Box16."""


def check_first_generation(table: RankTable, findings: Findings) -> None:
    """Rules of 910A servers: what HCCL, MindSpore, its tools and the deployer ask for."""
    most = Product.A1.largest_device_id
    for server in in_order(table):
        count = len(server.devices)
        if count and count not in CARDS_OF_ONE_SERVER:
            message = f"{count} devices; a 910A server takes part with 1, 2, 4 or 8"
            findings.add("E_DEVICE_COUNT", place(server.server_id), message)
        ids = list(unique_devices(server, most))
        if count in {2, RING} and len({number // RING for number in ids}) > 1:
            numbers = ", ".join(map(str, ids))
            message = f"devices {numbers} lie in both rings; take {count} of 0-3 or of 4-7"
            findings.add("E_RING_CROSS", place(server.server_id), message)
    _check_equal(table, "E_UNEQUAL", findings)
    count = len(table.servers)
    if count & (count - 1):
        message = (
            f"{count} servers; halving-doubling needs a power of two, other numbers take rings"
        )
        findings.add("W_POW2_SERVERS", "the table", message)
    _check_order(table, findings)
    _check_segments(table, findings)


def check_later_generations(table: RankTable, product: Product, findings: Findings) -> None:
    """Rules of 910B and 910C servers."""
    _check_equal(table, "W_UNEQUAL", findings)
    if product is Product.A2:
        _check_modules(table, findings)


def _check_equal(table: RankTable, code: str, findings: Findings) -> None:
    servers = [server for server in in_order(table) if server.devices]
    counts = Counter(len(server.devices) for server in servers)
    if len(counts) < 2:
        return
    usual = max(counts, key=lambda number: (counts[number], number))
    for server in servers:
        if len(server.devices) != usual:
            message = f"{len(server.devices)} devices, other servers have {usual}"
            if code.startswith("W_"):
                message += "; the whole job then runs as one flat ring"
            findings.add(code, place(server.server_id), message)


def _check_modules(table: RankTable, findings: Findings) -> None:
    """A server with ids above 7 is a Box16: two modules joined over PCIe, card i below i+8."""
    for server in in_order(table):
        ids = unique_devices(server, Product.A2.largest_device_id)
        lower = {number for number in ids if number < MODULE}
        upper = {number - MODULE for number in ids if number >= MODULE}
        if lower and upper and lower != upper:
            message = (
                f"devices {sorted(lower)} of the first module, {sorted(n + 8 for n in upper)} of "
                "the second; take the same positions of both"
            )
            findings.add("E_BOX16", place(server.server_id), message)


def _check_order(table: RankTable, findings: Findings) -> None:
    """Servers come in the order of their ids; those without an id of their own are left out."""
    counts = Counter(server.server_id for server in table.servers)
    before: Server | None = None
    for rank, server in first_ranks(table):
        if counts[server.server_id] > 1:
            continue
        if before is not None and before.server_id > server.server_id:
            message = (
                f"rank {rank} comes after the ranks of {place(before.server_id)}, but as a string "
                "its server_id comes before"
            )
            findings.add("E_SERVER_ORDER", place(server.server_id), message)
        before = server


def _check_segments(table: RankTable, findings: Findings) -> None:
    """Inside a server cards i and i+4 share a segment; between servers cards of one position do.

    A server whose own segments are wrong says nothing about the others.
    """
    repeated = repeated_addresses(table)
    rails: list[tuple[Server, dict[int, Address]]] = []
    for server in in_order(table):
        found = {
            number: next(iter(sound(device.ips)), None)
            for number, device in unique_devices(server, Product.A1.largest_device_id).items()
        }
        used = {n: a for n, a in found.items() if a is not None and a not in repeated}
        faults = list(_segment_faults(used, len(table.servers)))
        for message in faults:
            findings.add("E_SEGMENT", place(server.server_id), message)
        if not faults:
            rails.append((server, used))
    for members in _connected(table, rails):
        _check_rails(members, len(table.servers), findings)


def _segment_faults(used: dict[int, Address], servers: int) -> Iterator[str]:
    where = {number: segment(address, servers) for number, address in used.items()}
    for number in range(RING):
        pair = (number, number + RING)
        known = [used[n] for n in pair if n in used]
        if len(known) == 2 and known[0].version == known[1].version:
            segments = [where[n] for n in pair]
            if segments[0] != segments[1]:
                yield (
                    f"devices {pair[0]} and {pair[1]} lie in the segments {segments[0]} and "
                    f"{segments[1]}, they must share one"
                )
    for shared in sorted(set(where.values())):
        holders = [number for number, own in where.items() if own == shared]
        if len({number % RING for number in holders}) > 1:
            numbers = ", ".join(map(str, holders))
            yield f"devices {numbers} share the segment {shared}, only i and i+4 may"


def _connected(
    table: RankTable, rails: list[tuple[Server, dict[int, Address]]]
) -> Iterator[list[tuple[Server, dict[int, Address]]]]:
    """The servers of one parameter network: all, or those of each cluster."""
    if table.clusters is None:
        yield rails
        return
    for cluster in table.clusters:
        members = set(cluster.server_ids)
        yield [each for each in rails if each[0].server_id in members]


def _check_rails(
    members: list[tuple[Server, dict[int, Address]]], servers: int, findings: Findings
) -> None:
    for number in range(Product.A1.largest_device_id + 1):
        found = [
            (server, used[number], segment(used[number], servers))
            for server, used in members
            if number in used
        ]
        families = Counter(address.version for _, address, _ in found)
        if len(families) > 1:  # reported as such
            continue
        counts = Counter(own for _, _, own in found)
        usual = max(counts.values(), default=0)
        rail = next((own for _, _, own in found if counts[own] == usual), "")
        for server, _, own in found:
            if own != rail:
                message = f"segment {own}, but device {number} of other servers is in {rail}"
                findings.add("E_RAIL", place(server.server_id, number), message)
