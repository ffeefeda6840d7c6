"""Nodes without memory and with one neighbour or none: they choose what is cheapest for it."""

from __future__ import annotations

import numpy as np

from planner.network import BoolArray, IntArray, Network
from planner.reduction.followers import Maps, folded
from planner.reduction.state import State


def without_leaves(state: State) -> State:
    """The state in which every such node is part of its neighbour, or of any if it has none."""
    net = state.network
    degree = np.bincount(net.edges.ravel(), minlength=net.nodes)
    held = np.bincount(net.span_node, minlength=net.nodes) > 0
    free = (degree <= 1) & ~held
    leader = np.arange(net.nodes)
    maps: Maps = {}
    edge_at = _edge_at(net)
    for node in np.flatnonzero(free & (degree == 1)).tolist():
        edge = int(edge_at[node])
        other = int(net.edges[edge].sum()) - node
        # Of two leaves that are each other's neighbours one stays.
        if leader[other] == other:
            leader[node] = other
            maps[node] = _cheapest(net, node, edge)
    _attach_isolated(net, free & (degree == 0), leader, maps)
    return folded(state, leader, maps) if maps else state


def _edge_at(net: Network) -> IntArray:
    """For each node one of its edges, 0 if it has none."""
    found = np.zeros(net.nodes, dtype=np.int64)
    for side in (0, 1):
        found[net.edges[:, side]] = np.arange(len(net.edges))
    return found


def _cheapest(net: Network, node: int, edge: int) -> IntArray:
    """For each candidate of the other end of the edge the node's best one."""
    u, v = net.edges[edge].tolist()
    matrix = net.edge_cost[net.edge_first[edge] : net.edge_first[edge + 1]]
    table = matrix.reshape(net.sizes[u], net.sizes[v])
    own = net.cost[net.first[node] : net.first[node + 1]]
    both = (table.T if node == u else table) + own
    return np.asarray(both.argmin(axis=1))


def _attach_isolated(net: Network, isolated: BoolArray, leader: IntArray, maps: Maps) -> None:
    """Let nodes that nothing depends on follow the first node that stays."""
    staying = np.flatnonzero((leader == np.arange(net.nodes)) & ~isolated)
    nodes = np.flatnonzero(isolated).tolist()
    if not len(staying):
        staying, nodes = np.array(nodes[:1], dtype=np.int64), nodes[1:]
    for node in nodes:
        own = net.cost[net.first[node] : net.first[node + 1]]
        leader[node] = staying[0]
        maps[node] = np.full(net.sizes[staying[0]], int(own.argmin()))
