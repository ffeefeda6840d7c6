"""A network as the compiled loops take it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.network import FORBIDDEN, FloatArray, IntArray, Network, offsets, runs

CAP = 1e14
"""What a forbidden cost counts: sums of a few thousand stay exact to a fraction of one unit."""


class Arrays(NamedTuple):
    """Candidates, edges by node, and spans by node; edges have the smaller node first."""

    first: IntArray
    cost: FloatArray
    low: IntArray
    """First node of every edge."""
    high: IntArray
    edge_first: IntArray
    edge_cost: FloatArray
    around_first: IntArray
    """Where the edges of each node start in `around`."""
    around: IntArray
    span_of_first: IntArray
    """Where the spans of each node start; spans are sorted by node."""
    span_start: IntArray
    span_end: IntArray
    span_first: IntArray
    usage: FloatArray
    room: FloatArray
    """Limit less base at each time point."""
    pair_of_first: IntArray
    """Where the spans of pairs of each edge start; they are sorted by edge."""
    pair_start: IntArray
    pair_end: IntArray
    pair_first: IntArray
    pair_usage: FloatArray


def arrays_of(net: Network) -> Arrays:
    """The arrays of a network whose edges have the smaller node first and are not parallel."""
    ends = net.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    spans = np.argsort(net.span_node, kind="stable")
    pairs = np.argsort(net.pair_edge, kind="stable")
    sizes = net.sizes[net.span_node[spans]]
    starts = net.span_first[:-1][spans]
    return Arrays(
        first=net.first,
        cost=np.minimum(net.cost, CAP),
        low=np.ascontiguousarray(net.edges[:, 0]),
        high=np.ascontiguousarray(net.edges[:, 1]),
        edge_first=net.edge_first,
        edge_cost=np.where(net.edge_cost < FORBIDDEN, net.edge_cost, CAP),
        around_first=offsets(np.bincount(ends, minlength=net.nodes)),
        around=order % max(len(net.edges), 1),
        span_of_first=offsets(np.bincount(net.span_node, minlength=net.nodes)),
        span_start=np.ascontiguousarray(net.span_time[spans, 0]),
        span_end=np.ascontiguousarray(net.span_time[spans, 1]),
        span_first=offsets(sizes),
        usage=net.usage[runs(starts, sizes)],
        room=net.limit - net.base,
        pair_of_first=offsets(np.bincount(net.pair_edge, minlength=len(net.edges))),
        pair_start=np.ascontiguousarray(net.pair_time[pairs, 0]),
        pair_end=np.ascontiguousarray(net.pair_time[pairs, 1]),
        pair_first=net.pair_first[pairs],
        pair_usage=net.pair_usage,
    )
