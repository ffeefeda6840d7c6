"""From JSON to a `RankTable`: which form it is; forms with a `server_list` or a `node_list`."""

from collections.abc import Callable, Mapping
from functools import partial

from topology.rank_tables.addresses import address_list, parsed
from topology.rank_tables.fields import (
    MOST_ENTRIES,
    Record,
    decimal,
    device_number,
    entries,
    others,
    rank_number,
    text_of,
)
from topology.rank_tables.findings import Findings
from topology.rank_tables.reading_groups import read_cloud, read_lab
from topology.rank_tables.reading_layers import read_layers
from topology.rank_tables.records import (
    Device,
    RankTable,
    Server,
    ServerGroup,
    Template,
    place,
    shown,
)

__all__ = ["read_record"]

_LISTS = {"server_list": Template.V1_0, "node_list": Template.V1_1, "rank_list": Template.V2_0}
_TOP = ("version", "server_count", "server_list", "super_pod_list", "cluster_list")


def read_record(record: Record, findings: Findings) -> RankTable | None:
    """The table in a JSON object; None if it has no known form."""
    template = _template(record, findings)
    if template is None:
        return None
    _check_status(record, template, findings)
    if record.get(_LIST_OF[template]) is None:
        started = record.get("status") == "completed"
        if started or template is Template.V2_0:
            findings.add("E_EMPTY", "the table", f"{_LIST_OF[template]} is missing")
        return None
    table = _READERS[template](record, findings)
    if table.size > MOST_ENTRIES:
        findings.add("E_FIELD", "the table", f"{table.size} ranks, at most {MOST_ENTRIES}")
        return None
    return table


def _template(record: Record, findings: Findings) -> Template | None:
    """The form that the version names; for an unknown version the form that the table has."""
    version = record.get("version")
    if version is None and "version" not in record:
        if "group_list" in record or not any(key in record for key in _LISTS):
            return Template.LAB if "deploy_mode" in record else Template.CLOUD
        found = next(key for key in _LISTS if key in record)
        findings.add("E_VERSION", "the table", f"a table with a {found} needs a version")
        return _LISTS[found]
    known = ("1.0", "1.1", "1.2", "2.0")
    if version in known:
        return Template(str(version))
    findings.add(
        "E_VERSION", "the table", f"version {shown(version)!r} is none of {', '.join(known)}"
    )
    form = next((form for key, form in _LISTS.items() if key in record), None)
    if form is Template.V1_0 and "super_pod_list" in record:
        return Template.V1_2
    return form


def _check_status(record: Record, template: Template, findings: Findings) -> None:
    status = record.get("status")
    if status == "completed" or (status is None and template is Template.V2_0):
        return
    what = "missing" if status is None else shown(status)
    findings.add("E_STATUS", "the table", f"the status is {what}; it must become completed")


_LIST_OF: Mapping[Template, str] = {
    Template.CLOUD: "group_list",
    Template.LAB: "group_list",
    Template.V1_0: "server_list",
    Template.V1_1: "node_list",
    Template.V1_2: "server_list",
    Template.V2_0: "rank_list",
}


def _read_servers(template: Template, record: Record, findings: Findings) -> RankTable:
    servers = tuple(
        _server(each, findings) for each in entries(record, "server_list", "the table", findings)
    )
    _check_count(record, findings)
    return RankTable(
        template,
        servers,
        pods=_groups(record, "super_pod", findings),
        clusters=_groups(record, "cluster", findings),
        fields=others(record, _TOP),
    )


def _check_count(record: Record, findings: Findings) -> None:
    given, listed = record.get("server_count"), record.get("server_list")
    if given is None and "server_count" not in record:
        findings.add("W_NO_SERVER_COUNT", "the table", "server_count is missing")
    elif isinstance(listed, list) and decimal(given) != len(listed):
        findings.add(
            "E_SERVER_COUNT",
            "the table",
            f"server_count is {shown(given)}, but server_list has {len(listed)}",
        )


def _server(record: Record, findings: Findings) -> Server:
    name = text_of(record, "server_id")
    where = place(name)
    devices = tuple(
        _device(each, name, findings) for each in entries(record, "device", where, findings)
    )
    return Server(name, devices, others(record, ("server_id", "device")))


def _device(record: Record, server: str, findings: Findings) -> Device:
    number = record.get("device_id")
    where = place(server, "?" if number is None else number)
    return Device(
        device_number(record, where, findings),
        rank_number(record, where, findings),
        address_list(record.get("device_ip"), where, findings),
        others(record, ("device_id", "rank_id", "device_ip")),
    )


def _groups(record: Record, noun: str, findings: Findings) -> tuple[ServerGroup, ...] | None:
    key, id_key = f"{noun}_list", f"{noun}_id"
    if key not in record:
        return None
    groups = []
    for each in entries(record, key, "the table", findings):
        name = text_of(each, id_key)
        where = f"{noun.replace('_', ' ')} {shown(name)}"
        members = entries(each, "server_list", where, findings)
        ids = tuple(text_of(member, "server_id") for member in members)
        groups.append(ServerGroup(name, ids, others(each, (id_key, "server_list"))))
    return tuple(groups)


def _read_nodes(record: Record, findings: Findings) -> RankTable:
    """The table of a `node_list`; a rank without `device_id`, or with -1, runs on the host."""
    if record.get("mode") not in {None, "tcp", "rdma"}:
        findings.add(
            "E_FIELD", "the table", f"mode {shown(record['mode'])} is neither tcp nor rdma"
        )
    servers = tuple(
        _node(each, findings) for each in entries(record, "node_list", "the table", findings)
    )
    return RankTable(Template.V1_1, servers, fields=others(record, ("version", "node_list")))


def _node(record: Record, findings: Findings) -> Server:
    name = text_of(record, "node_addr")
    if parsed(name) is None:
        findings.add("E_IP_FORMAT", place(name), f"node_addr {shown(name)} is no address")
    ranks = tuple(
        _node_rank(each, name, findings) for each in entries(record, "ranks", place(name), findings)
    )
    return Server(name, ranks, others(record, ("node_addr", "ranks")))


def _node_rank(record: Record, node: str, findings: Findings) -> Device:
    number = record.get("device_id")
    where = place(node, "of the host" if number is None else number)
    on_host = number is None or number == "-1"
    known = ("rank_id", "rank_ip") if on_host else ("rank_id", "rank_ip", "device_id")
    return Device(
        None if on_host else device_number(record, where, findings),
        rank_number(record, where, findings),
        address_list(record.get("rank_ip"), where, findings),
        others(record, known),
    )


_READERS: Mapping[Template, Callable[[Record, Findings], RankTable]] = {
    Template.CLOUD: read_cloud,
    Template.LAB: read_lab,
    Template.V1_0: partial(_read_servers, Template.V1_0),
    Template.V1_1: _read_nodes,
    Template.V1_2: partial(_read_servers, Template.V1_2),
    Template.V2_0: read_layers,
}
