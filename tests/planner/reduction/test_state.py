"""Marks of nodes change with anything around a node, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.reduction.edges import merged_edges
from planner.reduction.network import FloatArray, Network
from planner.reduction.state import marks_of, marks_of_surroundings, sides_of
from tests.planner.networks import networks


def changed(values: FloatArray, place: int) -> FloatArray:
    """The values with another number at one place."""
    out = values.copy()
    out[place] += 1.0
    return out


def differing(net: Network, other: Network) -> set[int]:
    return set(np.flatnonzero(marks_of(net) != marks_of(other)).tolist())


@given(networks(), st.integers(0, 10**6))
def test_a_number_changes_the_marks_of_its_nodes_alone(net: Network, pick: int) -> None:
    net = merged_edges(net, net.edges, np.minimum(net.edge_cost, 99.0))
    place = pick % len(net.cost)
    node = int(np.searchsorted(net.first, place, side="right")) - 1
    assert differing(net, replace(net, cost=changed(net.cost, place))) == {node}
    if len(net.edge_cost):
        place = pick % len(net.edge_cost)
        edge = int(np.searchsorted(net.edge_first, place, side="right")) - 1
        ends = set(net.edges[edge].tolist())
        assert differing(net, replace(net, edge_cost=changed(net.edge_cost, place))) == ends
    if len(net.usage):
        place = pick % len(net.usage)
        span = int(np.searchsorted(net.span_first, place, side="right")) - 1
        holder = {int(net.span_node[span])}
        assert differing(net, replace(net, usage=changed(net.usage, place))) == holder


@given(networks())
def test_a_mark_does_not_depend_on_the_number_of_a_node(net: Network) -> None:
    """Whether nodes that are not around it are there, and where."""
    marks = marks_of(net)
    more = replace(
        net,
        first=np.concatenate([[0], net.first + 1]),
        cost=np.concatenate([[5.0], net.cost]),
        edges=net.edges + 1,
        span_node=net.span_node + 1,
    )
    assert marks_of(more)[1:].tolist() == marks.tolist()


def test_surroundings_are_costs_and_neighbours() -> None:
    net = Network(
        first=np.array([0, 2, 4, 6, 8]),
        cost=np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0]),
        edges=np.array([[0, 1], [1, 2], [0, 3], [2, 3]]),
        edge_first=np.arange(5) * 4,
        edge_cost=np.arange(16.0),
        span_node=np.zeros(0, dtype=np.int64),
        span_time=np.zeros((0, 2), dtype=np.int64),
        span_first=np.zeros(1, dtype=np.int64),
        usage=np.zeros(0),
        base=np.zeros(0),
        limit=0.0,
    )
    marks = marks_of_surroundings(net, sides_of(net)).tolist()
    assert marks[0] == marks[2]
    assert len(set(marks)) == 3
