"""Laws of rank tables: writing loses nothing, and the order of servers says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.rank_tables.tables import START, Record, fitting, valid
from topology.rank_tables import Product, RankTableReport, check_rank_table
from topology.rank_tables.writing import rank_table_text

SAMPLES = Path(__file__).parents[2] / "data" / "rank_tables"
TEXTS = [
    pytest.param(path.read_text(), id=path.stem)
    for path in sorted(SAMPLES.glob("*.json"))
    if path.stem not in {"EXPECTED", "invalid_not_json"}
]


def _rewritten(text: str) -> RankTableReport:
    report = check_rank_table(text)
    assert report.table is not None
    again = check_rank_table(rank_table_text(report.table))
    assert again.table == report.table
    assert rank_table_text(report.table) == rank_table_text(again.table)
    return again


@pytest.mark.parametrize("text", TEXTS)
def test_given_tables_survive_writing(text: str) -> None:
    again = _rewritten(text)
    # What is not a number is left out on writing, and missing then.
    assert again.codes == check_rank_table(text).codes


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(START), st.data())
def test_every_table_survives_writing(size: tuple[Product, int, int], data: st.DataObject) -> None:
    fault = data.draw(st.sampled_from(fitting(*size)))
    record = data.draw(st.sampled_from([valid(*size), fault.broken(valid(*size))]))
    record["note"] = data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
    if check_rank_table(json.dumps(record)).table is not None:
        _rewritten(json.dumps(record))


def _facts(record: Record, product: Product) -> set[tuple[str, str, str]]:
    report = check_rank_table(json.dumps(record), product)
    found = (*report.errors, *report.warnings)
    # The only rule on the order of the file.
    return {(e.code, e.where, e.message) for e in found if e.code != "E_POD_INTERLEAVED"}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(START), st.data())
def test_the_order_of_servers_and_devices_in_the_file_says_nothing(
    size: tuple[Product, int, int], data: st.DataObject
) -> None:
    record = valid(*size)
    if data.draw(st.booleans()):
        record = data.draw(st.sampled_from(fitting(*size))).broken(record)
    servers = data.draw(st.permutations(record["server_list"]))
    mixed = [
        {**each, "device": data.draw(st.permutations(each["device"]))} if "device" in each else each
        for each in servers
    ]
    pods = record.get("super_pod_list")
    shuffled = {**record, "server_list": mixed}
    if pods:
        shuffled["super_pod_list"] = data.draw(st.permutations(pods))
    assert _facts(shuffled, size[0]) == _facts(record, size[0])


def test_super_pods_stand_together_in_the_file() -> None:
    record = valid(Product.A3, 4, 4)
    first, second, third, fourth = record["server_list"]
    record["server_list"] = [third, fourth, second, first]
    assert _codes(record) == set()
    record["server_list"] = [first, third, second, fourth]
    assert _codes(record) == {"E_POD_INTERLEAVED"}


def _codes(record: Record) -> set[str]:
    return set(check_rank_table(json.dumps(record), "A3").codes)
