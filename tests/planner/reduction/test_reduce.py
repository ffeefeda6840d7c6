"""Reductions lose no optimum, and what is left expands to an answer of the whole."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings

from planner.reduction import reduced
from planner.reduction.edges import NoAnswerError
from planner.reduction.network import Network
from tests.planner.networks import best_by_trying, networks


@settings(max_examples=200)
@given(networks())
def test_the_optimum_stays(net: Network) -> None:
    best = best_by_trying(net)
    try:
        left = reduced(net)
    except NoAnswerError:
        assert best == np.inf
        return
    assert best_by_trying(left.network) == best


@settings(max_examples=300)
@given(networks())
def test_a_choice_of_what_is_left_is_one_of_the_whole(net: Network) -> None:
    try:
        left = reduced(net)
    except NoAnswerError:
        return
    small = left.network
    for choice in itertools.islice(itertools.product(*(range(k) for k in small.sizes)), 20):
        whole = left.expanded(np.array(choice, dtype=np.int64))
        if (small.chosen_costs(choice) < 1e17).all():
            assert net.evaluate(whole) == small.evaluate(choice)
        assert net.is_feasible(whole) == small.is_feasible(choice)


@given(networks(loose=True))
def test_memory_that_cannot_bind_is_gone(net: Network) -> None:
    try:
        left = reduced(net)
    except NoAnswerError:
        return
    assert left.network.time_points == 0
    assert len(left.network.span_node) == 0


@given(networks())
def test_reducing_twice_changes_nothing(net: Network) -> None:
    try:
        once = reduced(net).network
    except NoAnswerError:
        return
    twice = reduced(once).network
    assert np.array_equal(once.cost, twice.cost)
    assert np.array_equal(once.edge_cost, twice.edge_cost)


@settings(max_examples=200)
@given(networks(loose=True))
def test_no_leaf_without_memory_is_left(net: Network) -> None:
    try:
        left = reduced(net).network
    except NoAnswerError:
        return
    degree = np.bincount(left.edges.ravel(), minlength=left.nodes)
    assert left.nodes == 1 or (degree > 1).all()
