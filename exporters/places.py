"""Where the ranks of a plan run: servers, cards of each, and the order of the ranks."""

from __future__ import annotations

from dataclasses import dataclass

from ir.plan import Plan
from topology.cluster import Cluster

__all__ = ["Places", "places_of"]


@dataclass(frozen=True, slots=True)
class Places:
    """The devices of a job."""

    chip: str
    servers: int
    cards: int
    """Of each server."""
    rank_order: tuple[int, ...]
    """The device of each rank; devices are counted server by server."""
    memory_bytes: int
    """Of each device; 0 if it is not known."""
    reserved_bytes: int
    """What the runtime keeps of it."""
    card_ids: tuple[tuple[int, ...], ...] = ()
    """For each server the ids of its cards; empty where they count from 0."""

    @property
    def is_server_by_server(self) -> bool:
        """Whether the first ranks are those of one server, the next those of another, and so on,
        with the same order of cards in each.
        """
        return all(
            device // self.cards == rank // self.cards
            and device % self.cards == self.rank_order[rank % self.cards] % self.cards
            and self.id_of(device) == self.id_of(device % self.cards)
            for rank, device in enumerate(self.rank_order)
        )

    @property
    def card_order(self) -> tuple[int, ...]:
        """The card of each rank of a server, where `is_server_by_server`."""
        return tuple(self.id_of(device % self.cards) for device in self.rank_order[: self.cards])

    def id_of(self, device: int) -> int:
        """The id of a device in its server."""
        server, place = divmod(device, self.cards)
        return self.card_ids[server][place] if self.card_ids else place

    def in_server(self, server: int) -> tuple[tuple[int, int], ...]:
        """Rank and id of every card of a server, in the order of the cards."""
        rank_of = {device: rank for rank, device in enumerate(self.rank_order)}
        devices = range(server * self.cards, (server + 1) * self.cards)
        return tuple((rank_of[device], self.id_of(device)) for device in devices)


def places_of(plan: Plan) -> Places:
    """The places of a plan.

    Raises:
        ClusterError: the plan's machine is no record of one.
    """
    cluster = Cluster.from_dict(plan.cluster)
    return Places(
        chip=cluster.chip.name,
        servers=cluster.servers,
        cards=cluster.devices // cluster.servers,
        rank_order=plan.rank_order,
        memory_bytes=cluster.chip.memory_bytes,
        reserved_bytes=cluster.reserved_memory_bytes,
    )
