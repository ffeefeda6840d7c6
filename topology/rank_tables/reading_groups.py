"""The old forms without a version: a `group_list` of instances."""

from collections.abc import Callable, Iterator
from itertools import count

from topology.rank_tables.addresses import address_list
from topology.rank_tables.fields import Record, decimal, entries, others, text_of
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown

__all__ = ["read_cloud", "read_lab"]

_COUNTS = ("device_count", "device_num", "instance_count", "server_num")
_Maker = Callable[[Record, Record, str, Findings], Device]


def read_cloud(record: Record, findings: Findings) -> RankTable:
    """The form of the cloud: an instance is a pod with its cards.

    It writes no ranks: HCCL numbers them by the order of the server ids as strings, then by device
    id, and so does this.
    """
    table = _read(Template.CLOUD, record, _cloud_device, findings)
    ranks = count()
    ranked: dict[int, Device] = {}
    for server in sorted(table.servers, key=lambda each: each.server_id):
        for device in sorted(server.devices, key=_by_device_id):
            ranked[id(device)] = Device(device.device_id, next(ranks), device.ips, device.fields)
    servers = tuple(
        Server(each.server_id, tuple(ranked[id(device)] for device in each.devices))
        for each in table.servers
    )
    return RankTable(Template.CLOUD, servers, fields=table.fields)


def _by_device_id(device: Device) -> int:
    return -1 if device.device_id is None else device.device_id


def read_lab(record: Record, findings: Findings) -> RankTable:
    """The form of the laboratory: an instance is a rank with its one card."""
    nics = record.get("para_plane_nic_location")
    if nics != "device":
        findings.add(
            "E_FIELD", "the table", f"para_plane_nic_location is {shown(nics)}, it must be device"
        )
    return _read(Template.LAB, record, _lab_device, findings)


def _read(template: Template, record: Record, make: _Maker, findings: Findings) -> RankTable:
    groups = list(entries(record, "group_list", "the table", findings))
    _check_count(record, "group_count", len(groups), "the table", findings)
    servers: dict[str, list[Device]] = {}
    for group in groups:
        members = _members(group, template, make, findings)
        for server, device in members:
            servers.setdefault(server, []).append(device)
    made = tuple(Server(name, tuple(devices)) for name, devices in servers.items())
    return RankTable(template, made, fields=others(record, ("group_count", "group_list")))


def _members(
    group: Record, template: Template, make: _Maker, findings: Findings
) -> Iterator[tuple[str, Device]]:
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
            made = make(device, instance, name, findings)
            yield name, Device(made.device_id, made.rank, made.ips, {"group": own, **made.fields})
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


def _cloud_device(device: Record, instance: Record, server: str, findings: Findings) -> Device:
    kept = others(instance, ("server_id", "devices", "rank_id"))
    return _device(device, None, server, {"instance": kept}, findings)


def _lab_device(device: Record, instance: Record, server: str, findings: Findings) -> Device:
    rank = instance.get("rank_id")
    if decimal(rank) is None:
        where = place(server, device.get("device_id", "?"))
        findings.add("E_RANK_FORMAT", where, f"rank_id {shown(rank)} is no string of digits")
    kept = others(instance, ("server_id", "devices", "rank_id"))
    return _device(device, decimal(rank), server, {"instance": kept}, findings)


def _device(
    record: Record, rank: int | None, server: str, own: Record, findings: Findings
) -> Device:
    number = record.get("device_id")
    where = place(server, "?" if number is None else number)
    if decimal(number) is None:
        findings.add(
            "E_DEVICE_ID_RANGE", where, f"device_id {shown(number)} is no string of digits"
        )
    ips = address_list(record.get("device_ip"), where, findings)
    return Device(decimal(number), rank, ips, {**own, **others(record, ("device_id", "device_ip"))})
