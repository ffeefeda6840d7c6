"""Version 2.0 (generation 950): ranks with addresses by network layer. Numbers are JSON numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from topology.rank_tables.fields import MOST_ENTRIES, Record, entries, others
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown

__all__ = ["LARGEST_ID", "MOST_ADDRESSES", "MOST_LAYERS", "read_layers"]

LARGEST_ID = 64
MOST_LAYERS = 8
MOST_ADDRESSES = 24
_LONGEST_INSTANCE = 1024
_TYPES = ("TOPO_FILE_DESC", "CLOS")
_FAMILIES = ("EID", "IPV4", "IPV6")


def read_layers(record: Record, findings: Findings) -> RankTable:
    """The table of a `rank_list`; the instance of network layer 0 is the server."""
    ranks = list(entries(record, "rank_list", "the table", findings))
    given = record.get("rank_count")
    if not _whole(given, 1, MOST_ENTRIES) or given != len(ranks):
        findings.add(
            "E_RANK_SET",
            "the table",
            f"rank_count is {shown(given)}, but rank_list has {len(ranks)} (1 to {MOST_ENTRIES})",
        )
    servers: dict[str, list[Device]] = {}
    for each in ranks:
        name, device = _rank(each, findings)
        servers.setdefault(name, []).append(device)
    _check_local_ids(servers, findings)
    made = tuple(Server(name, tuple(devices)) for name, devices in servers.items())
    return RankTable(
        Template.V2_0, made, fields=others(record, ("version", "rank_count", "rank_list"))
    )


def _check_local_ids(servers: Mapping[str, Sequence[Device]], findings: Findings) -> None:
    for name, devices in sorted(servers.items()):
        given = [device.fields.get("local_id") for device in devices]
        for number, count in Counter(n for n in given if _whole(n, 0, LARGEST_ID)).items():
            if count > 1:
                findings.add("E_LOCAL_ID", place(name), f"{count} devices have local_id {number}")


def _rank(record: Record, findings: Findings) -> tuple[str, Device]:
    number, rank, local = (record.get(key) for key in ("device_id", "rank_id", "local_id"))
    levels = record.get("level_list")
    listed = [each for each in levels if isinstance(each, dict)] if isinstance(levels, list) else []
    name = str(listed[0].get("net_instance_id", "")) if listed else ""
    where = place(name, number)
    if not _whole(number, 0, 2**32):
        findings.add("E_DEVICE_ID_RANGE", where, f"device_id {shown(number)} is no whole number")
    if not _whole(local, 0, LARGEST_ID):
        findings.add("E_LOCAL_ID", where, f"local_id {shown(local)} is not 0 to 64")
    if not _whole(rank, 0, 2**32):
        findings.add("E_RANK_FORMAT", where, f"rank_id {shown(rank)} is no whole number")
    list(entries(record, "level_list", where, findings))
    _check_levels(listed, where, findings)
    # A port may serve several layers.
    ips = dict.fromkeys(ip for level in listed for ip in _addresses(level, where, findings))
    return name, Device(
        number if isinstance(number, int) and not isinstance(number, bool) else None,
        rank if isinstance(rank, int) and _whole(rank, 0, 2**32) else None,
        tuple(ips),
        others(record, ("device_id", "rank_id")),
    )


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check_levels(levels: Sequence[Record], where: str, findings: Findings) -> None:
    layers = [level.get("net_layer") for level in levels]
    numbers = [layer for layer in layers if isinstance(layer, int) and _whole(layer, 0, 7)]
    ascending = numbers[:1] == [0] and all(a < b for a, b in pairwise(numbers))
    if layers and (numbers != layers or not ascending or len(layers) > MOST_LAYERS):
        findings.add(
            "E_LEVEL", where, f"network layers {shown(layers)} do not ascend from 0 to at most 7"
        )
    for level in levels:
        _check_level(level, where, findings)


def _check_level(level: Record, where: str, findings: Findings) -> None:
    layer, instance, kind = (level.get(k) for k in ("net_layer", "net_instance_id", "net_type"))
    if not isinstance(instance, str) or not 0 < len(instance) <= _LONGEST_INSTANCE:
        findings.add(
            "E_LEVEL", where, f"net_instance_id {shown(instance)} has not 1 to 1024 characters"
        )
    if kind not in _TYPES or (layer == 0 and kind != _TYPES[0]):
        findings.add("E_LEVEL", where, f"net_type {shown(kind)} cannot be of layer {shown(layer)}")


def _addresses(level: Record, where: str, findings: Findings) -> list[str]:
    """The IP addresses of a layer; others are endpoint identifiers, opaque here."""
    listed = level.get("rank_addr_list")
    if not isinstance(listed, list) or len(listed) > MOST_ADDRESSES:
        if listed is not None:
            findings.add("E_LEVEL", where, f"rank_addr_list is no list of at most {MOST_ADDRESSES}")
        return []
    found = []
    for each in listed:
        kind = each.get("addr_type") if isinstance(each, dict) else None
        address = each.get("addr") if isinstance(each, dict) else None
        if kind not in _FAMILIES or not isinstance(address, str) or not address:
            findings.add("E_IP_FORMAT", where, f"address {shown(each)} has no type and value")
        elif kind != "EID" and address not in found:
            found.append(address)
    return found
