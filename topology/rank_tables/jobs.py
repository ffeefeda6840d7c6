"""What cards a job may have, and what cards a communication group inside it: two kinds of rule.

A job is what a rank table describes; its rules are those of the scheduler and of MindSpore's start
(device_num is 1, 2, 4 or a multiple of 8). A communication group is any set of ranks that a plan
makes inside a job; its rules are those of MindSpore's group creation on 910A
(`reference/mindspore.md` §5, from device_manager.cc): the same local cards on every server, and on
each server 1 or 8, a pair in one ring or at distance 4, four cards that are a ring or two such
pairs. So data-parallel pairs (i, i+4) are legal groups, though no job may have those two cards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from topology.rank_tables.products import Product
from topology.rank_tables.rules_products import CARDS_OF_ONE_SERVER, RING

__all__ = ["JobServer", "job_faults"]

_SERVER = 8
"""Cards of a server, as MindSpore counts them (NODE_PER_SERVER)."""


@dataclass(frozen=True, slots=True)
class JobServer:
    """The cards of one server that a job takes."""

    server_id: str
    devices: tuple[int, ...]
    """Device ids."""

    switch: str | None = None
    """The leaf switch of the server; None if it is not known."""


def job_faults(product: Product, servers: Sequence[JobServer]) -> tuple[str, ...]:
    """Why a job may not have these cards; empty if it may.

    Args:
        product: 910B servers take any cards, 910C servers one die or whole packages of two.
        servers: in the order of their ranks.
    """
    faults = []
    for server in servers:
        if not server.devices or len(set(server.devices)) != len(server.devices):
            faults.append(
                f"server {server.server_id}: {len(server.devices)} cards, not all distinct"
            )
        elif not 0 <= min(server.devices) <= max(server.devices) <= product.largest_device_id:
            faults.append(f"server {server.server_id}: cards are 0 to {product.largest_device_id}")
    if faults or not servers:
        return tuple(faults) or ("no cards",)
    if product is Product.A1:
        return (*_first_generation(servers), *_network(servers))
    if product is Product.A3:
        return tuple(_packages(servers))
    return ()


def _first_generation(servers: Sequence[JobServer]) -> list[str]:
    if len(servers) > 1:
        return [
            f"server {each.server_id}: {len(each.devices)} cards; on several servers a job takes 8"
            " of each"
            for each in servers
            if len(each.devices) != _SERVER
        ]
    cards = servers[0].devices
    if len(cards) not in CARDS_OF_ONE_SERVER:
        return [f"{len(cards)} cards; a job takes 1, 2, 4 or 8 of a server"]
    if len(cards) in {2, RING} and len({card // RING for card in cards}) > 1:
        return [f"cards {sorted(cards)} lie in both rings; take them from 0-3 or from 4-7"]
    return []


def _network(servers: Sequence[JobServer]) -> list[str]:
    faults = []
    switches = sorted({each.switch for each in servers if each.switch is not None})
    if len(switches) > 1:
        faults.append(f"the servers are on different switches: {', '.join(switches)}")
    for before, after in pairwise(servers):
        if before.server_id >= after.server_id:
            faults.append(
                f"server {after.server_id} has later ranks than {before.server_id}, but its id "
                "does not come later as a string"
            )
    return faults


def _packages(servers: Sequence[JobServer]) -> list[str]:
    if sum(len(each.devices) for each in servers) == 1:
        return []
    return [
        f"server {each.server_id}: cards {sorted(each.devices)} are not whole packages (2i, 2i+1)"
        for each in servers
        if any(card ^ 1 not in each.devices for card in each.devices)
    ]
