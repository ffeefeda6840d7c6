"""Messages of conventional layouts by the curves that plans have: those of the machine's library.

A message has the curve of its group of ranks (`collectives.model`), on links as fast as the run or
a user's calibration says. What software adds to that is a constant of its profile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from costmodel.collectives.curves import CurveTable
from costmodel.collectives.kinds import Collective
from costmodel.collectives.strided_groups import Group, strided_curve
from costmodel.training.distinct import distinct_rows
from costmodel.training.wiring import wiring_of
from topology.catalogue import named_machine
from topology.machine_names import known_machines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from costmodel.collectives.curves import Curve, FloatArray
    from costmodel.collectives.visits import Routing
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import RunTable
    from costmodel.training.wiring import Wiring
    from topology.cluster import Cluster, Tier

__all__ = ["Group", "Links", "links_of"]

_KEPT = 1 << 14
"""Curves that are kept: of some machines, at some rates, for the groups of a search."""


@dataclass(frozen=True, slots=True)
class Links:
    """What the devices of some runs have to communicate with; arrays of shape (N,) or ()."""

    number: FloatArray
    """Of the machine, in `known_machines()`."""

    server: FloatArray
    """Devices that the inner network joins."""

    link_bytes_per_s: FloatArray
    """Of one device inside its server, of a mesh one link, as its maker states them."""

    port_bytes_per_s: FloatArray
    """Share of one device of the ports between servers, as their maker states them."""

    def all_gather_s(self, nbytes: FloatArray, group: Group) -> FloatArray:
        """Seconds of an all-gather with `nbytes` of output."""
        return self.bucketed_s(Collective.ALL_GATHER, nbytes, group)

    def summed_s(
        self, nbytes: FloatArray, group: Group, split: FloatArray | NDArray[np.bool_]
    ) -> FloatArray:
        """Seconds to add up `nbytes` of every rank so that all have the sum, in between in parts
        where `split`: an all-reduce, or a reduce-scatter and an all-gather.
        """
        parted = np.asarray(split, dtype=np.bool_)
        scatter, gather, whole = (
            self.bucketed_s(kind, nbytes, group) if np.any(wanted) else np.asarray(0.0)
            for kind, wanted in (
                (Collective.REDUCE_SCATTER, parted), (Collective.ALL_GATHER, parted),
                (Collective.ALL_REDUCE, ~parted),
            )
        )  # fmt: skip
        return np.where(parted, scatter + gather, whole)

    def all_to_all_s(self, nbytes: FloatArray, group: Group) -> FloatArray:
        """Seconds of an exchange of `nbytes` held by every rank, each straight to its target."""
        return self.bucketed_s(Collective.ALL_TO_ALL, nbytes, group)

    def dispatch_s(self, nbytes: FloatArray, group: Group, routing: Routing) -> FloatArray:
        """Seconds to send tokens of `nbytes` to the devices of their experts.

        A token crosses once to each server that has one of its experts and there once to each such
        device, as in DeepEP and HybridEP; so do the sums of results on their way back. Of the
        servers it visits one in q is its own, of the devices one in p of a server is where it
        lands.
        """
        inner = np.clip(np.floor(self.server / group.stride), 1.0, group.size)
        outer = np.ceil(group.size / inner)
        devices, servers = (routing.places(count) * nbytes for count in (inner * outer, outer))
        inside = self.all_to_all_s(devices, Group(inner, group.stride))
        across = Group(outer, np.maximum(group.stride, self.server))
        return inside + self.all_to_all_s(servers, across)

    def send_s(self, nbytes: FloatArray, near: NDArray[np.bool_]) -> FloatArray:
        """Seconds to send `nbytes` to one rank, inside the server where it is `near`."""
        pair = Group(np.asarray(2.0), np.where(near, 1.0, self.server))
        return self.bucketed_s(Collective.POINT_TO_POINT, nbytes, pair)

    def bucketed_s(
        self, kind: Collective, nbytes: FloatArray, group: Group, share: FloatArray | float = 1.0
    ) -> FloatArray:
        """Seconds of a collective of `nbytes` that are so much of a bucket (`Curve.time_s`)."""
        wired = self.number, self.server, self.link_bytes_per_s, self.port_bytes_per_s
        columns = np.broadcast_arrays(*wired, group.size, group.stride, share, nbytes)
        *keys, share, sent = (np.asarray(each, dtype=np.float64).ravel() for each in columns)
        first, rows = distinct_rows(*keys)
        curves = [_curve(kind, *(float(key[row]) for key in keys)) for row in first]
        return CurveTable.of(curves).time_s(rows, sent, share).reshape(columns[0].shape)


def links_of(table: RunTable, c: StepConstants) -> Links:
    """The links of the machines of some runs."""
    rates = table.machine
    link, port = rates.link_bytes_per_s * c.link, rates.port_bytes_per_s * c.port
    return Links(rates.number, rates.server, link, port)


@lru_cache(_KEPT)
def _curve(
    kind: Collective, number: float, server: float, link: float, port: float, size: float,
    stride: float,
) -> Curve:  # fmt: skip
    name = tuple(known_machines())[int(number)]
    servers = -(-int(size) * int(stride) // int(server))
    usual = _wiring(name)
    faster = link / usual.link_bytes_per_s, port / usual.port_bytes_per_s
    cluster = _cluster(name, servers, int(server))
    return strided_curve(_scaled(cluster, int(server), *faster), kind, int(size), int(stride))


@cache
def _wiring(name: str) -> Wiring:
    """As the files of the package have it."""
    return wiring_of(named_machine(known_machines()[name].cluster))


@cache
def _cluster(name: str, servers: int, joined: int) -> Cluster:
    """So many servers, in each of which so many devices are joined."""
    found, own = named_machine(known_machines()[name].cluster), _wiring(name).server
    cluster = found.cluster(servers * own)
    if joined >= own:
        return cluster
    between = cluster.tiers[: len(cluster.tiers) - len(found.cluster(own).tiers)]
    return replace(cluster, tiers=(*between, *found.cluster(joined).tiers))


def _scaled(cluster: Cluster, joined: int, link: float, port: float) -> Cluster:
    """The same with so many times the rate of links inside servers, and of ports between them."""
    tiers: list[Tier] = []
    inside = 1
    for tier in reversed(cluster.tiers):
        inside *= tier.size
        tiers.insert(0, tier.scaled(link if inside <= joined else port))
    return replace(cluster, tiers=tuple(tiers))
