"""Rules on the addresses of cards."""

from collections import Counter
from collections.abc import Iterator

from topology.rank_tables.addresses import Address, is_masked, parsed, sound
from topology.rank_tables.fields import text_of
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown
from topology.rank_tables.rules_common import cards_of, in_order

__all__ = ["check_addresses", "check_backups", "repeated_addresses"]

_HOST_FIELDS = ("host_ip", "server_ip", "pod_ip")
_NO_ADDRESS = "reserve"
Cards = list[tuple[str, Server, Device]]


def check_addresses(table: RankTable, findings: Findings) -> None:
    """Addresses can be read, are unique, of one family, and there where servers need them."""
    cards = cards_of(table)
    _check_format(table, cards, findings)
    _check_twins(table, cards, findings)
    if table.template is not Template.V2_0:
        _check_families(cards, findings)
    if table.template not in {Template.V1_1, Template.V2_0}:
        _check_presence(table, cards, findings)


def _check_format(table: RankTable, cards: Cards, findings: Findings) -> None:
    for server in in_order(table):
        for key in _HOST_FIELDS:
            value = text_of(server.fields, key)
            if value != _NO_ADDRESS:
                _check_text(key, value, place(server.server_id), findings)
    for where, _, device in cards:
        for text in device.ips:
            _check_text("device_ip", text or " ", where, findings)
        _check_text("dpu_ip", text_of(device.fields, "dpu_ip"), where, findings)


def _check_text(key: str, text: str, where: str, findings: Findings) -> None:
    """An address as it is written; none is none."""
    if not text or parsed(text) is not None:
        return
    if is_masked(text):
        findings.add("W_IP_MASKED", where, f"{key} {shown(text)} is hidden in part")
    else:
        findings.add("E_IP_FORMAT", where, f"{key} {shown(text)} is no IPv4 or IPv6 address")


def _keys(table: RankTable, device: Device) -> Iterator[tuple[Address, object]]:
    """What must be unique: the address; with its port where ranks share a host."""
    port = device.fields.get("port") if table.template is Template.V1_1 else None
    for address in sound(device.ips):
        yield address, port


def repeated_addresses(table: RankTable) -> set[Address]:
    """Addresses that are not unique."""
    counts = Counter(key for _, device in table.placed() for key in _keys(table, device))
    return {key[0] for key, count in counts.items() if count > 1}


def _check_twins(table: RankTable, cards: Cards, findings: Findings) -> None:
    holders: dict[tuple[Address, object], str] = {}
    for where, _, device in cards:
        for key in _keys(table, device):
            if key in holders:
                message = f"device_ip {key[0]} is also that of {holders[key]}"
                findings.add("E_IP_DUP", where, message)
            holders.setdefault(key, where)


def _check_families(cards: Cards, findings: Findings) -> None:
    found = [(address, where) for where, _, device in cards for address in sound(device.ips)]
    counts = Counter(address.version for address, _ in found)
    if len(counts) < 2:
        return
    usual = 6 if counts[6] > counts[4] else 4
    for address, where in found:
        if address.version != usual:
            message = f"device_ip {address} is IPv{address.version}, most are IPv{usual}"
            findings.add("E_IP_FAMILY", where, message)


def _check_presence(table: RankTable, cards: Cards, findings: Findings) -> None:
    several = len(table.servers) > 1
    numbers = Counter(len(device.ips) for _, device in table.placed() if device.ips)
    usual = max(numbers, key=lambda number: (numbers[number], number), default=0)
    for where, _, device in cards:
        if not device.ips:
            if several:
                message = f"no device_ip, but the job spans {len(table.servers)} servers"
                findings.add("E_IP_MISSING", where, message)
        elif len(device.ips) != usual:
            message = f"{len(device.ips)} addresses, other devices have {usual}"
            findings.add("E_IP_COUNT", where, message)


def check_backups(table: RankTable, findings: Findings) -> None:
    """A backup address is one of the other die of the package, at another port."""
    owners = {
        address: (server.server_id, device)
        for server, device in table.placed()
        for address in sound(device.ips)
    }
    for where, server, device in cards_of(table):
        for text in text_of(device.fields, "backup_device_ip").split(","):
            address = parsed(text)
            if address is None:
                if text:
                    findings.add("E_BACKUP_IP", where, f"{shown(text)} is no address")
            elif address not in owners:
                message = f"backup address {address} is of no device of the table"
                findings.add("W_BACKUP_IP", where, message)
            else:
                _check_backup(server.server_id, device, owners[address], findings)


def _check_backup(
    server: str, device: Device, owner: tuple[str, Device], findings: Findings
) -> None:
    other_server, other = owner
    if device.device_id is None or other.device_id is None:
        return
    where = place(server, device.device_id)
    if server != other_server or other.device_id != device.device_id ^ 1:
        message = (
            f"the backup address is of {place(other_server, other.device_id)}, not of device "
            f"{device.device_id ^ 1}, the other die of the package"
        )
        findings.add("E_BACKUP_IP", where, message)
        return
    port = device.fields.get("backup_device_port")
    if port is not None and port == other.fields.get("device_port"):
        message = f"backup_device_port {shown(port)} is the device_port of device {other.device_id}"
        findings.add("E_BACKUP_PORT", where, message)
