"""Edges between the same nodes become one, and edges that cost the same everywhere none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.network import (
    FORBIDDEN,
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)

_NEVER = 10 * FORBIDDEN
"""What every forbidden cost becomes, so that sums of them stay of one size."""


def merged_edges(net: Network, pairs: IntArray, edge_cost: FloatArray) -> Network:
    """The network with these edges instead of its own, parallel ones added, smaller node first.

    Args:
        net: the network; its nodes stay.
        pairs: shape (M, 2), different nodes, in any order and any number of times.
        edge_cost: their matrices one after the other, row-major.
    """
    sizes, turned = net.sizes, pairs[:, 0] > pairs[:, 1]
    low = np.where(turned, pairs[:, 1], pairs[:, 0])
    high = np.where(turned, pairs[:, 0], pairs[:, 1])
    keys, group = np.unique(low * net.nodes + high, return_inverse=True)
    u, v = keys // max(net.nodes, 1), keys % max(net.nodes, 1)
    target_first = offsets(sizes[u] * sizes[v])
    target = _places(sizes, pairs, turned, target_first[group])
    cost = summed(target, edge_cost, int(target_first[-1]))
    cost[cost >= FORBIDDEN] = _NEVER
    return replace(net, edges=np.stack([u, v], axis=1), edge_first=target_first, edge_cost=cost)


def _places(sizes: IntArray, pairs: IntArray, turned: BoolArray, start: IntArray) -> IntArray:
    """Where each entry goes, matrices with the larger node first being transposed."""
    rows, columns = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    row_step, column_step = np.where(turned, 1, columns), np.where(turned, rows, 1)
    local_row = runs(np.zeros_like(rows), rows)
    row_start = np.repeat(start, rows) + local_row * np.repeat(row_step, rows)
    per_row = np.repeat(columns, rows)
    local_column = runs(np.zeros_like(per_row), per_row)
    step = np.repeat(np.repeat(column_step, rows), per_row)
    places: IntArray = np.repeat(row_start, per_row) + local_column * step
    return places


def without_sums(net: Network) -> Network:
    """The network with the least of every row and column in the costs of the nodes, and without
    edges that are nothing but a sum of a row's and a column's number.
    """
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]
    per_row = np.repeat(kv, ku)
    row_first = offsets(per_row)
    if not len(per_row):
        return net
    least = np.minimum.reduceat(net.edge_cost, row_first[:-1])
    left = net.edge_cost - np.repeat(least, per_row)
    first = left[runs(net.edge_first[:-1], kv)]
    same = left == first[_columns(ku, kv)]
    plain = np.logical_and.reduceat(same, net.edge_first[:-1])
    if not plain.any():
        return net
    return _moved_to_nodes(net, plain, least, first)


def _columns(ku: IntArray, kv: IntArray) -> IntArray:
    """For every entry its place in the concatenated first rows."""
    start = offsets(kv)[:-1]
    return runs(np.repeat(start, ku), np.repeat(kv, ku))


def _moved_to_nodes(
    net: Network, plain: BoolArray, least: FloatArray, first: FloatArray
) -> Network:
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]
    cost = net.cost.copy()
    rows, columns = np.repeat(plain, ku), np.repeat(plain, kv)
    np.add.at(cost, runs(net.first[u[plain]], ku[plain]), least[rows])
    np.add.at(cost, runs(net.first[v[plain]], kv[plain]), first[columns])
    stay = ~plain
    return replace(
        net,
        cost=cost,
        edges=net.edges[stay],
        edge_first=offsets((ku * kv)[stay]),
        edge_cost=net.edge_cost[np.repeat(stay, ku * kv)],
    )
