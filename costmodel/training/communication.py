"""Times of the collectives of a training step, for groups given by members inside and outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["Group", "Links", "group"]


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate: members that share a server, times servers."""

    inner: FloatArray
    outer: FloatArray


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


def group(table: RunTable, size: FloatArray, stride: FloatArray) -> Group:
    """The group of `size` ranks that are `stride` ranks apart, ranks numbered server by server."""
    inner = np.clip(np.floor(table.machine.server / stride), 1.0, size)
    return Group(inner, np.ceil(size / inner))


def _inside_bytes_per_s(table: RunTable, links: Links, inner: FloatArray) -> FloatArray:
    """What one of `inner` ranks in a server sends.

    Over its port, over a link of the mesh to each other, or around rings where no mesh joins all.
    """
    rates = table.machine
    ports = np.where(rates.mesh > 0, np.maximum(inner - 1.0, 1.0), 1.0)
    rate = np.where(inner > rates.meshed, rates.ring_bytes_per_s, rates.link_bytes_per_s * ports)
    return rate * links.link_efficiency


def all_gather_s(table: RunTable, links: Links, nbytes: FloatArray, members: Group) -> FloatArray:
    """Seconds of an all-gather with `nbytes` of output; a reduce-scatter takes as long.

    Inside a server a port carries (p - 1) / p n; a mesh does so over p - 1 links at once. Between
    servers every device sends its share over its own port. One follows the other, as in
    two-level algorithms. A ring through some devices of a server, but not all, leaves by a port
    that is beside none of them but the first (NVIDIA/nccl, issues 412 and 687).
    """
    rates, inner, outer = table.machine, members.inner, members.outer
    link = _inside_bytes_per_s(table, links, inner)
    port = rates.port_bytes_per_s * links.port_efficiency
    inside = (inner - 1.0) / inner * nbytes / link + (inner > 1) * rates.link_latency_s
    steps = np.ceil(np.log2(np.maximum(outer, 1.0)))
    some = (inner > 1) & (inner < rates.server)
    port = port * np.where(some, links.strided, 1.0)
    across = (outer - 1.0) / outer * nbytes / inner / port + steps * rates.port_latency_s
    return inside + across


def all_to_all_s(table: RunTable, links: Links, nbytes: FloatArray, members: Group) -> FloatArray:
    """Seconds of an exchange of `nbytes` held by every rank."""
    rates, inner, outer = table.machine, members.inner, members.outer
    size = inner * outer
    link = _inside_bytes_per_s(table, links, inner)
    port = rates.port_bytes_per_s * links.port_efficiency
    inside = (inner - 1.0) / size * nbytes / link + (inner > 1) * rates.link_latency_s
    across = (size - inner) / size * nbytes / port + (outer > 1) * rates.port_latency_s
    return inside + across


def dispatch_s(
    table: RunTable, links: Links, nbytes: FloatArray, members: Group, visits: FloatArray
) -> FloatArray:
    """Seconds to send tokens of `nbytes` to the devices of `visits` experts each, evenly spread.

    A token crosses once to each server that has one of its experts and there once to each such
    device, as in DeepEP and HybridEP; so do the sums of results on their way back.
    """
    rates, inner, outer = table.machine, members.inner, members.outer
    size = inner * outer
    link = _inside_bytes_per_s(table, links, inner)
    port = rates.port_bytes_per_s * links.port_efficiency
    devices = outer * (inner - 1.0) * (1.0 - (1.0 - 1.0 / size) ** visits)
    servers = (outer - 1.0) * (1.0 - (1.0 - 1.0 / outer) ** visits)
    inside = devices * nbytes / link + (inner > 1) * rates.link_latency_s
    return inside + servers * nbytes / port + (outer > 1) * rates.port_latency_s


def transfer_s(table: RunTable, links: Links, nbytes: FloatArray, stride: FloatArray) -> FloatArray:
    """Seconds to send `nbytes` to the stage `stride` ranks further on, in the mean of all ranks.

    Of a pipeline that is longer than a server, this share of the ranks sends to another server.
    """
    rates = table.machine
    longer = stride * table.pp > rates.server
    across = np.where(longer, np.minimum(stride / rates.server, 1.0), 0.0)
    inside = nbytes / (rates.link_bytes_per_s * links.link_efficiency) + rates.link_latency_s
    outside = nbytes / (rates.port_bytes_per_s * links.port_efficiency) + rates.port_latency_s
    return (1.0 - across) * inside + across * outside
