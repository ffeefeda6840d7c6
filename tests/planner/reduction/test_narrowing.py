"""Candidates that are left out are in no better answer, and what is left says the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.problem import Problem
from planner.reduction import reduced
from planner.reduction.edges import NoAnswerError
from planner.reduction.network import Network
from planner.reduction.problem_network import network_of
from planner.reduction.state import without
from planner.solvers.dual import Dual
from tests.planner.networks import best_by_trying, networks
from tests.planner.solvers.random_problems import problems

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=200)
@given(net=networks(), slack=st.sampled_from([0.0, 0.1, 0.5, 2.0]))
def test_every_choice_as_good_as_the_limit_stays(net: Network, slack: float) -> None:
    try:
        left = reduced(net).network
    except NoAnswerError:
        return
    best = best_by_trying(left)
    assume(np.isfinite(best))
    dual = Dual(left)
    dual.first_answer()
    dual.run(60)
    limit = best * (1 + slack)
    kept = dual.kept(limit)
    for choice in itertools.product(*(range(size) for size in left.sizes)):
        if left.is_feasible(choice) and left.evaluate(choice) <= limit:
            assert kept[left.first[:-1] + np.array(choice, dtype=np.int64)].all()


@pytest.mark.fast
def test_dear_candidates_go() -> None:
    """Two nodes, one edge: of each node one candidate costs more than the best answer."""
    net = Network(
        first=np.array([0, 2, 4]),
        cost=np.array([1.0, 50.0, 1.0, 60.0]),
        edges=np.array([[0, 1]]),
        edge_first=np.array([0, 4]),
        edge_cost=np.array([1.0, 0.0, 0.0, 0.0]),
        span_node=np.zeros(0, dtype=np.int64),
        span_time=np.zeros((0, 2), dtype=np.int64),
        span_first=np.zeros(1, dtype=np.int64),
        usage=np.zeros(0),
        base=np.zeros(0),
        limit=np.inf,
    )
    dual = Dual(net)
    dual.first_answer()
    dual.run(20)
    assert dual.kept(3.0).tolist() == [True, False, True, False]


@pytest.mark.fast
@settings(max_examples=200)
@given(problem=problems(limited=True), seed=SEEDS)
def test_what_is_left_says_the_same(problem: Problem, seed: int) -> None:
    net = network_of(problem)
    draw = np.random.default_rng(seed)
    kept = draw.random(len(net.cost)) < 0.6
    kept[net.first[:-1] + draw.integers(0, net.sizes)] = True
    small = without(net, kept)
    choice = draw.integers(0, small.network.sizes)
    whole = small.widened(choice)
    assert kept[net.first[:-1] + whole].all()
    assert small.narrowed(whole, kept, net).tolist() == choice.tolist()
    assert small.network.evaluate(choice) == net.evaluate(whole)
    assert small.network.profile(choice) == pytest.approx(net.profile(whole))
    assert small.network.pairs == len(small.network.edge_cost)
