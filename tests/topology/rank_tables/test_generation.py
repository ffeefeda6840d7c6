"""Tables made for a job, merged from tables of servers, and ranked anew."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.rank_tables.tables import A1, A2, A3, valid
from topology import ClusterError
from topology.rank_tables import Product, RankTable, check_rank_table
from topology.rank_tables.generation import (
    Host,
    hosts_of_text,
    made_table,
    merged,
    placeholder_hosts,
)
from topology.rank_tables.places import renumbered
from topology.rank_tables.writing import rank_table_text


def test_the_table_of_two_cards_has_the_shape_of_the_tutorial() -> None:
    table = made_table(A1, [Host("10.0.0.1", ("192.1.27.6", "192.2.27.6"))], (0, 1))
    assert json.loads(rank_table_text(table)) == {
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "10.0.0.1",
                "device": [
                    {"device_id": "0", "device_ip": "192.1.27.6", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.2.27.6", "rank_id": "1"},
                ],
                "host_nic_ip": "reserve",
            }
        ],
        "status": "completed",
    }


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([A1, A2, A3]), st.integers(1, 300))
def test_made_tables_break_no_rule(product: Product, servers: int) -> None:
    whole = 16 if product is A3 else 8
    table = made_table(product, placeholder_hosts(servers), range(whole))
    report = check_rank_table(rank_table_text(table), product)
    assert report.errors == ()
    assert set(report.codes) <= {"W_POW2_SERVERS"}
    assert report.table == table


def test_hosts_in_any_order_give_one_table() -> None:
    hosts = [Host("10.0.0.9"), Host("10.0.0.10"), Host("a")]
    texts = {rank_table_text(made_table(A1, order, range(8))) for order in permutations(hosts)}
    assert len(texts) == 1
    table = made_table(A1, hosts, range(8))
    assert [server.server_id for server in table.servers] == ["10.0.0.10", "10.0.0.9", "a"]


def test_super_pods_of_48_servers_number_their_dies_anew() -> None:
    table = made_table(A3, placeholder_hosts(50), (0, 15))
    assert table.pods is not None
    assert [len(pod.server_ids) for pod in table.pods] == [48, 2]
    assert table.servers[48].devices[1].fields["super_device_id"] == "15"


def test_sizes_beyond_any_job_are_errors() -> None:
    with pytest.raises(ClusterError, match="8193 servers"):
        made_table(A1, placeholder_hosts(8193), range(8))
    with pytest.raises(ClusterError, match="none for device 2"):
        made_table(A1, [Host("a", ("10.0.0.1", "10.0.1.1"))], range(8))


@pytest.mark.parametrize("text", ["", "# nobody\n", "a\nb\na 10.0.0.1\n"])
def test_hosts_that_cannot_be(text: str) -> None:
    with pytest.raises(ClusterError):
        hosts_of_text(text, "hosts")


def _parts() -> list[RankTable]:
    return [
        made_table(A1, [Host(f"10.0.0.{n}", tuple(f"192.168.{i % 4}.{n + 20 * (i // 4)}"
                                                 for i in range(8)))], range(8))
        for n in (2, 10, 1)
    ]  # fmt: skip


def test_merging_does_not_depend_on_the_order() -> None:
    texts = {rank_table_text(merged(order)) for order in permutations(_parts())}
    assert len(texts) == 1
    table = merged(_parts())
    assert [server.server_id for server in table.servers] == ["10.0.0.1", "10.0.0.10", "10.0.0.2"]
    assert [device.rank for _, device in table.placed()] == list(range(24))
    assert check_rank_table(rank_table_text(table), "910A").codes == ("W_POW2_SERVERS",)


def test_merging_again_changes_nothing() -> None:
    table = merged(_parts())
    assert merged([table]) == table


def test_what_cannot_be_merged() -> None:
    one, two, _ = _parts()
    with pytest.raises(ClusterError, match=r"10\.0\.0\.2 is in two tables"):
        merged([one, two, one])
    with pytest.raises(ClusterError, match=r"version 1\.0, 1\.2"):
        merged([one, made_table(A3, placeholder_hosts(1), (0, 1))])


def test_ranks_follow_rings_after_renumbering() -> None:
    record = valid(A1, 1, 8)
    for card in record["server_list"][0]["device"]:
        number = int(card["device_id"])
        card["rank_id"] = str(number % 4 * 2 + number // 4)
    table = check_rank_table(json.dumps(record)).table
    assert table is not None
    again = renumbered(table, A1)
    assert [device.rank for _, device in again.placed()] == list(range(8))
    assert renumbered(again, A1) == again
    assert renumbered(table, A3) == table


def test_partners_of_two_rings_stay_partners() -> None:
    record = valid(A1, 1, 8)
    for rank, number in enumerate((6, 4, 7, 5, 0, 1, 2, 3)):
        record["server_list"][0]["device"][number]["rank_id"] = str(rank)
    table = check_rank_table(json.dumps(record)).table
    assert table is not None
    order = {d.rank: d.device_id for _, d in renumbered(table, A1).placed()}
    assert [order[rank] for rank in range(8)] == [6, 4, 7, 5, 2, 0, 3, 1]


def test_a_table_without_ranks_is_renumbered_too() -> None:
    table = made_table(A2, placeholder_hosts(2), range(3))
    bare = replace(
        table,
        servers=tuple(
            replace(s, devices=tuple(replace(d, rank=None) for d in s.devices))
            for s in table.servers
        ),
    )
    assert renumbered(bare, A2) == table
