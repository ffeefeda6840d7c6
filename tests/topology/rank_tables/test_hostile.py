"""Texts that no machine wrote: an answer, never an exception, and no more memory than a bound."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.rank_tables.tables import START, Record, valid
from topology.rank_tables import LARGEST_TEXT, Product, check_rank_table
from topology.rank_tables.generation import merged
from topology.rank_tables.link_checks import link_checks
from topology.rank_tables.places import renumbered
from topology.rank_tables.writing import rank_table_text

BOMBS = {
    "deep lists": "[" * 200_000,
    "deep objects": '{"a":' * 100_000,
    "many values": '{"server_list":[' + "0," * 2_000_001 + "0]}",
    "long number": '{"version": ' + "9" * 10_000 + "}",
    "not a number": '{"version": NaN}',
    "twice": '{"status": "completed", "status": "completed"}',
    "list": "[]",
    "nothing": "",
    "half": '{"version": "1.0"',
    "comment": '{"version": "1.0" /* */}',
    "trailing comma": '{"version": "1.0",}',
    "byte order mark": "\ufeff{}",
    "zero byte": "\x00",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_told_in_one_finding(name: str) -> None:
    (found,) = check_rank_table(BOMBS[name]).errors
    assert found.code == "E_JSON"
    assert len(found.message) < 200


def test_a_text_of_100_megabytes_is_refused_unread() -> None:
    text = " " * (100 * 10**6)
    tracemalloc.start()
    (found,) = check_rank_table(text).errors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.code == "E_JSON"
    assert str(LARGEST_TEXT) in found.message
    assert peak < 10**6


def test_findings_stay_short_whatever_the_values() -> None:
    record = valid(Product.A1, 2, 8)
    record["server_list"][0]["server_id"] = "x" * 10**6
    record["server_list"][0]["device"][0].update(device_ip="\n" * 10**5, rank_id=["y"] * 10**5)
    report = check_rank_table(json.dumps(record))
    assert {"E_SERVER_ID_LEN", "E_IP_FORMAT", "E_RANK_FORMAT"} <= set(report.codes)
    assert all(str(each).isprintable() and len(str(each)) < 400 for each in report.errors)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.sampled_from(["1.0", "0", "192.168.100.1", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def _use(text: str) -> None:
    """Whatever can be done with a table is done."""
    for product in (None, "910A", "910B", "A3"):
        report = check_rank_table(text, product)
        assert all(str(each).isprintable() for each in (*report.errors, *report.warnings))
        if report.table is not None:
            rank_table_text(report.table)
            list(link_checks(report.table))
            renumbered(report.table, report.product)


@settings(max_examples=200, deadline=None)
@given(
    VALUES
    | st.dictionaries(
        st.sampled_from(
            ["version", "server_list", "group_list", "node_list", "rank_list", "status"]
        ),
        VALUES | st.sampled_from(["1.0", "1.1", "1.2", "2.0"]),
    )
)
def test_any_value_gets_an_answer(value: object) -> None:
    _use(json.dumps(value, allow_nan=False) if _finite(value) else repr(value))


def _finite(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(START), st.data())
def test_any_value_in_any_place_gets_an_answer(
    size: tuple[Product, int, int], data: st.DataObject
) -> None:
    record = valid(*size)
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_somewhere(record, data)
    if _finite(record):
        _use(json.dumps(record))


def _replace_somewhere(record: Record, data: st.DataObject) -> None:
    place: Any = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or data.draw(st.integers(0, 4)) == 0:
            place[key] = data.draw(VALUES)
            return
        place = inner


def test_thousands_of_equal_servers_are_checked_quickly_enough_to_finish() -> None:
    record = valid(Product.A2, 1, 8)
    record["server_list"] *= 8_000
    report = check_rank_table(json.dumps(record), "910B")
    assert {"E_SERVER_ID_DUP", "E_IP_DUP", "E_RANK_SET"} <= set(report.codes)
    assert len(report.errors) < 1_000


def test_tables_of_nothing_can_be_merged() -> None:
    empty = check_rank_table('{"version": "1.0", "server_list": []}').table
    assert empty is not None
    assert merged([empty, empty]).size == 0
