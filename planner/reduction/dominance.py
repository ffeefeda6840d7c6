"""Candidates that another one of the same node replaces in every answer: no dearer whatever the
neighbours are, and at no time with more memory.
"""

from __future__ import annotations

import numpy as np

from planner.network import FORBIDDEN, BoolArray, FloatArray, IntArray, Network, offsets
from planner.reduction.state import State, without_candidates

_MAX_ENTRIES = 1_000_000
"""Pairs of candidates of a batch of edges that are looked at in one go; they stay in the cache."""


def without_dominated(state: State) -> State:
    """The state without candidates that another one replaces."""
    net = state.network
    worst = _Worst(net)
    worst.add_edges()
    worst.add_memory()
    kept = worst.kept()
    return state if kept.all() else without_candidates(state, kept)


class _Worst:
    """For every two candidates of a node: what taking the second instead of the first costs at
    worst.
    """

    def __init__(self, net: Network) -> None:
        self.net = net
        sizes = net.sizes
        self.first = offsets(sizes * sizes)
        own = [
            (net.cost[None, a:b] - net.cost[a:b, None]).ravel()
            for a, b in zip(net.first[:-1].tolist(), net.first[1:].tolist(), strict=True)
        ]
        self.extra: FloatArray = np.concatenate(own) if own else np.zeros(0)

    def add_edges(self) -> None:
        """Edges of one shape at a time."""
        net = self.net
        u, v = net.edges[:, 0], net.edges[:, 1]
        shapes = net.sizes[u] * (int(net.sizes.max(initial=0)) + 1) + net.sizes[v]
        for shape in np.unique(shapes).tolist():
            members = np.flatnonzero(shapes == shape)
            ku, kv = int(net.sizes[u[members[0]]]), int(net.sizes[v[members[0]]])
            step = max(1, _MAX_ENTRIES // max(ku, kv) ** 2)
            for start in range(0, len(members), step):
                self._add(members[start : start + step], ku, kv)

    def _add(self, members: IntArray, ku: int, kv: int) -> None:
        net = self.net
        entries = net.edge_first[members][:, None] + np.arange(ku * kv)
        matrices = net.edge_cost[entries].reshape(len(members), ku, kv)
        for side, table in ((0, matrices), (1, matrices.transpose(0, 2, 1))):
            nodes, size = net.edges[members, side], table.shape[1]
            if size < 2:
                continue
            most = _most(table).reshape(len(members), size * size)
            target = self.first[nodes][:, None] + np.arange(size * size)
            np.add.at(self.extra, target.ravel(), most.ravel())

    def add_memory(self) -> None:
        """A candidate with more memory at some time replaces nothing with less."""
        net = self.net
        starts = net.span_first.tolist()
        for span, node in enumerate(net.span_node.tolist()):
            usage = net.usage[starts[span] : starts[span + 1]]
            more = (usage[None, :] > usage[:, None]).ravel()
            a = int(self.first[node])
            self.extra[a : a + len(more)][more] = np.inf

    def kept(self) -> BoolArray:
        """Candidates that stay; of those that replace each other the first."""
        net = self.net
        kept = np.ones(len(net.cost), dtype=bool)
        sizes = net.sizes.tolist()
        replaces = self.extra <= 0
        diagonal = (
            np.concatenate(
                [
                    a + np.arange(k) * (k + 1)
                    for a, k in zip(self.first[:-1].tolist(), sizes, strict=True)
                ]
            )
            if sizes
            else np.zeros(0, dtype=np.int64)
        )
        replaces[diagonal] = False
        for node in np.unique(
            np.searchsorted(self.first, np.flatnonzero(replaces), side="right") - 1
        ).tolist():
            size, start = sizes[node], int(net.first[node])
            table = replaces[self.first[node] : self.first[node + 1]].reshape(size, size)
            for candidate in range(size - 1, -1, -1):
                others = table[candidate] & kept[start : start + size]
                if others.any():
                    kept[start + candidate] = False
        return kept


def _most(table: FloatArray) -> FloatArray:
    """What the second of two candidates costs more than the first, with the worst partner.

    A partner that the first may not have is no loss.

    Args:
        table: costs of candidates and partners, shape (M, K, P).

    Returns:
        Shape (M, K, K): by the candidate that goes and the one that replaces it.
    """
    count, size, partners = table.shape
    by_partner = np.ascontiguousarray(table.transpose(2, 0, 1))
    gone = np.where(by_partner < FORBIDDEN, by_partner, np.inf)
    out = np.full((count, size, size), -np.inf)
    more = np.empty_like(out)
    for partner in range(partners):
        np.subtract(by_partner[partner][:, None, :], gone[partner][:, :, None], out=more)
        np.maximum(out, more, out=out)
    return out
