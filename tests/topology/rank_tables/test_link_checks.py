"""Commands that check links: for every card, to each of its peers, and nothing from the table."""

from __future__ import annotations

import json
import re

import pytest

from tests.topology.rank_tables.tables import A1, A2, Record, device, valid
from topology.rank_tables import check_rank_table
from topology.rank_tables.link_checks import LinkCheck, link_checks

pytestmark = pytest.mark.fast


def checks(record: Record, *, next_only: bool = False) -> list[LinkCheck]:
    table = check_rank_table(json.dumps(record)).table
    assert table is not None
    return list(link_checks(table, next_only=next_only))


def test_every_card_is_checked_with_its_peers() -> None:
    record = valid(A1, 2, 8)
    found = checks(record)
    per_card = [c.command for c in found if (c.server_id, c.device_id) == ("10.155.100.100", 3)]
    peer = device(record, 1, 3)["device_ip"]
    assert per_card == [
        "hccn_tool -i 3 -ip -g",
        "hccn_tool -i 3 -link -g",
        f"hccn_tool -i 3 -netdetect -s address {peer}",
        "hccn_tool -i 3 -net_health -g",
        f"hccn_tool -i 3 -ping -g address {peer}",
    ]
    assert len(found) == 16 * 5


def test_all_peers_or_the_next_one() -> None:
    pings = [c for c in checks(valid(A1, 4, 8)) if "-ping" in c.command]
    assert len(pings) == 4 * 3 * 8
    assert len({(c.server_id, c.device_id, c.peer_server_id) for c in pings}) == len(pings)
    rounds = [c for c in checks(valid(A1, 4, 8), next_only=True) if "-ping" in c.command]
    ring = {(c.server_id, c.peer_server_id) for c in rounds}
    assert len(rounds) == 4 * 8
    assert len(ring) == len({one for one, _ in ring}) == len({two for _, two in ring}) == 4


def test_one_server_has_no_peers() -> None:
    assert {c.peer_server_id for c in checks(valid(A1, 1, 8))} == {None}


def test_addresses_of_version_6_are_pinged_as_such() -> None:
    record = valid(A2, 2, 1)
    device(record, 0, 0)["device_ip"], device(record, 1, 0)["device_ip"] = "fd00::1", "fd00::2"
    assert "hccn_tool -i 0 -ping -inet6 -g ipv6_address fd00::2" in [
        c.command for c in checks(record)
    ]


def test_no_text_of_the_table_reaches_a_command() -> None:
    record = valid(A2, 2, 2)
    device(record, 1, 0)["device_ip"] = "10.0.0.1; reboot"
    device(record, 1, 1)["device_ip"] = "fe80::1%$(reboot)"
    for check in checks(record):
        assert re.fullmatch(r"hccn_tool -i \d+ [a-z0-9_ .:-]+", check.command)
        assert "reboot" not in check.command
