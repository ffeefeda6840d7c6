"""Valid tables to start from, as JSON records, and ways to break each of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from topology.rank_tables import Product, check_rank_table
from topology.rank_tables.generation import made_table, placeholder_hosts
from topology.rank_tables.writing import rank_table_text

Record = dict[str, Any]
A1, A2, A3 = Product.A1, Product.A2, Product.A3


def valid(product: Product, servers: int, devices: int) -> Record:
    """The record of a valid table; A3 tables with more than one server have two super pods."""
    table = made_table(product, placeholder_hosts(servers), range(devices))
    record: Record = json.loads(rank_table_text(table))
    if product is A3 and servers > 1:
        names = [server["server_id"] for server in record["server_list"]]
        half = servers // 2
        record["super_pod_list"] = [
            {"super_pod_id": str(i), "server_list": [{"server_id": name} for name in part]}
            for i, part in enumerate((names[:half], names[half:]))
        ]
    return record


def codes(record: object, product: Product | None = None) -> set[str]:
    """The codes that a check of the record gives."""
    return set(check_rank_table(json.dumps(record), product).codes)


def server(record: Record, index: int) -> Record:
    found: Record = record["server_list"][index]
    return found


def device(record: Record, server_index: int, index: int) -> Record:
    found: Record = server(record, server_index)["device"][index]
    return found


@dataclass(frozen=True)
class Fault:
    """A way to break a valid table, and the code that it must give."""

    name: str
    code: str
    apply: Callable[[Record], None]
    products: tuple[Product, ...] = (A1, A2, A3)
    servers: int = 1
    """Servers that it needs at least."""
    devices: int = 1
    """Devices per server that it needs at least."""
    only: tuple[int, int] | None = None
    """Servers and devices that it needs, if no others will do."""

    @property
    def aspect(self) -> str | None:
        """What part of a table it breaks; None if it takes away what others need."""
        return next((part for part, names in ASPECTS.items() if self.name in names), None)

    def broken(self, record: Record) -> Record:
        """A copy with the fault."""
        made = copy.deepcopy(record)
        self.apply(made)
        return made


ASPECTS = {
    "ranks": ("rank gap", "rank twice", "rank no number", "rank negative", "rank missing"),
    "count": ("server count", "server count no string", "no server count"),
    "ids": ("device id twice", "device id no number", "device id range"),
    "addresses": ("address", "address of text", "address twice", "address family", "no address"),
    "status": ("status", "no status"),
    "version": ("version",),
    "ports": ("port", "reserved port"),
    "servers": ("server id long", "server id twice"),
    "pods": ("number empty", "number twice", "pod id twice", "unknown server", "pods interleave"),
}
"""Parts of a table that can be broken without regard to one another."""


def _set(path: tuple[str | int, ...], value: object) -> Callable[[Record], None]:
    def apply(record: Record) -> None:
        place: Any = record
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return apply


def _drop(path: tuple[str | int, ...]) -> Callable[[Record], None]:
    def apply(record: Record) -> None:
        place: Any = record
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return apply


LAST = ("server_list", -1, "device", -1)
FIRST = ("server_list", 0, "device", 0)


def _rank_gap(record: Record) -> None:
    size = sum(len(each["device"]) for each in record["server_list"])
    device(record, -1, -1)["rank_id"] = str(size)


def _swap_ranks(record: Record) -> None:
    one, two = device(record, 0, -1), device(record, 1, 0)
    one["rank_id"], two["rank_id"] = two["rank_id"], one["rank_id"]


def _swap_servers(record: Record) -> None:
    one, two = server(record, 0), server(record, 1)
    one["server_id"], two["server_id"] = two["server_id"], one["server_id"]


def _no_servers(record: Record) -> None:
    record["server_list"] = []
    record["server_count"] = "0"


def _no_devices(record: Record) -> None:
    server(record, -1)["device"] = []


def _same_address(record: Record) -> None:
    device(record, -1, -1)["device_ip"] = device(record, 0, 0)["device_ip"]


def _range(record: Record) -> None:
    three = record["version"] == "1.2" or len(server(record, 0)["device"]) > 8
    device(record, -1, -1)["device_id"] = "16" if three else "64"


def _keep(count: int) -> Callable[[Record], None]:
    """Leave so many devices on the last server, whose ranks are the last ones."""

    def apply(record: Record) -> None:
        last = server(record, -1)
        last["device"] = last["device"][:count]

    return apply


def _three_servers(record: Record) -> None:
    del record["server_list"][-1]
    record["server_count"] = "3"


def _one_segment(record: Record) -> None:
    for index, each in enumerate(server(record, 0)["device"]):
        each["device_ip"] = f"172.16.9.{10 + index}"


def _pair_apart(record: Record) -> None:
    device(record, 0, 4)["device_ip"] = "172.16.9.9"


def _other_rails(record: Record) -> None:
    for each in server(record, -1)["device"]:
        each["device_ip"] = each["device_ip"].replace("192.168", "172.16")


def _unknown_in_pod(record: Record) -> None:
    record["super_pod_list"][-1]["server_list"][-1]["server_id"] = "another"


def _server_without_pod(record: Record) -> None:
    for pod in record["super_pod_list"][-1:]:
        pod["server_list"] = pod["server_list"][:-1] or [{"server_id": "x"}]


def _server_in_two_pods(record: Record) -> None:
    first = record["super_pod_list"][0]["server_list"][0]
    record["super_pod_list"][-1]["server_list"].append(dict(first))


def _interleaved_pods(record: Record) -> None:
    pods = record["super_pod_list"]
    one, two = pods[0]["server_list"], pods[1]["server_list"]
    one[-1], two[0] = two[0], one[-1]
    # Numbers of the dies stay unique in a pod, whichever servers it has.
    for index, each in enumerate(record["server_list"]):
        for number, card in enumerate(each["device"]):
            card["super_device_id"] = str(16 * index + number)


def _same_pod_id(record: Record) -> None:
    record["super_pod_list"][-1]["super_pod_id"] = record["super_pod_list"][0]["super_pod_id"]


def _same_number(record: Record) -> None:
    device(record, 0, 1)["super_device_id"] = device(record, 0, 0)["super_device_id"]


COMMON = (
    Fault("rank gap", "E_RANK_SET", _rank_gap),
    Fault("rank twice", "E_RANK_SET", _set((*LAST, "rank_id"), "0"), devices=2),
    Fault("rank no number", "E_RANK_FORMAT", _set((*FIRST, "rank_id"), "r0")),
    Fault("rank negative", "E_RANK_FORMAT", _set((*LAST, "rank_id"), "-1")),
    Fault("rank no string", "E_RANK_FORMAT", _set((*LAST, "rank_id"), 0)),
    Fault("rank missing", "E_RANK_FORMAT", _drop((*LAST, "rank_id"))),
    Fault("ranks interleave", "E_RANK_INTERLEAVED", _swap_ranks, servers=2, devices=2),
    Fault("server count", "E_SERVER_COUNT", _set(("server_count",), "99")),
    Fault("server count no string", "E_SERVER_COUNT", _set(("server_count",), 1)),
    Fault("no server count", "W_NO_SERVER_COUNT", _drop(("server_count",))),
    Fault("no servers", "E_EMPTY", _no_servers, products=(A1, A2)),
    Fault("no devices", "E_EMPTY", _no_devices, servers=2),
    Fault("no devices on the first", "E_EMPTY", _set(("server_list", 0, "device"), []), servers=2),
    Fault("no device list", "E_EMPTY", _drop(("server_list", -1, "device")), servers=2),
    Fault("device id twice", "E_DEVICE_ID_DUP", _set((*LAST, "device_id"), "0"), devices=2),
    Fault("device id no number", "E_DEVICE_ID_RANGE", _set((*LAST, "device_id"), "x")),
    Fault("device id range", "E_DEVICE_ID_RANGE", _range),
    Fault("address", "E_IP_FORMAT", _set((*LAST, "device_ip"), "192.168.100.256")),
    Fault("address of text", "E_IP_FORMAT", _set((*FIRST, "device_ip"), "npu0")),
    Fault("address twice", "E_IP_DUP", _same_address, devices=2),
    Fault("address family", "E_IP_FAMILY", _set((*LAST, "device_ip"), "fd00::7"), devices=4),
    Fault("no address", "E_IP_MISSING", _drop((*LAST, "device_ip")), servers=2),
    Fault("empty address", "E_IP_MISSING", _set((*LAST, "device_ip"), ""), servers=2),
    Fault("status", "E_STATUS", _set(("status",), "initializing")),
    Fault("no status", "E_STATUS", _drop(("status",))),
    Fault("unequal", "W_UNEQUAL", _keep(1), (A2, A3), servers=2, devices=2),
    Fault("version", "E_VERSION", _set(("version",), "1.7"), products=(A1, A2)),
    Fault("version no string", "E_VERSION", _set(("version",), 1.2)),
    Fault("no version", "E_VERSION", _drop(("version",)), products=(A1, A2)),
    Fault("port", "E_PORT", _set((*LAST, "device_port"), "65536")),
    Fault("reserved port", "W_PORT_RESERVED", _set((*LAST, "device_port"), "443")),
    Fault("server id long", "E_SERVER_ID_LEN", _set(("server_list", -1, "server_id"), "9" * 65),
          products=(A1, A2)),
    Fault("server id twice", "E_SERVER_ID_DUP",
          _set(("server_list", -1, "server_id"), "10.155.100.100"), products=(A1, A2), servers=2),
)  # fmt: skip

FIRST_GENERATION = (
    Fault("3 cards", "E_DEVICE_COUNT", _keep(3), (A1,), only=(1, 4)),
    Fault("5 cards", "E_DEVICE_COUNT", _keep(5), (A1,), only=(1, 8)),
    Fault("ring of 2", "E_RING_CROSS", _set((*LAST, "device_id"), "5"), (A1,), only=(1, 2)),
    Fault("8 and 4", "E_UNEQUAL", _keep(4), (A1,), only=(2, 8)),
    Fault("3 servers", "W_POW2_SERVERS", _three_servers, (A1,), only=(4, 8)),
    Fault("server order", "E_SERVER_ORDER", _swap_servers, (A1,), servers=2),
    Fault("one segment", "E_SEGMENT", _one_segment, (A1,), devices=2),
    Fault("pair in two segments", "E_SEGMENT", _pair_apart, (A1,), devices=8),
    Fault("other rails", "E_RAIL", _other_rails, (A1,), servers=2),
)

SUPER_PODS = (
    Fault("number empty", "E_SDID", _set((*LAST, "super_device_id"), ""), (A3,)),
    Fault("number missing", "E_SDID", _drop((*LAST, "super_device_id")), (A3,)),
    Fault("number twice", "E_SDID_DUP", _same_number, (A3,), devices=2),
    Fault("pod id twice", "E_POD_ID_DUP", _same_pod_id, (A3,), servers=2),
    Fault("pod id empty", "E_POD_ID", _set(("super_pod_list", 0, "super_pod_id"), ""), (A3,)),
    Fault("unknown server", "E_POD_SERVER", _unknown_in_pod, (A3,)),
    Fault("server without pod", "E_POD_COVER", _server_without_pod, (A3,), servers=4),
    Fault("server in two pods", "E_POD_COVER", _server_in_two_pods, (A3,), servers=2),
    Fault("pods interleave", "E_POD_INTERLEAVED", _interleaved_pods, (A3,), servers=4),
    Fault("no pods", "E_POD_COVER", _drop(("super_pod_list",)), (A3,)),
    Fault("pods empty", "E_EMPTY", _set(("super_pod_list",), []), (A3,)),
    Fault("pod empty", "E_EMPTY", _set(("super_pod_list", 0, "server_list"), []), (A3,)),
)

FAULTS = (*COMMON, *FIRST_GENERATION, *SUPER_PODS)

SIZES = {
    A1: ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (2, 2)),
    A2: ((1, 1), (1, 3), (1, 8), (2, 8), (2, 6), (3, 5)),
    A3: ((1, 2), (1, 16), (2, 16), (4, 4)),
}
"""Servers and devices per server of valid tables without warnings."""

START = [(p, s, d) for p, sizes in SIZES.items() for s, d in sizes]


def fitting(product: Product, servers: int, devices: int) -> list[Fault]:
    """The faults that a table of this size can have."""
    return [
        fault
        for fault in FAULTS
        if product in fault.products
        and servers >= fault.servers
        and devices >= fault.devices
        and fault.only in {None, (servers, devices)}
    ]
