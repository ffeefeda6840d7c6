"""The reason that is named is the one that was planted, and differences are those of two solves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from planner.explain.operator import explained
from planner.explain.records import Candidate
from planner.explain.subject import Subject
from planner.lowered import Lowered
from planner.restriction import restricted
from planner.solvers import Budget, solver_by_name
from tests.builders import mlp
from tests.planner.explain.planted import (
    Planted,
    limited,
    lowered_model,
    moved,
    pinned,
    raised_edges,
    raised_entries,
    raised_nodes,
)

EACH = 3
TARGETS = ("mindspore", "torch")
MAKERS: dict[str, Callable[[Lowered], Iterator[Planted]]] = {
    "node": raised_nodes,
    "edge": raised_edges,
    "entry": raised_entries,
    "pin": pinned,
    "memory": lambda lowered: limited(lowered, 0.7),
}


@pytest.fixture(scope="module")
def models() -> dict[str, Lowered]:
    return {target: lowered_model(mlp(2), target) for target in TARGETS}


def asked(planted: Planted) -> Candidate:
    alike = Subject(planted.case, planted.node).alike(planted.candidate)
    return explained(planted.case, planted.node, asked=alike.tolist()).rivals[0]


def test_the_planted_cause_is_the_reason_named(models: dict[str, Lowered]) -> None:
    """Over twenty problems: costs of nodes, edges and single pairs raised, pins, memory limits."""
    count = 0
    for target, name in itertools.product(TARGETS, MAKERS):
        for planted in itertools.islice(filter(moved, MAKERS[name](models[target])), EACH):
            first = asked(planted).reasons[0]
            assert (first.kind, first.name) == (planted.kind, planted.name), (target, first.text)
            count += 1
    assert count >= 25


@pytest.mark.parametrize("raised", [1.0, 20.0])
def test_one_dear_pair_of_an_edge_is_named_wherever_it_is(
    models: dict[str, Lowered], raised: float
) -> None:
    for target in TARGETS:
        found = [*filter(moved, raised_entries(models[target], raised))]
        assert found
        for planted in found:
            first = asked(planted).reasons[0]
            assert (first.kind, first.name) == ("edge", planted.name), (target, first.text)


@pytest.mark.parametrize("maker", [raised_nodes, raised_edges])
def test_a_difference_is_that_of_two_independent_solves(
    models: dict[str, Lowered], maker: Callable[[Lowered], Iterator[Planted]]
) -> None:
    for planted in itertools.islice(filter(moved, maker(models["torch"])), EACH):
        problem, rival = planted.case.posed.problem, asked(planted)
        every = [np.arange(size) for size in problem.sizes]
        held = list(every)
        held[planted.node] = Subject(planted.case, planted.node).alike(planted.candidate)
        costs = []
        for allowed in (every, held):
            own = replace(restricted(problem, allowed), memory_limit_bytes=math.inf)
            costs.append(solver_by_name("portfolio").solve(own, Budget(), None).cost_s)
        assert rival.delta_s is not None
        assert rival.delta_s == pytest.approx(costs[1] - costs[0], rel=1e-9, abs=1e-15)
        assert math.fsum(rival.delta_by_cause.values()) == pytest.approx(rival.delta_s, rel=1e-9)
        assert rival.fixed_delta_s >= rival.delta_s * (1 - 1e-9)


def test_what_a_candidate_costs_is_the_sum_of_its_parts(models: dict[str, Lowered]) -> None:
    planted = next(raised_edges(models["mindspore"]))
    found = explained(planted.case, planted.node)
    for each in (found.chosen, *found.rivals):
        assert math.fsum(part.time_s for part in each.parts) == pytest.approx(each.local_s)
    assert found.chosen.delta_s == 0.0
    deltas = [each.delta_s for each in found.rivals if each.delta_s is not None]
    assert deltas == sorted(deltas)
    assert min(deltas) >= 0.0


def test_memory_has_a_price_only_where_it_binds(models: dict[str, Lowered]) -> None:
    bound = next(limited(models["torch"], 0.7))
    tight = explained(bound.case, bound.node, rivals=0).memory
    assert tight.is_binding
    assert tight.price_s_per_gib > 0
    free = next(pinned(models["torch"]))
    loose = explained(free.case, free.node, rivals=0).memory
    assert not loose.is_binding
    assert loose.price_s_per_gib == 0.0


def test_an_explanation_is_plain_json(models: dict[str, Lowered]) -> None:
    import json  # noqa: PLC0415

    planted = next(raised_nodes(models["torch"]))
    record = explained(planted.case, planted.node).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
