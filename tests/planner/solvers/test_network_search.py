"""The search on networks: true bounds, true answers, the same anywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from planner.reduction import reduce, reduced
from planner.reduction.dominance import without_dominated
from planner.reduction.edges import NoAnswerError
from planner.reduction.network import Network
from planner.reduction.state import Marks, State
from planner.requests.instances import network_of
from planner.solvers.dual import Best, Dual
from planner.solvers.kernels.arrays import empty_tree, fill
from planner.solvers.kernels.forests import improve, space_for
from planner.solvers.kernels.messages import cost_of
from planner.solvers.network_search import Limits, _Search, search_network
from tests.planner.networks import best_by_trying, networks

LITTLE = Limits(effort=1, threads=2)


@pytest.mark.fast
@settings(max_examples=100)
@given(networks())
def test_small_networks_are_solved_to_proof(net: Network) -> None:
    best = best_by_trying(net)
    found = search_network(net, LITTLE)
    assert found.cost == best
    assert found.proof == ("infeasible" if best == np.inf else "optimal")
    assert found.bound == best
    if found.choice is not None:
        assert net.is_feasible(found.choice)
        assert net.evaluate(found.choice) == found.cost
        assert net.peak(found.choice) == found.peak


@pytest.mark.fast
@settings(max_examples=200)
@given(networks())
def test_prices_bound_the_optimum_from_below(net: Network) -> None:
    best = best_by_trying(net)
    try:
        left = reduced(net).network
    except NoAnswerError:
        return
    dual = Dual(left)
    dual.first_answer()
    dual.run(60)
    assert dual.bound <= best * (1 + 1e-9) + 1e-6
    if dual.best.choice is not None:
        assert left.is_feasible(dual.best.choice) or best == np.inf
        assert dual.best.cost >= best - 1e-6


@settings(max_examples=100)
@given(networks())
def test_neighbourhoods_keep_the_books(net: Network) -> None:
    """What moves say that the cost and the memory became is what they are."""
    try:
        left = reduced(net).network
    except NoAnswerError:
        return
    dual = Dual(left)
    dual.first_answer()
    if dual.best.choice is None or left.nodes == 0:
        return
    choice, tree = dual.best.choice.copy(), empty_tree(left.time_points)
    fill(dual.arrays, choice, tree)
    change = improve(
        dual.arrays, space_for(dual.arrays), choice, tree, dual.paid, 20, 0, 12, 1, 1.0, 0.5
    )
    assert cost_of(dual.arrays, choice) == pytest.approx(dual.best.cost + change)
    assert left.is_feasible(choice)
    worst = tree.most[1]
    fill(dual.arrays, choice, tree)
    assert tree.most[1] == worst


@settings(max_examples=20)
@given(networks())
def test_the_same_effort_gives_the_same_answer_on_any_number_of_cores(net: Network) -> None:
    found = [search_network(net, Limits(effort=1, threads=n, seed=3)) for n in (1, 2)]
    assert found[0].cost == found[1].cost
    assert found[0].bound == found[1].bound
    if found[0].choice is not None and found[1].choice is not None:
        assert found[0].choice.tolist() == found[1].choice.tolist()


@pytest.mark.fast
def test_an_interrupted_search_answers_with_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(self: Dual, passes: int) -> None:
        raise KeyboardInterrupt

    net = _chain(30)
    monkeypatch.setattr(Dual, "run", interrupt)
    found = search_network(net, LITTLE)
    assert found.truncated
    assert found.choice is not None
    assert net.is_feasible(found.choice)


@pytest.mark.fast
def test_interrupted_while_reducing_it_answers_with_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    net = _chain(30)
    monkeypatch.setattr(reduce, "without_dominated", interrupt)
    found = search_network(net, LITTLE)
    assert found.truncated
    assert found.choice is not None
    assert net.is_feasible(found.choice)
    assert net.evaluate(found.choice) == found.cost == found.trace[-1].cost
    assert net.peak(found.choice) == found.peak


def test_of_two_answers_the_cheaper_one_is_given() -> None:
    net = _chain(6)
    search = _Search(net, LITTLE, lambda *_: None, 0.0)
    search.left = reduced(net)
    choices = [search.left.expanded(np.full(search.left.network.nodes, c)) for c in (0, 1)]
    costs = [net.evaluate(choice) for choice in choices]
    search.early = Best(choices[0], costs[0])
    for cost, expected in ((costs[0] + 1, choices[0]), (costs[0] - 1, choices[1])):
        search.best = Best(np.full(search.left.network.nodes, 1), cost)
        answer = search._answer()
        assert answer.choice is not None
        assert answer.choice.tolist() == expected.tolist()
        assert answer.cost == net.evaluate(expected)


def test_the_time_limit_ends_the_reduction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []

    def count(*given: object) -> tuple[State, Marks]:
        rounds.append(given)
        return without_dominated(*given)  # type: ignore[arg-type]

    net = _chain(30)
    monkeypatch.setattr(reduce, "without_dominated", count)
    found = search_network(net, Limits(time_limit_s=0.0))
    assert not rounds
    assert found.truncated
    assert found.choice is not None
    assert net.is_feasible(found.choice)


@pytest.mark.fast
def test_a_choice_with_forbidden_pairs_is_no_answer() -> None:
    """Four nodes, all different in pairs, have no answer with three colours."""
    pairs = list(itertools.combinations(range(4), 2))
    different = [10**18 if a == b else 1 for a in range(3) for b in range(3)]
    net = network_of(
        {
            "problem": {
                "nodes": {
                    "intervals": [[0, 2]] * 4,
                    "costs": [[0, 1, 2]] * 4,
                    "usages": [[0, 3, 6]] * 4,
                },
                "edges": {"nodes": [list(pair) for pair in pairs], "costs": [different] * 6},
                "usage_limit": 1000,
            }
        }
    )
    found = search_network(net, LITTLE)
    assert found.proof == "infeasible"
    assert found.choice is None
    assert found.trace == ()


def test_the_trace_falls() -> None:
    found = search_network(_chain(60), Limits(effort=1))
    costs = [step.cost for step in found.trace]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == found.cost


def test_neither_time_nor_effort_is_refused() -> None:
    with pytest.raises(ValueError, match="neither"):
        search_network(_chain(3), Limits())


def _chain(nodes: int) -> Network:
    """A chain whose nodes have to trade cost for memory."""
    draw = np.random.default_rng(7)
    size = 4
    edges = np.array([[i, i + 1] for i in range(nodes - 1)], dtype=np.int64).reshape(-1, 2)
    first = np.arange(nodes + 1, dtype=np.int64) * size
    usage = draw.integers(1, 20, nodes * size).astype(np.float64)
    times = np.stack([np.arange(nodes), np.arange(nodes) + 5], axis=1)
    return Network(
        first=first,
        cost=draw.integers(0, 50, nodes * size).astype(np.float64),
        edges=edges,
        edge_first=np.arange(nodes, dtype=np.int64) * size * size,
        edge_cost=draw.integers(0, 50, (nodes - 1) * size * size).astype(np.float64),
        span_node=np.arange(nodes),
        span_time=times,
        span_first=first,
        usage=usage,
        base=np.zeros(nodes + 5),
        limit=50.0,
    )
