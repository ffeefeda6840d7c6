"""The reason that is named is the one that was planted, and differences are those of two solves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import planner.explain.operator as operator_module
from planner.explain.operator import explained
from planner.explain.reasons import Subject
from planner.lowering.lowered import Lowered
from planner.reduction.restriction import restricted
from planner.solvers import Budget, solver_by_name
from report.explanation import Candidate
from tests.builders import mlp
from tests.planner.explain.planted import (
    Planted,
    limited,
    lowered_model,
    moved,
    operators,
    pinned,
    raised_edges,
    raised_entries,
    raised_nodes,
    solved,
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


@pytest.mark.parametrize(("raised", "within"), [(0.1, 2), (1.0, 1), (20.0, 1)])
def test_one_dear_pair_of_an_edge_is_named_wherever_it_is(
    models: dict[str, Lowered], raised: float, within: int
) -> None:
    """First; a small one, beside which others keep the candidate away too, among the two shown."""
    for target in TARGETS:
        found = [*filter(moved, raised_entries(models[target], raised))]
        assert found
        for planted in found:
            named = [(reason.kind, reason.name) for reason in asked(planted).reasons[:within]]
            assert ("edge", planted.name) in named, (target, named)


@pytest.mark.parametrize("maker", [raised_nodes, raised_edges])
def test_a_difference_is_that_of_two_independent_solves(
    models: dict[str, Lowered], maker: Callable[[Lowered], Iterator[Planted]]
) -> None:
    for planted in itertools.islice(filter(moved, maker(models["torch"])), EACH):
        rival = assert_two_solves(planted)
        assert rival.fixed_delta_s >= (rival.delta_s or 0.0) * (1 - 1e-9)


@pytest.mark.parametrize("target", TARGETS)
def test_where_memory_binds_too(models: dict[str, Lowered], target: str) -> None:
    """Over twenty problems in both targets: reasons and differences under a limit that binds.

    Where the candidate would win without the limit, that is as good a reason as what was planted.
    """
    tight, count = within(models[target], 0.8), 0
    for name in ("node", "edge", "entry", "pin"):
        made = (each for each in MAKERS[name](tight) if each.case.plan_answer.fits)
        for planted in itertools.islice(filter(moved, made), EACH):
            first = assert_two_solves(planted).reasons[0]
            if first.kind == "memory limit":
                assert wins_without_limit(planted)
            else:
                assert (first.kind, first.name) == (planted.kind, planted.name), first.text
            count += 1
    assert count >= 3 * EACH + 1


def test_a_guide_changes_no_difference(
    models: dict[str, Lowered], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large problems are looked through near the plan; what is shown is solved as a whole."""
    monkeypatch.setattr(operator_module, "SMALL", 0)
    case = solved(within(models["torch"], 0.9))
    for number in operators(case.lowered):
        subject = Subject(case, number)
        for way in dict.fromkeys(subject.looks):
            if way != subject.looks[case.choice[number]]:
                assert_two_solves(Planted(case, number, subject.looks.index(way), "", ""))


def within(lowered: Lowered, share: float) -> Lowered:
    """The same with a share of the memory that its fastest plan needs."""
    limit = solved(lowered).plan_answer.peak_bytes * share
    return replace(lowered, problem=replace(lowered.problem, memory_limit_bytes=limit))


def wins_without_limit(planted: Planted) -> bool:
    posed = planted.case.posed.thorough().without_limit()
    ways = (Subject(planted.case, planted.node).alike(candidate)
            for candidate in (planted.candidate, planted.case.choice[planted.node]))  # fmt: skip
    there_s, stay_s = (posed.answer({planted.node: alike}).cost_s for alike in ways)
    return there_s <= stay_s * (1 + 1e-9)


def assert_two_solves(planted: Planted) -> Candidate:
    """What is shown of the candidate that was planted is what two solvers say for themselves."""
    problem, rival = planted.case.posed.problem, asked(planted)
    every = planted.case.posed.allowed()
    held = list(every)
    alike = Subject(planted.case, planted.node).alike(planted.candidate)
    held[planted.node] = np.intersect1d(held[planted.node], alike)
    if not len(held[planted.node]):
        assert rival.delta_s is None
        return rival
    found = [
        solver_by_name("portfolio").solve(restricted(problem, allowed), Budget(), None)
        for allowed in (every, held)
    ]
    if not found[1].is_answer:
        assert rival.delta_s is None
        return rival
    assert rival.delta_s is not None
    assert rival.delta_s == pytest.approx(found[1].cost_s - found[0].cost_s, rel=1e-9, abs=1e-15)
    assert math.fsum(rival.delta_by_cause.values()) == pytest.approx(rival.delta_s, rel=1e-9)
    return rival


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
    assert tight is not None
    assert tight.is_binding
    assert tight.price_s_per_gib > 0
    free = next(pinned(models["torch"]))
    loose = explained(free.case, free.node, rivals=0).memory
    assert loose is not None
    assert not loose.is_binding
    assert loose.price_s_per_gib == 0.0


def test_an_explanation_is_plain_json(models: dict[str, Lowered]) -> None:
    import json  # noqa: PLC0415

    planted = next(raised_nodes(models["torch"]))
    record = explained(planted.case, planted.node).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
