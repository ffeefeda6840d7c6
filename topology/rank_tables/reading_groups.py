"""The old forms without a version: a `group_list` of instances."""

from collections.abc import Iterator
from itertools import count

from topology.rank_tables.addresses import address_list
from topology.rank_tables.fields import (
    Record,
    decimal,
    device_number,
    entries,
    others,
    rank_number,
    text_of,
)
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown

__all__ = ["read_cloud", "read_lab"]

_COUNTS = ("device_count", "device_num", "instance_count", "server_num")


def read_cloud(record: Record, findings: Findings) -> RankTable:
    """The form of the cloud: an instance is a pod with its cards.

    It writes no ranks: HCCL numbers them by the order of the server ids as strings, then by device
    id, and so does this.
    """
    table = _read(Template.CLOUD, record, findings)
    ranks = count()
    number = {
        id(device): next(ranks)
        for server in sorted(table.servers, key=lambda each: each.server_id)
        for device in sorted(server.devices, key=_by_device_id)
    }
    return table.ranked(lambda device: number[id(device)])


def _by_device_id(device: Device) -> int:
    return -1 if device.device_id is None else device.device_id


def read_lab(record: Record, findings: Findings) -> RankTable:
    """The form of the laboratory: an instance is a rank with its one card."""
    nics = record.get("para_plane_nic_location")
    if nics != "device":
        findings.add(
            "E_FIELD", "the table", f"para_plane_nic_location is {shown(nics)}, it must be device"
        )
    return _read(Template.LAB, record, findings)


def _read(template: Template, record: Record, findings: Findings) -> RankTable:
    groups = list(entries(record, "group_list", "the table", findings))
    _check_count(record, "group_count", len(groups), "the table", findings)
    servers: dict[str, list[Device]] = {}
    for group in groups:
        for server, device in _members(group, template, findings):
            servers.setdefault(server, []).append(device)
    made = tuple(Server(name, tuple(devices)) for name, devices in servers.items())
    return RankTable(template, made, fields=others(record, ("group_count", "group_list")))


def _members(group: Record, template: Template, findings: Findings) -> Iterator[tuple[str, Device]]:
    """The cards of a group with their servers, and its counts checked."""
    where = f"group {shown(text_of(group, 'group_name'))}"
    own = others(group, ("instance_list", *_COUNTS))
    instances = list(entries(group, "instance_list", where, findings))
    servers = {text_of(each, "server_id") for each in instances}
    devices = 0
    for instance in instances:
        name = text_of(instance, "server_id")
        for device in entries(instance, "devices", place(name), findings):
            devices += 1
            yield name, _device(template, device, instance, own, findings)
    _check_count(group, "instance_count", len(instances), where, findings)
    of_devices = "device_num" if template is Template.LAB else "device_count"
    _check_count(group, of_devices, devices, where, findings)
    if template is Template.LAB:
        _check_count(group, "server_num", len(servers), where, findings)


def _check_count(record: Record, key: str, actual: int, where: str, findings: Findings) -> None:
    given = record.get(key)
    if decimal(given) == actual or not actual:
        return
    code = "E_SERVER_COUNT" if key == "server_num" else "E_GROUP_COUNT"
    findings.add(code, where, f"{key} is {shown(given)}, but there are {actual}")


def _device(
    template: Template, record: Record, instance: Record, group: Record, findings: Findings
) -> Device:
    number = record.get("device_id")
    server = text_of(instance, "server_id")
    rank = None
    if template is Template.LAB:
        rank = rank_number(instance, place(server, record.get("device_id", "?")), findings)
    where = place(server, "?" if number is None else number)
    kept = others(instance, ("server_id", "devices", "rank_id"))
    fields = {"group": group, "instance": kept, **others(record, ("device_id", "device_ip"))}
    own = device_number(record, where, findings)
    return Device(own, rank, address_list(record.get("device_ip"), where, findings), fields)
