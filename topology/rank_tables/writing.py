"""A `RankTable` as the text of its version; reading it gives an equal table."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

from topology.rank_tables.records import Device, RankTable, Server, ServerGroup, Template

__all__ = ["rank_table_text"]


def rank_table_text(table: RankTable) -> str:
    """The JSON text of a table, a line for each card, with a line feed at its end."""
    return _pretty(_WRITERS[table.template](table), "") + "\n"


def _pretty(value: object, indent: str, *, flat: bool = False) -> str:
    """JSON with two spaces of indent; what is in a list of cards stands on one line."""
    deeper = indent + "  "
    if flat or not isinstance(value, list | dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        lines = [deeper + _pretty(each, deeper, flat=_is_flat(each)) for each in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    items = [
        f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_pretty(each, deeper)}"
        for key, each in value.items()
    ]
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"


def _is_flat(value: object) -> bool:
    """Whether an entry of a list is a record without lists."""
    return isinstance(value, dict) and not any(isinstance(v, list | dict) for v in value.values())


def _servers(table: RankTable) -> dict[str, object]:
    status = {key: table.fields[key] for key in ("status",) if key in table.fields}
    return {
        "version": str(table.template),
        "server_count": str(len(table.servers)),
        "server_list": [_server(each) for each in table.servers],
        **_groups(table.pods, "super_pod"),
        **_groups(table.clusters, "cluster"),
        **{key: value for key, value in table.fields.items() if key != "status"},
        **status,
    }


def _server(server: Server) -> dict[str, object]:
    devices = [
        {**_number("device_id", d.device_id), **_ips("device_ip", d), **_number("rank_id", d.rank),
         **d.fields}
        for d in server.devices
    ]  # fmt: skip
    return {"server_id": server.server_id, "device": devices, **server.fields}


def _number(key: str, number: int | None) -> dict[str, str]:
    return {} if number is None else {key: str(number)}


def _ips(key: str, device: Device) -> dict[str, str]:
    return {key: ",".join(device.ips)} if device.ips else {}


def _groups(groups: Iterable[ServerGroup] | None, noun: str) -> dict[str, object]:
    if groups is None:
        return {}
    records = [
        {
            f"{noun}_id": group.group_id,
            **group.fields,
            "server_list": [{"server_id": name} for name in group.server_ids],
        }
        for group in groups
    ]
    return {f"{noun}_list": records}


def _nodes(table: RankTable) -> dict[str, object]:
    nodes = [
        {
            "node_addr": server.server_id,
            **server.fields,
            "ranks": [
                {**_number("rank_id", d.rank), **_number("device_id", d.device_id),
                 **_ips("rank_ip", d), **d.fields}
                for d in server.devices
            ],
        }
        for server in table.servers
    ]  # fmt: skip
    return {"version": str(table.template), "node_list": nodes, **table.fields}


def _layers(table: RankTable) -> dict[str, object]:
    ranks = [
        {**({} if d.rank is None else {"rank_id": d.rank}),
         **({} if d.device_id is None else {"device_id": d.device_id}), **d.fields}
        for _, d in table.placed()
    ]  # fmt: skip
    return {
        "version": str(table.template),
        "rank_count": len(ranks),
        "rank_list": ranks,
        **table.fields,
    }


def _instances(table: RankTable) -> dict[str, object]:
    """The old forms: a group per name, an instance per pod or per rank."""
    lab = table.template is Template.LAB
    groups = []
    for own, placed in groupby(table.placed(), key=lambda each: _own_of_group(each[1])):
        instances: list[dict[str, object]] = []
        cards = list(placed)
        for (server, kept, rank), devices in groupby(cards, key=lambda each: _instance(each, lab)):
            records = [_old_device(device) for _, device in devices]
            ranked = {} if rank is None else {"rank_id": str(rank)}
            instances.append({**kept, "devices": records, **ranked, "server_id": server})
        servers = len({server.server_id for server, _ in cards})
        counts: dict[str, object] = (
            {"device_num": str(len(cards)), "server_num": str(servers)}
            if lab
            else {"device_count": str(len(cards))}
        )
        counts["instance_count"] = str(len(instances))
        groups.append({**own, **counts, "instance_list": instances})
    return {"group_count": str(len(groups)), "group_list": groups, **table.fields}


def _own_of_group(device: Device) -> dict[str, object]:
    own = device.fields.get("group")
    return dict(own) if isinstance(own, dict) else {}


def _instance(
    placed: tuple[Server, Device], lab: bool
) -> tuple[str, dict[str, object], int | None]:
    server, device = placed
    kept = device.fields.get("instance")
    return (
        server.server_id,
        dict(kept) if isinstance(kept, dict) else {},
        device.rank if lab else None,
    )


def _old_device(device: Device) -> dict[str, object]:
    own = {key: value for key, value in device.fields.items() if key not in {"group", "instance"}}
    return {**_number("device_id", device.device_id), **_ips("device_ip", device), **own}


_WRITERS: Mapping[Template, Callable[[RankTable], dict[str, object]]] = {
    Template.CLOUD: _instances,
    Template.LAB: _instances,
    Template.V1_0: _servers,
    Template.V1_1: _nodes,
    Template.V1_2: _servers,
    Template.V2_0: _layers,
}
