"""Groups inside servers and across them, many at once: closed forms on columns of equal length.

Inside a server every rank sends to all others at once (`mesh` of `algorithms`), over a link for
each or over one port; around rings where no mesh joins them all. Servers are joined by a switch
(`overlapped`). One level follows the other, as in `hierarchy.composed`.

All arrays are of shape (N,), or () where all groups share a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.curves import FloatArray
from costmodel.collectives.shares import doublings, others
from costmodel.collectives.visits import Routing

__all__ = ["TwoLevelGroup", "TwoLevels"]


@dataclass(frozen=True, slots=True)
class TwoLevelGroup:
    """Ranks that communicate; whole numbers of 1 or more."""

    inner: FloatArray
    """Members that share a server."""

    outer: FloatArray
    """Servers."""

    size: FloatArray | float = 1.0
    """Members, which need not be as many on every server."""

    stride: FloatArray | float = 1.0
    """Between two of them that are next to each other, ranks numbered server by server."""


@dataclass(frozen=True, slots=True)
class TwoLevels:
    """What devices have to communicate with: rates as they are reached, in one direction."""

    mesh: FloatArray
    """Above 0 where every pair of a server has a link of its own, else every device one port."""

    link_bytes_per_s: FloatArray
    """Of one link, or of one port, inside a server."""

    link_latency_s: FloatArray

    port_bytes_per_s: FloatArray
    """Of one device, between servers."""

    port_latency_s: FloatArray

    meshed: FloatArray | float = np.inf
    """Devices of a server that one mesh joins."""

    ring_bytes_per_s: FloatArray | float = 0.0
    """Of one device where a group has more devices of a server than a mesh joins."""

    def all_gather_s(self, nbytes: FloatArray, group: TwoLevelGroup) -> FloatArray:
        """Seconds of an all-gather with `nbytes` of output; a reduce-scatter takes as long.

        a + (p - 1) / p n b inside p ranks; ceil(log2 q) a + (q - 1) / q n / p b across q servers.
        """
        inside = others(group.inner) * nbytes / self._fan_bytes_per_s(group)
        inside = inside + (group.inner > 1) * self.link_latency_s
        across = others(group.outer) * nbytes / group.inner / self.port_bytes_per_s
        return inside + (across + doublings(group.outer) * self.port_latency_s)

    def summed_s(
        self, nbytes: FloatArray, group: TwoLevelGroup, split: FloatArray | NDArray[np.bool_]
    ) -> FloatArray:
        """Seconds to add up `nbytes` of every rank so that all have the sum: a reduce-scatter and
        an all-gather, whether or not parts are used in between (`split`).
        """
        del split
        return 2.0 * self.all_gather_s(nbytes, group)

    def all_to_all_s(self, nbytes: FloatArray, group: TwoLevelGroup) -> FloatArray:
        """Seconds of an exchange of `nbytes` held by every rank, each straight to its target.

        Of the n bytes (p - 1) / (p q) stay inside, (q - 1) / q leave the server.
        """
        size = group.inner * group.outer
        inside = (group.inner - 1.0) / size * nbytes / self._fan_bytes_per_s(group)
        inside = inside + (group.inner > 1) * self.link_latency_s
        across = (size - group.inner) / size * nbytes / self.port_bytes_per_s
        return inside + (across + (group.outer > 1) * self.port_latency_s)

    def dispatch_s(self, nbytes: FloatArray, group: TwoLevelGroup, routing: Routing) -> FloatArray:
        """Seconds to send tokens of `nbytes` to the devices of their experts.

        A token crosses once to each server that has one of its experts and there once to each such
        device, as in DeepEP and HybridEP; so do the sums of results on their way back. Of the
        servers it visits one in q is its own, of the devices one in p of a server is where it
        lands.
        """
        devices = others(group.inner) * routing.places(group.inner * group.outer)
        servers = others(group.outer) * routing.places(group.outer)
        inside = devices * nbytes / self._fan_bytes_per_s(group)
        inside = inside + (group.inner > 1) * self.link_latency_s
        across = servers * nbytes / self.port_bytes_per_s
        return inside + (across + (group.outer > 1) * self.port_latency_s)

    def send_s(self, nbytes: FloatArray, near: NDArray[np.bool_]) -> FloatArray:
        """Seconds to send `nbytes` to one rank.

        Args:
            nbytes: to send.
            near: whether it shares the server.
        """
        rate = np.where(near, self.link_bytes_per_s, self.port_bytes_per_s)
        return nbytes / rate + np.where(near, self.link_latency_s, self.port_latency_s)

    def _fan_bytes_per_s(self, group: TwoLevelGroup) -> FloatArray:
        """Rate at which a device sends to all others of its server at once."""
        links = np.where(self.mesh > 0, np.maximum(group.inner - 1.0, 1.0), 1.0)
        rate = self.link_bytes_per_s * links
        return np.where(group.inner > self.meshed, self.ring_bytes_per_s, rate)
