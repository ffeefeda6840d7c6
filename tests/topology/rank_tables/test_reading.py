"""Every published version is read: which cards, which ranks, and the rules of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.topology.rank_tables.tables import A1, Record, codes, server, valid
from topology.rank_tables import Product, RankTable, Template, check_rank_table
from topology.rank_tables.writing import rank_table_text


def table_of(record: Record) -> RankTable:
    report = check_rank_table(json.dumps(record))
    assert report.errors == ()
    assert report.table is not None
    return report.table


def ranks_of(table: RankTable) -> dict[tuple[str, int | None], int | None]:
    return {(s.server_id, d.device_id): d.rank for s, d in table.placed()}


def cloud() -> Record:
    """Two pods on one server, and one on another that comes first as a string."""
    pods = [
        {"pod_name": "a", "server_id": "node_1", "devices": [_old("1", "10.0.1.1")]},
        {"pod_name": "b", "server_id": "node_1", "devices": [_old("0", "10.0.0.1")]},
        {"pod_name": "c", "server_id": "node_0",
         "devices": [_old("1", "10.0.1.2"), _old("0", "10.0.0.2")]},
    ]  # fmt: skip
    group = {
        "group_name": "world", "device_count": "4", "instance_count": "3", "instance_list": pods
    }  # fmt: skip
    return {"status": "completed", "group_count": "1", "group_list": [group]}


def _old(number: str, address: str) -> Record:
    return {"device_id": number, "device_ip": address}


def lab() -> Record:
    instances = [
        {"rank_id": str(rank), "server_id": "10.0.0.1",
         "devices": [_old(str(rank), f"10.0.{rank}.1")]}
        for rank in range(2)
    ]  # fmt: skip
    group = {
        "device_num": "2", "server_num": "1", "group_name": "", "instance_count": "2",
        "instance_list": instances,
    }  # fmt: skip
    return {
        "board_id": "0x0020", "chip_info": "910", "deploy_mode": "lab", "group_count": "1",
        "group_list": [group], "para_plane_nic_location": "device", "para_plane_nic_num": "2",
        "para_plane_nic_name": ["eth0", "eth1"], "status": "completed",
    }  # fmt: skip


def mixed() -> Record:
    """Version 1.1: a worker with two cards, and a parameter server on a host."""
    return {
        "version": "1.1", "status": "completed", "collective_id": "job-1", "mode": "rdma",
        "node_list": [
            {"node_addr": "10.0.0.1", "ranks": [
                {"rank_id": "0", "device_id": "0", "rank_ip": "192.168.0.1", "port": "16666"},
                {"rank_id": "1", "device_id": "1", "rank_ip": "192.168.1.1", "port": "16666"}]},
            {"node_addr": "10.0.0.2", "ranks": [{"rank_id": "2", "port": "16666"}]},
        ],
    }  # fmt: skip


def layers() -> Record:
    """Version 2.0: two servers of two cards with a mesh inside and a network between."""

    def rank(number: int) -> Record:
        host, local = divmod(number, 2)
        return {
            "rank_id": number, "local_id": local, "device_id": local, "device_port": 16666,
            "level_list": [
                {"net_layer": 0, "net_instance_id": f"server-{host}",
                 "net_type": "TOPO_FILE_DESC", "rank_addr_list": [
                     {"addr_type": "EID", "addr": f"{number:032x}", "ports": ["0/1"]}]},
                {"net_layer": 1, "net_instance_id": "pod", "net_type": "CLOS", "rank_addr_list": [
                     {"addr_type": "IPV4", "addr": f"10.0.{local}.{host}", "ports": ["d2h"]}]},
            ],
        }  # fmt: skip

    return {"version": "2.0", "rank_count": 4, "rank_list": [rank(n) for n in range(4)]}


def across_clusters() -> Record:
    """MindSpore's extension: two servers in two clusters, whose networks have nothing in common."""
    record = valid(A1, 2, 8)
    for index, each in enumerate(record["server_list"]):
        each["server_id"] = f"server_{index}_10.0.0.1"
        each.update(server_ip="10.0.0.1", pod_ip="127.0.0.1")
        for card in each["device"]:
            card.update(dpu_ip="8.2.17.60", numa_id="")
            card["device_ip"] = card["device_ip"].replace("192.168", ("192.168", "172.16")[index])
    record["cluster_list"] = [
        {"cluster_id": f"cluster_{i}", "network_type": "ROCE", "az_id": f"az_{i}",
         "region_id": f"region_{i}",
         "server_list": [{"server_id": each["server_id"]}]}
        for i, each in enumerate(record["server_list"])
    ]  # fmt: skip
    return record


@pytest.mark.parametrize(
    ("record", "template", "product", "size"),
    [
        (cloud(), Template.CLOUD, Product.A1, 4),
        (lab(), Template.LAB, Product.A1, 2),
        (mixed(), Template.V1_1, Product.A1, 3),
        (layers(), Template.V2_0, Product.A5, 4),
        (across_clusters(), Template.V1_0, Product.A1, 16),
        (valid(Product.A3, 2, 16), Template.V1_2, Product.A3, 32),
    ],
    ids=["cloud", "lab", "1.1", "2.0", "across clusters", "1.2"],
)
def test_a_version_is_recognised_and_survives_writing(
    record: Record, template: Template, product: Product, size: int
) -> None:
    report = check_rank_table(json.dumps(record))
    assert report.codes == ()
    assert report.table is not None
    assert (report.table.template, report.product, report.table.size) == (template, product, size)
    written = rank_table_text(report.table)
    assert table_of(json.loads(written)) == report.table
    assert json.loads(written).keys() == record.keys()


@pytest.mark.fast
def test_ranks_of_the_cloud_form_follow_server_ids_as_strings_then_device_ids() -> None:
    assert ranks_of(table_of(cloud())) == {
        ("node_0", 0): 0, ("node_0", 1): 1, ("node_1", 0): 2, ("node_1", 1): 3,
    }  # fmt: skip


def test_written_old_forms_are_what_was_read() -> None:
    for record in (lab(), mixed(), layers(), across_clusters()):
        assert json.loads(rank_table_text(table_of(record))) == record


def test_hosts_have_ranks_but_no_device() -> None:
    assert ranks_of(table_of(mixed()))["10.0.0.2", None] == 2


def test_ranks_of_one_host_may_share_an_address_but_not_a_port() -> None:
    record = mixed()
    one, two = record["node_list"][0]["ranks"]
    two["rank_ip"] = one["rank_ip"]
    assert codes(record) == {"E_IP_DUP"}
    two["port"] = "16667"
    assert codes(record) == set()


def test_addresses_of_endpoints_are_opaque() -> None:
    table = table_of(layers())
    assert next(d.ips for _, d in table.placed()) == ("10.0.0.0",)


def _first_rank(record: Record) -> Any:
    return record["rank_list"][0]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("E_RANK_SET", lambda r: r.update(rank_count=5)),
        ("E_RANK_SET", lambda r: _first_rank(r).update(rank_id=3)),
        ("E_RANK_FORMAT", lambda r: _first_rank(r).update(rank_id="0")),
        ("E_RANK_INTERLEAVED", lambda r: (r["rank_list"][1].update(rank_id=2),
                                          r["rank_list"][2].update(rank_id=1))),
        ("E_DEVICE_ID_RANGE", lambda r: _first_rank(r).update(device_id=65)),
        ("E_DEVICE_ID_DUP", lambda r: _first_rank(r).update(device_id=1)),
        ("E_LOCAL_ID", lambda r: _first_rank(r).update(local_id=True)),
        ("E_LOCAL_ID", lambda r: _first_rank(r).update(local_id=1)),
        ("E_PORT", lambda r: _first_rank(r).update(device_port=0)),
        ("E_EMPTY", lambda r: r.update(rank_list=[], rank_count=0) or r.update(rank_list=None)),
        ("E_LEVEL", lambda r: _first_rank(r)["level_list"][0].update(net_type="CLOS")),
        ("E_LEVEL", lambda r: _first_rank(r)["level_list"][1].update(net_layer=0)),
        ("E_LEVEL", lambda r: _first_rank(r)["level_list"][1].update(net_instance_id="")),
        ("E_LEVEL", lambda r: _layer(r, 1).update(net_instance_id="x" * 1025)),
        ("E_LEVEL", lambda r: _first_rank(r)["level_list"].append(dict(_layer(r, 1)))),
        ("E_LEVEL",
         lambda r: _first_rank(r)["level_list"].append({**_layer(r, 1), "net_layer": 8})),
        ("E_LEVEL", lambda r: _layer(r, 1).update(rank_addr_list=[_address(r)] * 25)),
        ("E_IP_FORMAT", lambda r: _address(r).update(addr_type="MAC")),
        ("E_IP_FORMAT", lambda r: _address(r).update(addr="10.0.0")),
        ("E_IP_DUP", lambda r: _address(r).update(addr="10.0.1.1")),
        ("E_STATUS", lambda r: r.update(status="initializing")),
    ],
)  # fmt: skip
def test_rules_of_version_2(code: str, change: Any) -> None:
    record = layers()
    change(record)
    assert codes(record) == {code}


@pytest.mark.parametrize(
    "change",
    [
        lambda r: _layer(r, 1).update(net_instance_id="x" * 1024),
        lambda r: _layer(r, 1).update(rank_addr_list=[_address(r)] * 24),
        lambda r: _layer(r, 1).update(net_layer=7),
        lambda r: _first_rank(r).update(device_id=64, local_id=64),
        lambda r: r.update(status="completed"),
    ],
)
def test_bounds_of_version_2(change: Any) -> None:
    record = layers()
    change(record)
    assert codes(record) == set()


def _layer(record: Record, index: int) -> Any:
    return _first_rank(record)["level_list"][index]


def _address(record: Record) -> Any:
    return _first_rank(record)["level_list"][1]["rank_addr_list"][0]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("E_GROUP_COUNT", lambda r: r.update(group_count="2")),
        ("E_GROUP_COUNT", lambda r: r["group_list"][0].update(instance_count="9")),
        ("E_GROUP_COUNT", lambda r: r["group_list"][0].update(device_num="9")),
        ("E_SERVER_COUNT", lambda r: r["group_list"][0].update(server_num="9")),
        ("E_FIELD", lambda r: r.update(para_plane_nic_location="host")),
        ("E_EMPTY", lambda r: r.update(group_list=[])),
        ("E_EMPTY", lambda r: r.pop("group_list")),
        ("E_RANK_FORMAT", lambda r: r["group_list"][0]["instance_list"][0].update(rank_id="a")),
        ("E_DEVICE_ID_RANGE",
         lambda r: r["group_list"][0]["instance_list"][0]["devices"][0].update(device_id="8")),
    ],
)  # fmt: skip
def test_rules_of_the_oldest_form(code: str, change: Any) -> None:
    record = lab()
    change(record)
    assert codes(record) == {code}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("E_CLUSTER_ID_DUP", lambda r: r["cluster_list"][1].update(cluster_id="cluster_0")),
        ("E_CLUSTER_SERVER",
         lambda r: r["cluster_list"][1].update(server_list=[{"server_id": "x"}])),
        ("E_CLUSTER_COVER", lambda r: r["cluster_list"].pop()),
        ("E_RAIL", lambda r: r.pop("cluster_list")),
        ("E_IP_FORMAT", lambda r: server(r, 0)["device"][0].update(dpu_ip="here")),
        ("E_IP_FORMAT", lambda r: server(r, 0).update(server_ip="10.0.0")),
    ],
)  # fmt: skip
def test_rules_of_cross_cluster_tables(code: str, change: Any) -> None:
    record = across_clusters()
    change(record)
    assert codes(record) == {code}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"status": "initializing"}, {"E_STATUS"}),
        ({"status": "completed"}, {"E_EMPTY"}),
        ({"status": "completed", "version": "1.0"}, {"E_EMPTY"}),
        ({"status": "completed", "version": "3.0"}, {"E_VERSION"}),
        ({"version": "2.0"}, {"E_EMPTY"}),
        ({}, {"E_STATUS"}),
    ],
)
def test_tables_without_a_body(record: Record, expected: set[str]) -> None:
    assert codes(record) == expected


def test_more_servers_than_any_job_has_are_not_looked_at() -> None:
    record = valid(A1, 1, 1)
    record["server_list"] *= 70_000
    record["server_count"] = "70000"
    assert codes(record) == {"E_FIELD"}
