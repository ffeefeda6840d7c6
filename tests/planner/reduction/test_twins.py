"""Equal nodes without memory become one; with memory they do not, for then they may differ."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.reduction import reduced
from planner.reduction.edges import NoAnswerError, merged_edges
from planner.reduction.followers import without_equal_nodes
from planner.reduction.memory import with_base
from planner.reduction.network import Network
from planner.reduction.state import State, untouched
from planner.requests.instances import network_of
from tests.planner.networks import best_by_trying, records


def two_hubs(held: int, limit: int) -> dict[str, Any]:
    """Nodes 0 and 1, and two more alike between them that hold `held` at their cheap candidate."""
    table = [0, 9, 9, 1]
    return {
        "problem": {
            "nodes": {
                "intervals": [[0, 2]] * 4,
                "costs": [[0, 1], [5, 2], [0, 4], [0, 4]],
                "usages": [[0, 0], [0, 0], [held, 0], [held, 0]],
            },
            "edges": {
                "nodes": [[0, 2], [2, 1], [3, 0], [1, 3]],
                "costs": [table, [1, 7, 3, 2], table, [1, 3, 7, 2]],
            },
            "usage_limit": limit,
        }
    }


@pytest.mark.fast
def test_equal_nodes_without_memory_become_one_whichever_way_their_edges_point() -> None:
    net = network_of(two_hubs(held=0, limit=5))
    left = without_equal_nodes(_without_spans(net))
    assert left.leader.tolist() == [0, 1, 2, 2]
    assert left.network.cost.tolist() == [0, 1, 5, 2, 0, 8]
    assert left.network.edges.tolist() == [[0, 2], [1, 2]]
    assert left.network.edge_cost.tolist() == [0, 18, 18, 2, 2, 6, 14, 4]
    for choice in ([0, 0, 1], [1, 1, 0]):
        whole = left.expanded(np.array(choice))
        assert whole.tolist() == [*choice, choice[2]]
        assert net.evaluate(whole) == left.network.evaluate(choice)


@pytest.mark.fast
def test_equal_nodes_with_memory_stay_two() -> None:
    record = two_hubs(held=3, limit=5)
    record["problem"]["nodes"]["costs"][2:] = [[0, 40]] * 2
    net = network_of(record)
    assert without_equal_nodes(untouched(net)).network is net
    best = best_by_trying(net)
    alike = [c for c in np.ndindex(2, 2, 2, 2) if c[2] == c[3] and net.is_feasible(c)]
    assert best < min(net.evaluate(c) for c in alike)
    assert best_by_trying(reduced(net).network) == best


def test_nodes_that_differ_in_one_number_or_neighbour_stay_two() -> None:
    for change in ("cost", "matrix", "neighbour"):
        record = two_hubs(held=0, limit=5)
        problem = record["problem"]
        if change == "cost":
            problem["nodes"]["costs"][3] = [0, 3]
        elif change == "matrix":
            problem["edges"]["costs"][2] = [0, 9, 8, 1]
        else:
            problem["edges"]["nodes"][1] = [2, 3]
        left = without_equal_nodes(_without_spans(network_of(record)))
        assert left.leader.tolist() == [0, 1, 2, 3], change


@settings(max_examples=300)
@given(records(), st.integers(0, 5), st.booleans())
def test_the_optimum_stays_when_nodes_are_doubled(
    record: dict[str, Any], which: int, empty: bool
) -> None:
    """With memory or without; a doubled node has all edges of the first."""
    record = copy.deepcopy(record)
    nodes, edges = record["problem"]["nodes"], record["problem"]["edges"]
    which %= len(nodes["costs"])
    twin = len(nodes["costs"])
    if empty:
        nodes["usages"][which] = [0] * len(nodes["usages"][which])
    for key in ("intervals", "costs", "usages"):
        nodes[key].append(copy.deepcopy(nodes[key][which]))
    for number in range(len(edges["nodes"])):
        u, v = edges["nodes"][number]
        if which in {u, v}:
            edges["nodes"].append([twin if u == which else u, twin if v == which else v])
            edges["costs"].append(list(edges["costs"][number]))
    net = network_of(record)
    best = best_by_trying(net)
    try:
        left = reduced(net)
    except NoAnswerError:
        assert best == np.inf
        return
    assert best_by_trying(left.network) == best


def _without_spans(net: Network) -> State:
    return untouched(with_base(merged_edges(net, net.edges, net.edge_cost)))
