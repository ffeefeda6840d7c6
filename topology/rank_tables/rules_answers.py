"""Rules on what servers say of the cards of a table."""

from collections.abc import Iterable, Mapping

from topology.rank_tables.addresses import parsed, sound
from topology.rank_tables.card_answers import CardAnswer, Question
from topology.rank_tables.findings import Findings
from topology.rank_tables.records import Device, RankTable, place, shown
from topology.rank_tables.rules_common import cards_of

__all__ = ["check_answers"]

_UP, _SUCCESS, _NOT_ASKED = "up", "success", "init"
Cards = Mapping[tuple[str, int], Device]


def check_answers(table: RankTable, answers: Iterable[CardAnswer], findings: Findings) -> None:
    """Addresses are those of the table, links are up, and peers answer.

    Answers of cards that the table has not are passed over, but not of servers that it has not.
    """
    cards = {
        (server.server_id, device.device_id): device
        for _, server, device in cards_of(table)
        if device.device_id is not None
    }
    servers = {server for server, _ in cards}
    told: set[tuple[str, int]] = set()
    for each in dict.fromkeys(answers):
        key = each.server_id, each.device_id
        if each.server_id not in servers:
            where = place(each.server_id)
            findings.add("W_ANSWER_SERVER", where, "its answers are of no server of the table")
            servers.add(each.server_id)
        elif key in cards:
            told |= {key} if each.question is Question.ADDRESS else set()
            _check(each, cards[key], findings)
    asked = {server for server, _ in told}
    for server, number in cards:
        if server in asked and (server, number) not in told:
            message = "its server says no address of this device"
            findings.add("W_ANSWER_MISSING", place(server, number), message)


def _check(answer: CardAnswer, device: Device, findings: Findings) -> None:
    where = place(answer.server_id, answer.device_id)
    said = answer.text.lower()
    match answer.question:
        case Question.ADDRESS:
            _check_address(answer, device, findings)
        case Question.LINK if said != _UP:
            findings.add("E_LINK_DOWN", where, f"link status {answer.text}")
        case Question.HEALTH if said == _NOT_ASKED:
            findings.add("W_NET_HEALTH", where, "net health was not found out: Init")
        case Question.HEALTH if said != _SUCCESS:
            to = f" to {shown(answer.peer)}" if answer.peer else ""
            findings.add("E_NET_HEALTH", where, f"net health{to}: {answer.text}")
        case Question.PING:
            _check_ping(answer, where, findings)


def _check_address(answer: CardAnswer, device: Device, findings: Findings) -> None:
    """A masked address of the table cannot be compared, and was told already."""
    ours, theirs = sound(device.ips), parsed(answer.text)
    if ours and theirs not in ours:
        message = f"device_ip {ours[0]}, but the server says {shown(answer.text)}"
        findings.add("E_ANSWER_IP", place(answer.server_id, answer.device_id), message)


def _check_ping(answer: CardAnswer, where: str, findings: Findings) -> None:
    try:
        lost = float(answer.text)
    except ValueError:
        return
    message = f"{lost:g} % of the packets to {shown(answer.peer)} were lost"
    if lost >= 100:
        findings.add("E_PING", where, message)
    elif lost > 0:
        findings.add("W_PING", where, message)
