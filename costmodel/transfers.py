"""Time of messages between single devices, such as those that move weights to another layout.

Every message goes over the links of the outermost tier in which its two devices differ; in a torus
from neighbour to neighbour, the shorter way round, one dimension after the other from the inside
out (dimension-order routing; Dally and Seitz, "Deadlock-Free Message Routing in Multiprocessor
Interconnection Networks", IEEE Transactions on Computers C-36(5), 1987). Messages
are sent in rounds: in one a device sends at most one message and receives at most one. A round
lasts as long as its busiest link, port or shared uplink. No order of messages is faster than the
busiest of them with all messages together: that is the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from topology.cluster import Cluster, TierKind

Message: TypeAlias = tuple[int, int, float]
"""Sender, receiver, bytes."""
_Loads: TypeAlias = dict[tuple[str, int, int, int], float]
"""Bytes by what they go through: kind, tier, and up to two ends."""


@dataclass(frozen=True, slots=True)
class Round:
    """Messages that are sent at the same time."""

    messages: tuple[Message, ...]
    time_s: float


@dataclass(frozen=True, slots=True)
class TransferSchedule:
    """Rounds of messages, and how long all of them take."""

    rounds: tuple[Round, ...]
    bound_s: float
    """No order of these messages takes less."""

    @property
    def time_s(self) -> float:
        return math.fsum(each.time_s for each in self.rounds)


def scheduled(messages: Mapping[tuple[int, int], float], cluster: Cluster) -> TransferSchedule:
    """Rounds of messages over the links of a cluster, the largest messages first.

    Args:
        messages: bytes by sender and receiver; both are devices of the cluster.
        cluster: its tiers say what a message goes through.
    """
    waiting = sorted(((n, s, r) for (s, r), n in messages.items()), key=lambda m: (-m[0], *m[1:]))
    links = _Links(cluster)
    rounds: list[Round] = []
    while waiting:
        sending: set[int] = set()
        receiving: set[int] = set()
        chosen: list[Message] = []
        later = []
        for nbytes, sender, receiver in waiting:
            if sender in sending or receiver in receiving:
                later.append((nbytes, sender, receiver))
                continue
            sending.add(sender)
            receiving.add(receiver)
            chosen.append((sender, receiver, nbytes))
        waiting = later
        rounds.append(Round(tuple(chosen), links.time_s(chosen)))
    every = [(sender, receiver, nbytes) for (sender, receiver), nbytes in messages.items()]
    return TransferSchedule(tuple(rounds), links.time_s(every))


def tier_distance(cluster: Cluster, one: int, other: int) -> int:
    """How many tiers a message between two devices leaves: 0 to itself, 1 inside the innermost.

    >>> from topology.catalogue import named_cluster
    >>> tier_distance(named_cluster("atlas-800t-a2", 16), 0, 8)
    2
    """
    inner = 1
    for depth, tier in enumerate(reversed(cluster.tiers)):
        inner *= tier.size
        if one // inner == other // inner:
            return 0 if one == other else depth + 1
    return len(cluster.tiers) + 1


class _Links:
    """What messages go through."""

    def __init__(self, cluster: Cluster) -> None:
        self._tiers = cluster.tiers
        self._cluster = cluster
        sizes: Sequence[int] = [tier.size for tier in cluster.tiers]
        self._member = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]

    def time_s(self, messages: Iterable[Message]) -> float:
        """Seconds until the busiest capacity has passed everything on; 0 without messages."""
        loads: _Loads = {}
        latency_s = 0.0
        for sender, receiver, nbytes in messages:
            index = len(self._tiers) - tier_distance(self._cluster, sender, receiver)
            keys = list(self._keys(index, sender, receiver))
            hops = (self._tiers[key[1]].latency_s for key in keys if key[0] in {"link", "out"})
            latency_s = max(latency_s, math.fsum(hops))
            for key in keys:
                loads[key] = loads.get(key, 0.0) + nbytes
        busy_s = max((nbytes / self._capacity(key) for key, nbytes in loads.items()), default=0.0)
        return busy_s + latency_s

    def _keys(self, index: int, sender: int, receiver: int) -> Iterable[tuple[str, int, int, int]]:
        tier, member = self._tiers[index], self._member[index]
        if tier.kind is TierKind.TORUS:
            yield from self._hops(index, sender, receiver)
        elif tier.kind is TierKind.SWITCH:
            yield "out", index, sender, -1
            yield "in", index, -1, receiver
        else:
            yield "link", index, sender, receiver
        if tier.shared_capacity_bytes_per_s is not None:
            yield "shared out", index, sender // member, -1
            yield "shared in", index, -1, receiver // member

    def _hops(self, outer: int, sender: int, receiver: int) -> Iterable[tuple[str, int, int, int]]:
        """Links from neighbour to neighbour, through all dimensions of the torus."""
        inner = outer
        while inner + 1 < len(self._tiers) and self._tiers[inner + 1].kind is TierKind.TORUS:
            inner += 1
        here = sender
        for index in range(inner, outer - 1, -1):
            tier, member = self._tiers[index], self._member[index]
            place, goal = here // member % tier.size, receiver // member % tier.size
            forward = (goal - place) % tier.size
            back = tier.wrap and 2 * forward > tier.size
            step = -1 if back or (not tier.wrap and goal < place) else 1
            while place != goal:
                after = (place + step) % tier.size
                there = here + (after - place) * member
                yield "link", index, here, there
                here, place = there, after

    def _capacity(self, key: tuple[str, int, int, int]) -> float:
        tier = self._tiers[key[1]]
        shared = tier.shared_capacity_bytes_per_s
        if key[0].startswith("shared") and shared is not None:
            return shared
        return tier.bandwidth_bytes_per_s
