"""Commands that check the network ports of a job's cards, with the maker's `hccn_tool`."""

from collections.abc import Iterator
from dataclasses import dataclass

from topology.rank_tables.addresses import Address, parsed
from topology.rank_tables.records import Device, RankTable
from topology.rank_tables.rules_common import in_order

__all__ = ["LinkCheck", "link_checks"]


@dataclass(frozen=True, slots=True)
class LinkCheck:
    """One command, to be run on one server."""

    server_id: str
    """Where to run it."""

    device_id: int
    """Of the card that it checks."""

    command: str

    peer_server_id: str | None = None
    """The server of the other end; None if only the card itself is checked."""


def link_checks(table: RankTable, *, next_only: bool = False) -> Iterator[LinkCheck]:
    """For every card its own port, then its way to its peers.

    The peers of a card are the cards of the same position on the other servers: those it exchanges
    data with across servers. `netdetect` names the peer, `net_health` then tells whether it
    answers, `ping` tells how well.

    Args:
        table: the job.
        next_only: only the peer on the next server, in the order of their ids: n checks of each
            position instead of n(n-1).
    """
    rails: dict[int, list[tuple[str, Address]]] = {}
    servers = in_order(table)
    for server in servers:
        for device in server.devices:
            address = _address(device)
            if device.device_id is not None and address is not None:
                rails.setdefault(device.device_id, []).append((server.server_id, address))
    for server in servers:
        for device in server.devices:
            if device.device_id is None:
                continue
            own, number = server.server_id, device.device_id
            yield LinkCheck(own, number, f"hccn_tool -i {number} -ip -g")
            yield LinkCheck(own, number, f"hccn_tool -i {number} -link -g")
            if _address(device) is not None:
                for peer, address in _peers(own, rails[number], next_only=next_only):
                    for command in _commands(number, address):
                        yield LinkCheck(own, number, command, peer)


def _address(device: Device) -> Address | None:
    """The first address; only what can be one goes into a command."""
    return parsed(device.ips[0]) if device.ips else None


def _peers(
    own: str, rail: list[tuple[str, Address]], *, next_only: bool
) -> list[tuple[str, Address]]:
    at = next(i for i, (server, _) in enumerate(rail) if server == own)
    others = [each for each in (*rail[at + 1 :], *rail[:at]) if each[0] != own]
    return others[:1] if next_only else others


def _commands(number: int, address: Address) -> tuple[str, ...]:
    if address.version == 6:
        return (f"hccn_tool -i {number} -ping -inet6 -g ipv6_address {address}",)
    return (
        f"hccn_tool -i {number} -netdetect -s address {address}",
        f"hccn_tool -i {number} -net_health -g",
        f"hccn_tool -i {number} -ping -g address {address}",
    )
