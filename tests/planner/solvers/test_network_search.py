"""The search on networks: true bounds, true answers, the same anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from planner.network import Network
from planner.reduction import reduced
from planner.reduction.forbidden import NoAnswerError
from planner.solvers.dual import Dual
from planner.solvers.kernels.forests import improve, space_for
from planner.solvers.kernels.memory import empty_tree, fill
from planner.solvers.kernels.moves import cost_of
from planner.solvers.network_search import Limits, search_network
from tests.planner.networks import best_by_trying, networks

LITTLE = Limits(effort=1, threads=2)


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
