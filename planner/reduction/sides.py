"""The edges of every node, and work on many nodes in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.network import FloatArray, IntArray, Network, offsets, runs, summed

BATCH = 1_000_000
"""Numbers that are worked on in one go; they stay in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Ends of edges, node by node."""

    first: IntArray
    """Where those of each node start, shape (N + 1,)."""
    edge: IntArray
    end: IntArray
    """0 where the candidates of the node are the rows of the edge's matrix, 1 for columns."""
    partners: IntArray
    """Candidates at the other end."""
    partners_of_node: IntArray
    """Candidates at the other ends of all edges of each node, shape (N,)."""

    def of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """All sides of some nodes: for each the place of its node in `nodes`, and its number."""
        degree = self.first[nodes + 1] - self.first[nodes]
        return np.repeat(np.arange(len(nodes)), degree), runs(self.first[nodes], degree)


def sides_of(net: Network) -> Sides:
    """The sides of a network's edges."""
    ends = net.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    edge, end = order % max(len(net.edges), 1), order // max(len(net.edges), 1)
    partners = net.sizes[net.edges[edge, 1 - end]]
    total = summed(ends[order], partners.astype(np.float64), net.nodes)
    return Sides(
        first=offsets(np.bincount(ends, minlength=net.nodes)),
        edge=edge,
        end=end,
        partners=partners,
        partners_of_node=total.astype(np.int64),
    )


def batches(weight: IntArray, limit: int) -> Iterator[slice]:
    """Stretches whose weights add up to no more than the limit, or of one that is heavier."""
    total = offsets(weight)
    start = 0
    while start < len(weight):
        end = int(np.searchsorted(total, total[start] + limit, side="right")) - 1
        end = max(end, start + 1)
        yield slice(start, end)
        start = end


def tables_of(
    net: Network, sides: Sides, size: IntArray, side: IntArray, squares: int = 0
) -> Iterator[tuple[IntArray, int, FloatArray]]:
    """The matrices of many sides, those of one shape together, some at a time.

    Args:
        net: the network.
        sides: the ends of its edges.
        size: candidates of the node of each side.
        side: numbers of the sides.
        squares: how many tables over pairs of candidates of a node will be needed for each.

    Yields:
        Places in `side`, ascending; candidates K of their nodes; costs by candidate and partner,
        shape (places, K, partners).
    """
    kinds = np.stack([size, sides.partners[side], sides.end[side]], axis=1)
    shapes, shape_of = np.unique(kinds, axis=0, return_inverse=True)
    order = np.argsort(shape_of, kind="stable")
    starts = offsets(np.bincount(shape_of, minlength=len(shapes)))
    for shape, (own, partners, end) in enumerate(shapes.tolist()):
        members = order[starts[shape] : starts[shape + 1]]
        weight = own * (squares * own + 3 * partners)
        for batch in batches(np.full(len(members), weight), BATCH):
            here = members[batch]
            first = net.edge_first[sides.edge[side[here]]]
            found = net.edge_cost[first[:, None] + np.arange(own * partners)]
            rows = found.reshape(-1, partners, own) if end else found.reshape(-1, own, partners)
            yield here, own, rows.transpose(0, 2, 1) if end else rows
