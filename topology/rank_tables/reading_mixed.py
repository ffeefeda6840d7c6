"""Version 1.1: nodes with ranks on cards and on hosts."""

from topology.rank_tables.addresses import address_list, parsed
from topology.rank_tables.fields import Record, decimal, entries, others, text_of
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, Server, Template, place, shown

__all__ = ["read_mixed"]


def read_mixed(record: Record, findings: Findings) -> RankTable:
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
        _rank(each, name, findings) for each in entries(record, "ranks", place(name), findings)
    )
    return Server(name, ranks, others(record, ("node_addr", "ranks")))


def _rank(record: Record, node: str, findings: Findings) -> Device:
    number, rank = record.get("device_id"), record.get("rank_id")
    where = place(node, "of the host" if number is None else number)
    on_host = number is None or number == "-1"
    if not on_host and decimal(number) is None:
        findings.add(
            "E_DEVICE_ID_RANGE", where, f"device_id {shown(number)} is no string of digits"
        )
    if decimal(rank) is None:
        findings.add("E_RANK_FORMAT", where, f"rank_id {shown(rank)} is no string of digits")
    ips = address_list(record.get("rank_ip"), where, findings)
    known = ("rank_id", "rank_ip") if on_host else ("rank_id", "rank_ip", "device_id")
    return Device(decimal(number), decimal(rank), ips, others(record, known))
