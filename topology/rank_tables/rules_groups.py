"""Rules on super pods, and on the clusters of MindSpore's cross-cluster tables."""

from collections import Counter
from collections.abc import Sequence

from topology.rank_tables.fields import decimal
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import (
    RankTable,
    ServerGroup,
    Template,
    place,
    shown,
)
from topology.rank_tables.rules_common import LONGEST_SERVER_ID, cards_of

__all__ = ["check_clusters", "check_pods"]


def check_pods(table: RankTable, findings: Findings) -> None:
    """Super pods have unique ids and hold every server once; their cards have ids of their own."""
    if table.template is not Template.V1_2 and table.pods is None:
        return
    if table.template is not Template.V1_2:
        message = f"super_pod_list in a table of version {table.template}"
        findings.add("W_POD_VERSION", "the table", message)
    _check_ids(table.pods or (), findings)
    if table.pods is None:
        findings.add("E_POD_COVER", "the table", "super_pod_list is missing")
    else:
        _check_members(table, table.pods, "POD", "super pod", findings)
    cards = _check_device_numbers(table, findings)
    for pod in table.pods or ():
        _check_unique_numbers(pod, cards, findings)
    _check_contiguous(table, findings)


def check_clusters(table: RankTable, findings: Findings) -> None:
    """Clusters have unique ids and hold every server once."""
    if table.clusters is None:
        return
    for name, count in sorted(Counter(each.group_id for each in table.clusters).items()):
        if count > 1:
            where = f"cluster {shown(name)}"
            findings.add("E_CLUSTER_ID_DUP", where, f"{count} clusters have this id")
    _check_members(table, table.clusters, "CLUSTER", "cluster", findings)


def _check_ids(pods: Sequence[ServerGroup], findings: Findings) -> None:
    for name, count in sorted(Counter(pod.group_id for pod in pods).items()):
        where = f"super pod {shown(name)}"
        if not 0 < len(name) <= LONGEST_SERVER_ID:
            message = f"super_pod_id has {len(name)} characters, it must have 1 to 64"
            findings.add("E_POD_ID", where, message)
        elif count > 1:
            findings.add("E_POD_ID_DUP", where, f"{count} super pods have this super_pod_id")


def _check_members(
    table: RankTable, groups: Sequence[ServerGroup], code: str, noun: str, findings: Findings
) -> None:
    """Members are servers of the table, and every server is a member once.

    An unknown member is most often a server of the table with a slip in its name, so as many
    servers as there are unknown members may be in no group without a finding of their own.
    """
    known = {server.server_id for server in table.servers}
    counts = Counter(member for group in groups for member in group.server_ids)
    unknown = 0
    for group in groups:
        for member in group.server_ids:
            if member not in known:
                unknown += 1
                where = f"{noun} {shown(group.group_id)}"
                message = f"server {shown(member)} is not in server_list"
                findings.add(f"E_{code}_SERVER", where, message)
    missing = sorted(name for name in known if counts[name] == 0)
    twice = sorted(name for name in known if counts[name] > 1)
    if any(not group.server_ids for group in groups):
        missing = []  # the empty list was reported
    if groups and len(missing) > unknown:
        for name in missing:
            findings.add(f"E_{code}_COVER", place(name), f"the server is in no {noun}")
    for name in twice:
        message = f"the server is named {counts[name]} times among the {noun}s"
        findings.add(f"E_{code}_COVER", place(name), message)


def _check_device_numbers(table: RankTable, findings: Findings) -> dict[str, list[tuple[int, str]]]:
    """The numbers of the cards by server, without those that cannot be read.

    Servers with the same id have been reported; their cards cannot be told apart.
    """
    counts = Counter(server.server_id for server in table.servers)
    cards: dict[str, list[tuple[int, str]]] = {}
    for where, server, device in cards_of(table):
        given = device.fields.get("super_device_id")
        number = decimal(given)
        if number is None:
            what = "missing" if given is None else f"{shown(given)}, no string of digits"
            findings.add("E_SDID", where, f"super_device_id is {what}")
        elif counts[server.server_id] == 1:
            cards.setdefault(server.server_id, []).append((number, where))
    return cards


def _check_unique_numbers(
    pod: ServerGroup, cards: dict[str, list[tuple[int, str]]], findings: Findings
) -> None:
    holders: dict[int, str] = {}
    for name in sorted(set(pod.server_ids)):
        for number, where in cards.get(name, ()):
            if number in holders:
                message = f"super_device_id {number} is also that of {holders[number]}"
                findings.add("E_SDID_DUP", where, f"{message}, in super pod {shown(pod.group_id)}")
            holders.setdefault(number, where)


def _check_contiguous(table: RankTable, findings: Findings) -> None:
    pods: dict[str, list[int]] = {}
    for index, pod in enumerate(table.pods or ()):
        for name in set(pod.server_ids):
            pods.setdefault(name, []).append(index)
    before, seen = -1, set[int]()
    for server in table.servers:
        own, *others = pods.get(server.server_id, (-1, -1))
        if others:
            continue
        if own != before and own in seen:
            message = "servers of other super pods stand between it and those of its own"
            findings.add("E_POD_INTERLEAVED", place(server.server_id), message)
        before = own
        seen.add(own)
