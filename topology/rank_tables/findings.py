"""What a check finds, by code."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.errors import Violation

__all__ = ["CODES", "Findings", "is_error"]

CODES: Mapping[str, str] = {
    "E_JSON": "the text is strict JSON, one object, of bearable size",
    "E_VERSION": "the version is a published one, and the table has its form",
    "E_STATUS": "the status is `completed`",
    "E_FIELD": "a field has the type and the value that the version asks for",
    "E_EMPTY": "lists of servers, cards and super pods are not empty",
    "E_SERVER_COUNT": "the counts of servers agree with the lists",
    "E_GROUP_COUNT": "group_count, instance_count and device_count agree with the lists",
    "E_SERVER_ID_DUP": "server ids are unique",
    "E_SERVER_ID_LEN": "server ids have 1 to 64 characters",
    "E_RANK_FORMAT": "rank ids are decimal numbers",
    "E_RANK_SET": "the ranks are 0 to N-1, each once",
    "E_RANK_INTERLEAVED": "the ranks of two servers do not interleave",
    "E_SERVER_ORDER": "ranks follow the order of the server ids as strings",
    "E_DEVICE_ID_RANGE": "device ids are decimal numbers within the server",
    "E_DEVICE_ID_DUP": "device ids are unique in a server",
    "E_IP_FORMAT": "addresses are IPv4 or IPv6",
    "E_IP_DUP": "device addresses are unique in the table",
    "E_IP_FAMILY": "device addresses are all IPv4 or all IPv6",
    "E_IP_MISSING": "on several servers every card has an address",
    "E_IP_COUNT": "every card has the same number of addresses",
    "E_PORT": "ports are decimal numbers from 1 to 65535",
    "E_DEVICE_COUNT": "a server takes part with 1, 2, 4 or 8 cards",
    "E_RING_CROSS": "2 or 4 cards of a server lie in one ring, 0-3 or 4-7",
    "E_UNEQUAL": "every server takes part with as many cards",
    "E_SEGMENT": "cards i and i+4 share a network segment, others do not",
    "E_RAIL": "cards of the same position share a segment on all servers",
    "E_BOX16": "the two modules of a 16-card server take part with the same positions",
    "E_SDID": "super_device_id is a decimal number",
    "E_SDID_DUP": "super_device_id is unique in its super pod",
    "E_POD_ID": "super pod ids have 1 to 64 characters",
    "E_POD_ID_DUP": "super pod ids are unique",
    "E_POD_SERVER": "super pods name servers of the table",
    "E_POD_COVER": "every server is in exactly one super pod",
    "E_POD_INTERLEAVED": "the servers of a super pod stand together in server_list",
    "E_BACKUP_IP": "a backup address is one of the other die of the package",
    "E_BACKUP_PORT": "a backup port differs from the port of the other die",
    "E_CLUSTER_ID_DUP": "cluster ids are unique",
    "E_CLUSTER_SERVER": "clusters name servers of the table",
    "E_CLUSTER_COVER": "every server is in exactly one cluster",
    "E_LOCAL_ID": "local ids are numbers from 0 to 64, unique in a server",
    "E_LEVEL": "network layers ascend from 0, each with instance, type and addresses",
    "E_ANSWER_IP": "the address of a card is what its server says",
    "E_LINK_DOWN": "the links of the cards are up",
    "E_NET_HEALTH": "cards reach their peers: net health is Success",
    "E_PING": "peers answer",
    "W_NO_SERVER_COUNT": "server_count is given",
    "W_UNEQUAL": "servers with unequal numbers of cards form one flat ring: slower",
    "W_POW2_SERVERS": "a power of two of servers is fastest",
    "W_PORT_RESERVED": "ports below 1024 are reserved",
    "W_BACKUP_IP": "a backup address that no card of the table has cannot be checked",
    "W_IP_MASKED": "addresses are whole; one with x or * in it is hidden, and HCCL refuses it",
    "W_ANSWER_SERVER": "answers are of servers of the table",
    "W_ANSWER_MISSING": "a server that tells addresses tells those of all its cards",
    "W_NET_HEALTH": "net health was found out",
    "W_PING": "no packet is lost on the way to a peer",
    "W_POD_VERSION": "super pods are read only from tables of version 1.2",
}
"""Every code with what holds if it is absent. `E_` rejects the table, `W_` does not."""

MOST_PER_CODE = 100
"""More findings of one code are counted, not kept."""


def is_error(code: str) -> bool:
    """Whether a table is rejected for this code."""
    return code.startswith("E_")


@dataclass(slots=True)
class Findings:
    """Collects what is found, in order; of each code the first hundred."""

    kept: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, code: str, where: str, message: str) -> None:
        """Note that a rule is broken."""
        if code not in CODES:
            raise KeyError(code)
        self.counts[code] += 1
        if self.counts[code] <= MOST_PER_CODE:
            self.kept.append(Violation(code, where, message))

    def of(self, *, errors: bool) -> tuple[Violation, ...]:
        """Errors or warnings, with a last line for each code that has more than are kept."""
        found = [each for each in self.kept if is_error(each.code) is errors]
        for code, count in self.counts.items():
            if count > MOST_PER_CODE and is_error(code) is errors:
                more = f"and {count - MOST_PER_CODE} more of this kind"
                found.append(Violation(code, "the table", more))
        return tuple(found)
