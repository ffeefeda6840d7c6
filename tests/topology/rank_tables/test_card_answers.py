"""A rank table beside what its servers say: hccn.conf, and what hccn_tool printed."""

from __future__ import annotations

import json

import pytest

from tests.topology.rank_tables.tables import A1, A2, Record, device, valid
from topology.errors import ClusterError
from topology.rank_tables import RankTable, check_rank_table
from topology.rank_tables.card_answers import CardAnswer, answers_of_conf, answers_of_transcript
from topology.rank_tables.link_checks import link_checks

pytestmark = pytest.mark.fast

FIRST, SECOND = "10.155.100.100", "10.155.100.101"
GOOD = {
    "-ip": "ipaddr:{own}\nnetmask:255.255.255.0",
    "-link": "link status: UP",
    "-netdetect": "",
    "-net_health": "net health status: Success",
    "-ping": "device 0 PING {peer}\n3 packets transmitted, 3 received, 0.00% packet loss",
}


def table(record: Record) -> RankTable:
    found = check_rank_table(json.dumps(record)).table
    assert found is not None
    return found


def transcript(record: Record, changed: dict[tuple[str, int, str], str] | None = None) -> str:
    """What `bash -v` leaves of the commands where all is well, but for what is changed."""
    found = table(record)
    own = {(s.server_id, d.device_id): d.ips[0] for s, d in found.placed()}
    lines, server = [], None
    for check in link_checks(found):
        if check.server_id != server:
            server = check.server_id
            lines.append(f"# on {server}")
        query = check.command.split()[3]
        told = (changed or {}).get((check.server_id, check.device_id, query), GOOD[query])
        mine = own[check.server_id, check.device_id]
        answer = told.format(own=mine, peer=check.command.split()[-1])
        lines += [f"{check.command}  # {check.peer_server_id}", *answer.splitlines()]
    return "\n".join(lines)


def codes(record: Record, answers: list[CardAnswer]) -> set[str]:
    return set(check_rank_table(json.dumps(record), None, answers).codes)


def conf(record: Record, server: int) -> str:
    cards = record["server_list"][server]["device"]
    return "\n".join(f"address_{each['device_id']}={each['device_ip']}" for each in cards)


def test_where_all_is_well_nothing_is_found() -> None:
    record = valid(A1, 2, 8)
    answers = answers_of_transcript(transcript(record), None)
    answers += answers_of_conf(conf(record, 0), FIRST)
    assert codes(record, answers) == codes(record, [])
    assert len(answers) == 16 * 4 + 8


@pytest.mark.parametrize(
    ("query", "said", "code"),
    [
        ("-ip", "ipaddr:192.168.9.9", "E_ANSWER_IP"),
        ("-link", "link status: DOWN", "E_LINK_DOWN"),
        ("-net_health", "net health status: Fault", "E_NET_HEALTH"),
        ("-net_health", "net health status: Receive timeout", "E_NET_HEALTH"),
        ("-net_health", "net health status: Init", "W_NET_HEALTH"),
        ("-ping", "3 packets transmitted, 0 received, 100.00% packet loss", "E_PING"),
        ("-ping", "3 packets transmitted, 2 received, 33.33% packet loss", "W_PING"),
    ],
)
def test_what_is_at_fault_is_told_with_its_card(query: str, said: str, code: str) -> None:
    record = valid(A1, 2, 8)
    text = transcript(record, {(SECOND, 3, query): said})
    answers = answers_of_transcript(text, None)
    report = check_rank_table(json.dumps(record), None, answers)
    (found,) = [each for each in (*report.errors, *report.warnings) if each.code == code]
    assert found.where == f"server {SECOND}, device 3"
    if code in {"E_NET_HEALTH", "E_PING"}:
        assert device(record, 0, 3)["device_ip"] in found.message


def test_a_conf_of_another_address_or_none_is_told() -> None:
    record = valid(A2, 2, 8)
    text = conf(record, 0).replace("address_2=", "address_2=10.1.1.1 #")
    lines = [line for line in text.splitlines() if not line.startswith("address_5=")]
    answers = answers_of_conf("\n".join(lines), FIRST)
    assert codes(record, answers) == codes(record, []) | {"E_ANSWER_IP", "W_ANSWER_MISSING"}
    assert codes(record, answers_of_conf(text, "10.9.9.9")) >= {"W_ANSWER_SERVER"}


def test_a_transcript_without_a_server_or_a_command_is_an_error() -> None:
    with pytest.raises(ClusterError, match="on which server"):
        answers_of_transcript("hccn_tool -i 0 -link -g\nlink status: UP", None)
    with pytest.raises(ClusterError, match="no command of hccn_tool"):
        answers_of_transcript("link status: UP", FIRST)


@pytest.mark.parametrize("text", ["10.155.xx.xx", "192.168.1.*", "***.***.***.***", "10.1.1.2x"])
def test_a_masked_address_is_a_warning(text: str) -> None:
    record = valid(A1, 2, 8)
    before = codes(record, [])
    device(record, 1, 4)["device_ip"] = text
    assert codes(record, []) == before | {"W_IP_MASKED"}
    assert check_rank_table(json.dumps(record)).valid


@pytest.mark.parametrize("text", ["10.155.1.300", "x", "a.b.c.d", "10.1.1.1x2x", "10.*"])
def test_other_texts_are_no_addresses(text: str) -> None:
    record = valid(A1, 2, 8)
    device(record, 1, 4)["device_ip"] = text
    assert "E_IP_FORMAT" in codes(record, [])
