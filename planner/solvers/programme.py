"""The choice in a network as an integer programme in flat arrays, the same for every back end.

One variable per candidate, one per allowed pair of every edge, and the sums of the pairs' rows and
columns equal to the candidates (the local polytope, whose relaxation is tight). Where one end of an
edge has one candidate, its pairs are the candidates of the other end. Rows for memory are added
where an answer exceeds the limit, until none does: few time points decide.
"""

from __future__ import annotations

import numpy as np

from planner.reduction.network import (
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)


class Programme:
    """Columns, rows and costs; candidates come before pairs, nodes before edges."""

    def __init__(self, net: Network, allowed: BoolArray) -> None:
        """Lay it out.

        Args:
            net: the network, whose edges share no matrices.
            allowed: for each entry of the matrices whether the pair may be chosen.
        """
        self.net, candidates = net, len(net.cost)
        self.memory: dict[int, tuple[IntArray, FloatArray]] = {}
        """Columns that hold memory at a time point with a row, and how much."""
        u, v = net.edges[:, 0], net.edges[:, 1]
        ku, kv = net.sizes[u], net.sizes[v]
        edge = np.repeat(np.arange(len(u)), ku * kv)
        row, place = np.divmod(np.arange(len(edge)) - net.edge_first[edge], kv[edge])
        ends = net.first[u[edge]] + row, net.first[v[edge]] + place
        alone = np.where(ku[edge] == 1, ends[1], ends[0])
        wide = np.minimum(ku, kv) > 1
        tied = (own := wide[edge])[allowed]
        self.column = alone[allowed]
        """Of each allowed pair."""
        self.column[tied] = np.arange(tied.sum()) + candidates
        self.ends = ends[0][allowed][tied], ends[1][allowed][tied]
        """Candidates of the pairs that have columns of their own."""
        self.top = np.ones(candidates + int(tied.sum()))
        """What each column may be at most."""
        self.top[alone[~own & ~allowed]] = 0.0
        self._pairs_first = offsets(np.bincount(edge[allowed], minlength=len(u)))
        self._entry = np.flatnonzero(allowed) - net.edge_first[edge[allowed]]
        # A row for each node, then for each candidate of each end of each wide edge.
        first_row = net.nodes + offsets(np.where(wide, ku + kv, 0))
        here, first = edge[allowed][tied], first_row[:-1][wide]
        by_row = first_row[here] + row[allowed][tied]
        by_column = first_row[here] + ku[here] + place[allowed][tied]
        both = [runs(net.first[w[wide]], net.sizes[w[wide]]) for w in (u, v)]
        end_rows = [runs(first, ku[wide]), runs(first + ku[wide], kv[wide])]
        of_nodes = np.repeat(np.arange(net.nodes), net.sizes)
        self.row_of = np.concatenate([of_nodes, by_row, by_column, *end_rows])
        number = self.column[tied]
        self.column_of = np.concatenate([np.arange(candidates), number, number, *both])
        self.factor = np.ones(len(self.row_of))
        self.factor[len(self.factor) - sum(map(len, both)) :] = -1.0
        self.sides = np.zeros(int(first_row[-1]))
        """What each row is equal to."""
        self.sides[: net.nodes] = 1.0
        self.paid_column = np.concatenate([np.arange(candidates), self.column])
        self.paid = np.concatenate([net.cost, net.edge_cost[allowed]])
        """Costs, each for its column; a column may have several."""

    def add_memory(self, point: int) -> bool:
        """Hold memory at a time point within the limit; whether it was not held before."""
        if point in self.memory:
            return False
        net = self.net
        live = np.flatnonzero((net.span_time[:, 0] <= point) & (point < net.span_time[:, 1]))
        sizes = net.sizes[net.span_node[live]]
        columns = [runs(net.first[net.span_node[live]], sizes)]
        amounts = [net.usage[runs(net.span_first[:-1][live], sizes)]]
        live = np.flatnonzero((net.pair_time[:, 0] <= point) & (point < net.pair_time[:, 1]))
        edges = net.pair_edge[live]
        counts = np.diff(self._pairs_first)[edges]
        pairs = runs(self._pairs_first[edges], counts)
        columns.append(self.column[pairs])
        amounts.append(net.pair_usage[np.repeat(net.pair_first[live], counts) + self._entry[pairs]])
        held = summed(np.concatenate(columns), np.concatenate(amounts), len(self.top))
        used = np.flatnonzero(held)
        self.memory[point] = used, held[used]
        return True

    def room(self, point: int) -> float:
        """What all columns may hold together at a time point."""
        return float(self.net.limit - self.net.base[point])

    def chosen(self, values: FloatArray) -> IntArray:
        """For each node its candidate of the largest value."""
        nodes = np.repeat(np.arange(self.net.nodes), self.net.sizes)
        order = np.lexsort((-values[: len(nodes)], nodes))
        found: IntArray = order[self.net.first[:-1]] - self.net.first[:-1]
        return found

    def columns_of(self, chosen: BoolArray) -> BoolArray:
        """The columns of a choice: of its candidates, and of its pairs.

        Args:
            chosen: for each candidate whether it is chosen.
        """
        return np.concatenate([chosen, chosen[self.ends[0]] & chosen[self.ends[1]]])
