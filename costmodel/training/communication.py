"""The groups of conventional layouts and the links of their machines; times of collectives are
those of `costmodel.collectives`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from costmodel.collectives.two_levels import TwoLevelGroup as Group
from costmodel.collectives.two_levels import TwoLevels
from costmodel.collectives.visits import Routing

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["Group", "Links", "all_gather_s", "all_to_all_s", "dispatch_s", "group", "transfer_s"]


@dataclass(frozen=True, slots=True)
class Links:
    """What the links of the machines deliver to training frameworks."""

    link_efficiency: FloatArray
    """Share of the nominal rate inside a server."""

    port_efficiency: FloatArray
    """Share of the nominal rate between servers."""

    strided: FloatArray
    """Share of that for groups of some devices of each server, but not all."""

    @classmethod
    def of(cls, constants: StepConstants) -> Self:
        """The links as one set of constants has them."""
        rates = (constants.link, constants.port, constants.strided)
        return cls(*(np.asarray(rate) for rate in rates))

    def on(self, table: RunTable) -> TwoLevels:
        """The machines of some runs as their collectives see them."""
        rates = table.machine
        return TwoLevels(
            rates.mesh,
            rates.link_bytes_per_s * self.link_efficiency,
            rates.link_latency_s,
            rates.port_bytes_per_s * self.port_efficiency,
            rates.port_latency_s,
            rates.server,
            rates.meshed,
            rates.ring_bytes_per_s * self.link_efficiency,
            self.strided,
        )


def group(table: RunTable, size: FloatArray, stride: FloatArray) -> Group:
    """The group of `size` ranks that are `stride` ranks apart, ranks numbered server by server."""
    inner = np.clip(np.floor(table.machine.server / stride), 1.0, size)
    return Group(inner, np.ceil(size / inner))


def all_gather_s(table: RunTable, links: Links, nbytes: FloatArray, members: Group) -> FloatArray:
    """Seconds of an all-gather with `nbytes` of output; a reduce-scatter takes as long."""
    return links.on(table).all_gather_s(nbytes, members)


def all_to_all_s(table: RunTable, links: Links, nbytes: FloatArray, members: Group) -> FloatArray:
    """Seconds of an exchange of `nbytes` held by every rank."""
    return links.on(table).all_to_all_s(nbytes, members)


def dispatch_s(table: RunTable, links: Links, nbytes: FloatArray, members: Group) -> FloatArray:
    """Seconds to send tokens of `nbytes` to the devices of their experts, once to each."""
    routing = Routing(
        table.experts, table.experts_per_token, table.expert_groups, table.groups_per_token
    )
    return links.on(table).dispatch_s(nbytes, members, routing)


def transfer_s(table: RunTable, links: Links, nbytes: FloatArray, stride: FloatArray) -> FloatArray:
    """Seconds to send `nbytes` to the stage `stride` ranks further on, in the mean of all ranks.

    Of a pipeline that is longer than a server, this share of the ranks sends to another server.
    """
    rates, levels = table.machine, links.on(table)
    longer = stride * table.pp > rates.server
    across = np.where(longer, np.minimum(stride / rates.server, 1.0), 0.0)
    inside, outside = (levels.send_s(nbytes, np.asarray(near)) for near in (True, False))
    return (1.0 - across) * inside + across * outside
