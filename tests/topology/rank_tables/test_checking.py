"""Every rule has its code: in the given tables, and in valid ones that are broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.rank_tables.tables import (
    A1,
    A2,
    A3,
    FAULTS,
    START,
    Fault,
    Record,
    codes,
    device,
    fitting,
    server,
    valid,
)
from topology import ClusterError
from topology.rank_tables import CODES, Product, check_rank_table

SAMPLES = Path(__file__).parents[2] / "data" / "rank_tables"
EXPECTED = json.loads((SAMPLES / "EXPECTED.json").read_text())["files"]


@pytest.mark.parametrize("name", EXPECTED)
def test_given_tables_are_classified_as_expected(name: str) -> None:
    expected = EXPECTED[name]
    report = check_rank_table((SAMPLES / f"{name}.json").read_text(), expected["product"])
    assert report.valid is expected["valid"]
    assert set(report.codes) == set(expected["rule_codes"])
    assert report.inferred is None
    assert all(CODES[each.code] for each in (*report.errors, *report.warnings))


@pytest.mark.parametrize(("product", "servers", "devices"), START)
def test_tables_to_start_from_break_no_rule(product: Product, servers: int, devices: int) -> None:
    assert codes(valid(product, servers, devices), product) == set()


CASES = [
    pytest.param(*size, fault, id=f"{size[0]}-{size[1]}x{size[2]}-{fault.name}")
    for size in START
    for fault in fitting(*size)
]


@pytest.mark.parametrize(("product", "servers", "devices", "fault"), CASES)
def test_a_fault_gives_its_code_and_no_other(
    product: Product, servers: int, devices: int, fault: Fault
) -> None:
    broken = fault.broken(valid(product, servers, devices))
    assert codes(broken, product) == {fault.code}


def test_every_fault_is_tried() -> None:
    tried = {fault.name for size in START for fault in fitting(*size)}
    assert tried == {fault.name for fault in FAULTS}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(START), st.data())
def test_faults_in_different_parts_are_all_found(
    size: tuple[Product, int, int], data: st.DataObject
) -> None:
    record, expected = valid(*size), set[str]()
    left = [fault for fault in fitting(*size) if fault.aspect is not None]
    for _ in range(3):
        if left:
            fault = data.draw(st.sampled_from(left))
            record = fault.broken(record)
            expected.add(fault.code)
            left = [other for other in left if other.aspect != fault.aspect]
    assert codes(record, size[0]) == expected


def test_findings_name_server_and_device() -> None:
    record = valid(A1, 2, 8)
    device(record, 1, 3)["device_ip"] = "192.168.103.999"
    (found,) = check_rank_table(json.dumps(record), "910A").errors
    assert (found.code, found.where) == ("E_IP_FORMAT", "server 10.155.100.101, device 3")
    assert "192.168.103.999" in found.message


@pytest.mark.parametrize(
    ("codes_of_910a", "change"),
    [
        ({"E_DEVICE_COUNT"}, lambda r: server(r, 0)["device"].pop()),
        ({"E_RING_CROSS"}, lambda r: server(r, 0).update(device=server(r, 0)["device"][2:6])),
    ],
)
def test_rules_of_one_product_are_not_those_of_another(
    codes_of_910a: set[str], change: object
) -> None:
    record = valid(A1, 1, 8)
    assert callable(change)
    change(record)
    for rank, each in enumerate(server(record, 0)["device"]):
        each["rank_id"] = str(rank)
    assert codes(record, A1) == codes_of_910a
    assert codes(record, A2) == codes(record, A3) == set()


def _with(record: Record, **fields: object) -> Record:
    return {**record, **fields}


def test_the_product_is_inferred_and_the_reason_told() -> None:
    box16 = valid(A2, 1, 8)
    device(box16, 0, 7)["device_id"] = "15"
    numbered = valid(A1, 1, 2)
    device(numbered, 0, 0)["super_device_id"] = "0"
    cases = [
        (valid(A1, 1, 8), A1, "version 1.0, no super pods, device ids up to 7"),
        (box16, A2, "version 1.0, no super pods, device id 15"),
        (valid(A3, 1, 2), A3, "version 1.2"),
        (_with(valid(A1, 1, 1), super_pod_list=[]), A3, "super pods"),
        (numbered, A3, "super device ids"),
    ]
    for record, product, reason in cases:
        report = check_rank_table(json.dumps(record))
        assert (report.product, report.inferred) == (product, reason)


@pytest.mark.parametrize("name", ["910A", "a2", "910c", "910C/A3", " A3 ", "950"])
def test_products_have_several_names(name: str) -> None:
    assert check_rank_table("{}", name).inferred is None


def test_an_unknown_product_is_an_error() -> None:
    with pytest.raises(ClusterError, match="unknown product 'h100'"):
        check_rank_table("{}", "h100")


def test_a_box16_takes_the_same_places_of_both_modules() -> None:
    record = valid(A2, 1, 4)
    for each, number in zip(server(record, 0)["device"], (1, 2, 9, 10), strict=True):
        each["device_id"] = str(number)
    assert codes(record, A2) == set()
    device(record, 0, 3)["device_id"] = "11"
    assert codes(record, A2) == {"E_BOX16"}


def test_backup_addresses_are_those_of_the_other_die() -> None:
    record = valid(A3, 1, 4)
    one, two, three, _ = server(record, 0)["device"]
    one["backup_device_ip"], two["backup_device_ip"] = two["device_ip"], one["device_ip"]
    assert codes(record, A3) == set()
    one.update(backup_device_port="16667", device_port="16666")
    two.update(device_port="16667")
    assert codes(record, A3) == {"E_BACKUP_PORT"}
    two.update(device_port="16666", backup_device_ip=three["device_ip"])
    assert codes(record, A3) == {"E_BACKUP_IP"}
    two.update(backup_device_ip="172.16.0.1")
    assert codes(record, A3) == {"W_BACKUP_IP"}


def test_one_server_needs_no_addresses_and_several_addresses_are_alike() -> None:
    record = valid(A2, 1, 3)
    for each in server(record, 0)["device"]:
        del each["device_ip"]
    assert codes(record, A2) == set()
    for index, each in enumerate(server(record, 0)["device"]):
        each["device_ip"] = f"10.0.{index}.1,10.0.{index}.2"
    assert codes(record, A2) == set()
    device(record, 0, 1)["device_ip"] = "10.0.1.1"
    assert codes(record, A2) == {"E_IP_COUNT"}
    device(record, 0, 1)["device_ip"] = "10.0.1.1,10.0.1.1"
    assert codes(record, A2) == {"E_IP_DUP"}


def test_an_address_is_the_same_however_it_is_written() -> None:
    record = valid(A2, 1, 2)
    device(record, 0, 0)["device_ip"] = "fd00::1"
    device(record, 0, 1)["device_ip"] = "FD00:0:0:0:0:0:0:1"
    assert codes(record, A2) == {"E_IP_DUP"}


def test_server_ids_are_in_order_as_strings() -> None:
    record = valid(A1, 2, 8)
    for index, name in enumerate(("10.155.111.9", "10.155.111.10")):
        server(record, index)["server_id"] = name
    assert codes(record, A1) == {"E_SERVER_ORDER"}
    assert codes(record, A2) == set()


def test_large_jobs_may_have_segments_larger_than_a_byte_of_hosts() -> None:
    assert codes(valid(A1, 256, 8), A1) == set()


def test_many_findings_of_one_code_are_counted() -> None:
    record = valid(A2, 32, 8)
    for each in record["server_list"]:
        for card in each["device"]:
            card["device_ip"] = "10.0.0.1"
    report = check_rank_table(json.dumps(record), "910B")
    assert report.codes == ("E_IP_DUP",)
    assert len(report.errors) == 101
    assert report.errors[-1].message == "and 155 more of this kind"


@pytest.mark.parametrize(
    ("port", "expected"),
    [("0", {"E_PORT"}), ("1", {"W_PORT_RESERVED"}), ("1023", {"W_PORT_RESERVED"}), ("1024", set()),
     ("65535", set()), ("65536", {"E_PORT"}), (16666, {"E_PORT"})],
)  # fmt: skip
def test_ports_have_bounds(port: object, expected: set[str]) -> None:
    record = valid(A2, 1, 1)
    device(record, 0, 0)["device_port"] = port
    assert codes(record, A2) == expected


def test_numbers_have_at_most_ten_digits() -> None:
    record = valid(A2, 1, 1)
    device(record, 0, 0)["rank_id"] = "0" * 10
    assert codes(record, A2) == set()
    device(record, 0, 0)["rank_id"] = "0" * 11
    assert codes(record, A2) == {"E_RANK_FORMAT"}


def test_a_slip_in_one_name_hides_no_other_server() -> None:
    record = valid(A3, 4, 2)
    record["super_pod_list"][1]["server_list"] = [{"server_id": "another"}]
    assert codes(record, A3) == {"E_POD_SERVER", "E_POD_COVER"}


def test_the_first_cards_of_both_modules_go_together() -> None:
    record = valid(A2, 1, 2)
    device(record, 0, 1)["device_id"] = "8"
    assert codes(record, A2) == set()
    device(record, 0, 1)["device_id"] = "9"
    assert codes(record, A2) == {"E_BOX16"}


def test_the_rarer_family_of_addresses_is_the_odd_one() -> None:
    record = valid(A2, 1, 3)
    for number in (0, 1):
        device(record, 0, number)["device_ip"] = f"fd00::{number + 1}"
    (found,) = check_rank_table(json.dumps(record), "910B").errors
    assert (found.code, found.where) == ("E_IP_FAMILY", "server 10.155.100.100, device 2")
