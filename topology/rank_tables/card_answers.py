r"""What servers say of their cards: `/etc/hccn.conf`, and what `hccn_tool` printed.

A transcript has the commands of `link_checks` with what each printed behind it, as `bash -v` leaves
it, and a line `# on SERVER` in front of the commands of a server.

Source: the tool's answers (`ipaddr:`, `link status: UP`, `net health status: Success`, `Fault` or
`Init`, `0.00% packet loss`) as MindSpore's and vLLM-Ascend's guides on several servers show them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from topology.errors import ClusterError
from topology.rank_tables.records import shown

__all__ = ["CardAnswer", "Question", "answers_of_conf", "answers_of_transcript"]


class Question(StrEnum):
    """What a server was asked of a card."""

    ADDRESS = "address"
    LINK = "link"
    HEALTH = "health"
    """Whether the card reaches the address that it was told to detect."""
    PING = "ping"


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """What one command said, or one line of a file."""

    server_id: str
    device_id: int
    question: Question
    text: str
    """The address, the status, or the percentage of packets that were lost."""
    peer: str = ""
    """The address at the other end."""


_ADDRESS = re.compile(r"^\s*(?:address|IPv6address)_(\d{1,6})\s*=\s*([^\s#]+)", re.IGNORECASE)
_SERVER = re.compile(r"^\s*# on (\S.*?)\s*$")
_COMMAND = re.compile(r"hccn_tool\s+-i\s+(\d{1,6})\s+(-\w+.*?)\s*(?:#.*)?$")
_DETECT = re.compile(r"-netdetect\s+-s\s+address\s+(\S+)")
_PINGED = re.compile(r"-ping\s.*address\s+(\S+)")
_SAID = {
    Question.ADDRESS: re.compile(r"\bipaddr(?:ess)?\s*:\s*(\S+)"),
    Question.LINK: re.compile(r"\blink status\s*:\s*(\S+)"),
    Question.HEALTH: re.compile(r"\bnet health status\s*:\s*(\S.*?)\s*$"),
    Question.PING: re.compile(r"([\d.]+)%\s*packet loss"),
}


def answers_of_conf(text: str, server_id: str) -> list[CardAnswer]:
    r"""The addresses in a server's `/etc/hccn.conf`.

    >>> [a.text for a in answers_of_conf("address_0=192.1.27.6\nnetmask_0=255.255.255.0", "s")]
    ['192.1.27.6']
    """
    found = (_ADDRESS.match(line) for line in text.splitlines())
    return [
        CardAnswer(server_id, int(m[1]), Question.ADDRESS, m[2]) for m in found if m is not None
    ]


def answers_of_transcript(text: str, server_id: str | None) -> list[CardAnswer]:
    """What the commands in a transcript said.

    Args:
        text: commands, each with what it printed behind it.
        server_id: where they ran, up to the first line that says so.

    Raises:
        ClusterError: the text has no command, or nobody says on which server one ran.
    """
    detected: dict[tuple[str, int], str] = {}
    out: list[CardAnswer] = []
    commands = 0
    asked: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        section, command = _SERVER.match(line), _COMMAND.search(line)
        if section is not None:
            server_id, asked = section[1], None
        elif command is not None:
            if server_id is None:
                where = f"line {number} of the transcript"
                fix = "put a line '# on SERVER' in front, or give SERVER=FILE"
                raise ClusterError("nobody says on which server it ran", where, fix)
            commands += 1
            asked = int(command[1]), command[2]
            target = _DETECT.search(command[2])
            if target is not None:
                detected[server_id, asked[0]] = target[1]
        elif asked is not None and server_id is not None:
            peer = detected.get((server_id, asked[0]), "")
            out += _said(line, CardAnswer(server_id, asked[0], Question.LINK, asked[1], peer))
    if not commands:
        fix = "run the commands of planner topology hccn with bash -v, and pass what is printed"
        raise ClusterError("it has no command of hccn_tool", "the transcript", fix)
    return out


def _said(line: str, asked: CardAnswer) -> Iterator[CardAnswer]:
    """The answers in a line that a command printed; `text` is the command's."""
    for question, pattern in _SAID.items():
        found = pattern.search(line)
        if found is None:
            continue
        pinged = _PINGED.search(asked.text)
        peer = asked.peer if question is Question.HEALTH else ""
        if question is Question.PING and pinged is not None:
            peer = pinged[1]
        yield CardAnswer(asked.server_id, asked.device_id, question, shown(found[1]), peer)
