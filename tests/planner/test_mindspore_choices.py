"""At MindSpore's cost the planner chooses what MindSpore chooses; the cost is worked out by hand.

What the real package chose was seen with MindSpore 2.10.0 for CPUs, 8 devices, the whole batch on
each, by `benchmarks/mindspore_search.py`.
"""

from __future__ import annotations

import math

import pytest

from benchmarks.mindspore_graphs import GRAPHS
from benchmarks.mindspore_strategies import (
    StrategyError,
    candidates_of,
    strategy_cost,
    strategy_of,
)
from ir.dialects import MINDSPORE
from ir.graph import OpGraph
from ir.normalise import add_ends
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind, Setting
from planner.pipeline.preparation import dialect_of, input_layouts
from planner.request import Cuts, SearchRequest
from planner.solvers import Budget, solver_by_name
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

DYNAMIC_PROGRAMMING: dict[str, Cuts] = {
    "MatMul_0": ((2, 1), (1, 1)),
    "Relu_1": ((2, 1),),
    "MatMul_2": ((2, 1), (1, 1)),
    "Relu_3": ((2, 1),),
    "MatMul_4": ((2, 1), (1, 4)),
    "Relu_5": ((2, 4),),
}
"""Of MindSpore, for the perceptron."""
RECURSIVE_PROGRAMMING: dict[str, Cuts] = {
    name: ((8, 1), (1, 1)) if name.startswith("MatMul") else ((8, 1),)
    for name in DYNAMIC_PROGRAMMING
}


def setting_of(graph: OpGraph, cost: str = "time", devices: int = 8) -> Setting:
    cluster = named_cluster("atlas-800t-a2", devices)
    request = SearchRequest(dataset_strategy="full_batch", all_to_all=False)
    dialect = dialect_of("mindspore", devices, all_to_all=False)
    mesh = dialect.meshes(cluster)[0]
    layouts = input_layouts(graph, mesh, dialect, request)
    optimizer = request.optimizer
    return Setting(cluster, mesh, dialect, True, optimizer, layouts, math.inf, cost=cost)


def ended(name: str, layers: int) -> OpGraph:
    return add_ends(GRAPHS[name](layers), training=True)


def solved(graph: OpGraph, cost: str) -> tuple[Lowered, tuple[int, ...], float]:
    lowered = lower(analyse(graph, training=True), setting_of(graph, cost))
    found = solver_by_name("dynamic_programming").solve(lowered.problem, Budget(), None)
    assert found.choice is not None
    assert found.proof == "optimal"
    return lowered, found.choice, found.cost_s


def test_the_perceptron_is_split_as_by_the_real_dynamic_programming() -> None:
    lowered, choice, cost = solved(ended("mlp", 3), "mindspore")
    assert strategy_of(lowered, choice) == DYNAMIC_PROGRAMMING
    wide, narrow, hidden = 1024 * 4096 * 4, 4096 * 4096 * 4, 256 * 4096 * 4
    thin = 256 * 1024 * 4
    computed = [
        thin,  # the input is cut in two
        thin / 2 + wide,
        hidden / 2,
        hidden / 2 + narrow,
        hidden / 2,
        hidden / 2 + wide / 4,
        thin / 8,
    ]
    gradients = wide + narrow + wide / 4
    assert cost == pytest.approx(sum(computed) + 400 * 0.001 * gradients, rel=1e-12)


def test_the_transformer_is_split_by_rows_as_by_the_real_dynamic_programming() -> None:
    lowered, choice, _ = solved(ended("tf", 2), "mindspore")
    rows = {cuts[0][0] for cuts in strategy_of(lowered, choice).values()}
    assert rows == {8}
    assert all(math.prod(cuts[0]) == 8 for cuts in strategy_of(lowered, choice).values())


def test_both_currencies_price_the_same_decisions_with_the_same_memory() -> None:
    graph = ended("tf", 1)
    in_time, theirs = (solved(graph, cost)[0] for cost in ("time", "mindspore"))
    assert in_time.problem.sizes == theirs.problem.sizes
    assert in_time.problem.edges == theirs.problem.edges
    choice = tuple(size - 1 for size in theirs.problem.sizes)
    assert in_time.problem.peak_bytes(choice) == theirs.problem.peak_bytes(choice)


def test_every_reader_pays_for_its_own_redistribution() -> None:
    """MindSpore has no node for a tensor with several readers: it has the layout of its maker."""
    graph = ended("tf", 1)
    lowered, choice, cost = solved(graph, "mindspore")
    shared = [n for n in lowered.nodes if n.kind is NodeKind.TENSOR]
    assert shared
    for edge in lowered.edges:
        if lowered.nodes[edge.target].kind is NodeKind.TENSOR:
            flow = lowered.flow(edge, choice[edge.source], choice[edge.target])
            assert flow.target.forward == flow.source.forward
    assert cost < 1e12


@pytest.mark.parametrize("cost", ["time", "mindspore"])
def test_a_strategy_costs_what_the_problem_says_of_the_choice(cost: str) -> None:
    graph = ended("mlp", 3)
    lowered, choice, least = solved(graph, cost)
    found = strategy_cost(graph, setting_of(graph), strategy_of(lowered, choice))
    assert least == pytest.approx(found.step_time_s if cost == "time" else found.slices)


def test_a_given_strategy_is_never_cheaper_than_what_was_minimised() -> None:
    graph = ended("mlp", 3)
    least_s, least = solved(graph, "time")[2], solved(graph, "mindspore")[2]
    best, other = (
        strategy_cost(graph, setting_of(graph), strategy)
        for strategy in (DYNAMIC_PROGRAMMING, RECURSIVE_PROGRAMMING)
    )
    assert min(best.step_time_s, other.step_time_s) > least_s
    assert other.slices > best.slices == pytest.approx(least)


def test_what_a_strategy_leaves_open_is_chosen_at_least_cost() -> None:
    graph = ended("mlp", 3)
    found = strategy_cost(graph, setting_of(graph), {})
    assert found.step_time_s == pytest.approx(solved(graph, "time")[2])
    assert found.slices == pytest.approx(solved(graph, "mindspore")[2])


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ({"MatMul_9": ((1, 1), (1, 1))}, "operators that the graph lacks: MatMul_9"),
        ({"MatMul_0": ((3, 1), (1, 1))}, "cannot be cut as"),
        ({"MatMul_0": ((2, 1),)}, "cannot be cut as"),
        ({"MatMul_0": ((16, 1), (1, 1))}, "cannot be cut as"),
    ],
)
def test_a_strategy_that_does_not_fit_is_refused(strategy: dict[str, Cuts], message: str) -> None:
    graph = ended("mlp", 3)
    lowered = lower(analyse(graph, training=True), setting_of(graph))
    with pytest.raises(StrategyError, match=message) as error:
        candidates_of(lowered, strategy)
    assert "\n  at:" in str(error.value)
    assert "\n  fix:" in str(error.value)


def test_the_dialect_of_this_cost_has_cuts_alone() -> None:
    assert MINDSPORE.cut_counts
