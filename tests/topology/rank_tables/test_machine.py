"""A rank table is a machine: links of the product, servers and cards of the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.topology.rank_tables.tables import A1, A2, A3, START, Record, device, server, valid
from tests.topology.rank_tables.test_reading import across_clusters, cloud, layers, mixed
from topology import ClusterError, named_cluster
from topology.rank_tables import Product
from topology.rank_tables.machine import TableMachine, machine_of_table

pytestmark = pytest.mark.fast

SAMPLES = Path(__file__).parents[2] / "data" / "rank_tables"


def machine(record: Record, product: str | None = None) -> TableMachine:
    return machine_of_table(json.dumps(record), "table.json", product)


def sizes(record: Record, product: str | None = None) -> list[tuple[str, int]]:
    return [(tier.name, tier.size) for tier in machine(record, product).cluster.tiers]


@pytest.mark.parametrize(("product", "servers", "devices"), START)
def test_every_valid_table_is_a_machine(product: Product, servers: int, devices: int) -> None:
    found = machine(valid(product, servers, devices), product)
    assert found.cluster.devices == servers * devices
    assert found.rank_order == tuple(range(servers * devices))


@pytest.mark.parametrize(
    ("product", "servers", "name", "devices"),
    [(A1, 1, "atlas-800-9000", 8), (A1, 4, "atlas-800-9000", 32), (A2, 2, "atlas-800t-a2", 16)],
)
def test_whole_servers_are_the_bundled_machine(
    product: Product, servers: int, name: str, devices: int
) -> None:
    assert machine(valid(product, servers, 8), product).cluster == named_cluster(name, devices)


def test_part_of_each_server_is_taken() -> None:
    assert sizes(valid(A1, 2, 4)) == [("server", 2), ("card", 4)]
    assert sizes(valid(A2, 3, 5), "910B") == [("server", 3), ("card", 5)]
    assert sizes(valid(A2, 2, 1), "910B") == [("server", 2)]
    assert sizes(cloud()) == [("server", 2), ("card", 2)]
    assert sizes(across_clusters()) == [("server", 2), ("ring", 2), ("card", 4)]


def test_super_pods_meet_over_the_network() -> None:
    assert sizes(valid(A3, 4, 16)) == [("pod", 2), ("server", 2), ("card", 16)]
    assert sizes(valid(A3, 2, 16)) == [("pod", 2), ("card", 16)]
    pod, server_tier, _ = machine(valid(A3, 4, 16)).cluster.tiers
    assert pod.bandwidth_bytes_per_s < server_tier.bandwidth_bytes_per_s


def test_unequal_servers_are_one_flat_ring() -> None:
    text = (SAMPLES / "valid_910b_unequal_8plus4.json").read_text()
    found = machine_of_table(text, "table.json", "910B")
    assert [(tier.name, tier.size) for tier in found.cluster.tiers] == [("server", 12)]
    assert found.report.codes == ("W_UNEQUAL",)


def test_a_box16_has_two_modules() -> None:
    record = valid(A2, 2, 4)
    for each in record["server_list"]:
        for card, number in zip(each["device"], (0, 5, 8, 13), strict=True):
            card["device_id"] = str(number)
    assert sizes(record) == [("server", 2), ("module", 2), ("card", 2)]
    for index, each in enumerate(record["server_list"]):
        each["device"] = each["device"][2:3]
        each["device"][0]["rank_id"] = str(index)
    assert sizes(record) == [("server", 2)]


def test_ranks_in_another_order_are_kept() -> None:
    record = valid(A1, 1, 8)
    for card in server(record, 0)["device"]:
        number = int(card["device_id"])
        card["rank_id"] = str(number % 4 * 2 + number // 4)
    assert machine(record).rank_order == (0, 2, 4, 6, 1, 3, 5, 7)


def test_servers_go_by_their_ranks_not_by_the_file() -> None:
    record = valid(A1, 2, 8)
    record["server_list"].reverse()
    found = machine(record)
    assert found.rank_order == tuple(range(16))
    assert found.cluster == named_cluster("atlas-800-9000", 16)


def test_tables_that_are_no_machine() -> None:
    broken = valid(A1, 1, 8)
    device(broken, 0, 0)["rank_id"] = "7"
    with pytest.raises(ClusterError, match="E_RANK_SET server") as caught:
        machine(broken)
    assert "inferred from version 1.0" in caught.value.fix
    with pytest.raises(ClusterError, match="or give --product 910B"):
        machine(valid(A2, 1, 3))
    with pytest.raises(ClusterError, match="runs on a host"):
        machine(mixed())
    with pytest.raises(ClusterError, match="product 950"):
        machine(layers())
    with pytest.raises(ClusterError, match="E_JSON"):
        machine_of_table("[" * 10_000, "table.json")
