"""The order in which a machine counts the cards of a job."""

from collections.abc import Sequence
from itertools import count

from topology.rank_tables.products import Product
from topology.rank_tables.records import Device, RankTable, Server
from topology.rank_tables.rules_products import MODULE, RING

__all__ = ["by_first_rank", "in_place_order", "rank_of", "renumbered", "reordered"]


def rank_of(device: Device) -> int:
    """The rank of a card, -1 if it has none."""
    return -1 if device.rank is None else device.rank


def by_first_rank(table: RankTable) -> list[Server]:
    """The servers in the order in which the ranks come to them."""
    return sorted(table.servers, key=lambda server: min(map(rank_of, server.devices), default=-1))


def in_place_order(server: Server, product: Product) -> list[Device]:
    """The cards of a server, ring by ring, or module by module on a Box16.

    In a full mesh or on a switch all places are equal, so the ranks ascend. The cards of the second
    ring or module stand like their partners in the first, with which links join them.
    """
    devices = sorted(server.devices, key=rank_of)
    size = {Product.A1: RING, Product.A2: MODULE}.get(product)
    if size is None or len({(device.device_id or 0) // size for device in devices}) <= 1:
        return devices
    first = (devices[0].device_id or 0) // size
    front = [device for device in devices if (device.device_id or 0) // size == first]
    at = {(device.device_id or 0) % size: place for place, device in enumerate(front)}
    back = [device for device in devices if (device.device_id or 0) // size != first]
    back.sort(key=lambda device: at.get((device.device_id or 0) % size, size))
    return [*front, *back]


def reordered(table: RankTable, order: Sequence[int]) -> RankTable:
    """The same cards with other ranks: the card that had the rank `order[r]` gets the rank r.

    Args:
        table: a valid table.
        order: each of its ranks once.
    """
    number = {before: rank for rank, before in enumerate(order)}
    return table.ranked(lambda device: number[rank_of(device)])


def renumbered(table: RankTable, product: Product) -> RankTable:
    """The same cards with ranks that count servers first, then rings, then cards.

    Servers keep the order of their first ranks, and cards inside a ring that of theirs.
    """
    ranks = count()
    number = {
        id(device): next(ranks)
        for server in by_first_rank(table)
        for device in in_place_order(server, product)
    }
    return table.ranked(lambda device: number[id(device)])
