"""Networks with fewer candidates, of which some were shown to be in no better answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.network import BoolArray, IntArray, Network, offsets, runs


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """A network with fewer candidates."""

    network: Network
    """Its edges do not share matrices."""
    original: IntArray
    """For each of its candidates the number that it had among those of its node."""

    def widened(self, choice: IntArray) -> IntArray:
        """The choice of the whole network that a choice of this one means."""
        found: IntArray = self.original[self.network.first[:-1] + choice]
        return found

    def narrowed(self, choice: IntArray, kept: BoolArray, whole: Network) -> IntArray:
        """The choice here that a choice of the whole means, all of whose candidates were kept."""
        before = np.concatenate([[0], np.cumsum(kept)])
        starts = whole.first[:-1]
        found: IntArray = before[starts + choice] - before[starts]
        return found


def without(net: Network, kept: BoolArray) -> Narrowed:
    """The network without some candidates.

    Args:
        net: the network; edges may share matrices.
        kept: for each candidate whether it stays; of each node at least one does.
    """
    size = np.add.reduceat(kept, net.first[:-1], dtype=np.int64)
    first = offsets(size)
    original = np.flatnonzero(kept) - np.repeat(net.first[:-1], size)
    spans = runs(first[net.span_node], size[net.span_node])
    span_start = np.repeat(net.span_first[:-1], size[net.span_node])
    u, v = net.edges[:, 0], net.edges[:, 1]
    pair_u, pair_v = u[net.pair_edge], v[net.pair_edge]
    narrow = replace(
        net,
        first=first,
        cost=net.cost[kept],
        edge_first=offsets(size[u] * size[v]),
        edge_cost=net.edge_cost[_entries(net, first, original, u, v, net.edge_first[:-1])],
        span_first=offsets(size[net.span_node]),
        usage=net.usage[span_start + original[spans]],
        pair_first=offsets(size[pair_u] * size[pair_v])[:-1],
        pair_usage=net.pair_usage[_entries(net, first, original, pair_u, pair_v, net.pair_first)],
    )
    return Narrowed(narrow, original)


def _entries(
    net: Network, first: IntArray, original: IntArray, u: IntArray, v: IntArray, starts: IntArray
) -> IntArray:
    """Where the entries that stay of matrices over nodes `u` and `v` are now."""
    size = np.diff(first)
    rows, columns = size[u], size[v]
    row = original[runs(first[u], rows)] * np.repeat(net.sizes[v], rows) + np.repeat(starts, rows)
    per_row = np.repeat(columns, rows)
    column = original[runs(np.repeat(first[v], rows), per_row)]
    entries: IntArray = np.repeat(row, per_row) + column
    return entries
