"""Few changes of an older plan, soft pins, degrees of parts, layouts at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ir.plan import Plan
from planner.candidates.operators import splits_in
from planner.constraints.degrees import parse_degrees
from planner.request import RequestError, SearchRequest
from planner.requests.errors import UserError
from planner.requests.search_request import kept_close, split_pins
from planner.requests.sources import Document
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_machine

GRAPH = mlp(2)
CLUSTER = named_machine("atlas-800t-a2").cluster(16)
PIN = ("op_matmul_0", ((16, 1), (1, 1)))


def planned(request: SearchRequest) -> Plan:
    return search(GRAPH, CLUSTER, request)


def close(request: SearchRequest, old: Plan, most: int) -> Plan:
    asked = replace(request, close_to=splits_in(old), close_mesh=old.mesh, max_changes=most)
    return planned(asked)


def differing(plan: Plan, old: Plan) -> list[str]:
    before = dict(splits_in(old))
    return [name for name, cuts in splits_in(plan) if before[name] != cuts]


def test_more_changes_are_never_slower_and_never_more_than_allowed() -> None:
    request = SearchRequest()
    old, best = planned(replace(request, degrees=(("tp", 2),))), planned(request)
    times = []
    for most in (0, 1, 3):
        found = close(request, old, most)
        assert found.mesh == old.mesh
        assert len(differing(found, old)) <= most
        assert found.bound.bound_s <= found.estimate.step_time_s
        assert found.bound.proof == "optimal"
        times.append(found.estimate.step_time_s)
    assert times == sorted(times, reverse=True)
    assert times[0] <= old.estimate.step_time_s * (1 + 1e-12)
    assert times[-1] >= best.estimate.step_time_s * (1 - 1e-12)


@pytest.mark.fast
def test_enough_changes_give_the_best_plan() -> None:
    request = SearchRequest()
    old = planned(replace(request, degrees=(("dp", 16),)))
    best = planned(request).estimate.step_time_s
    found = close(request, old, 99)
    assert found.estimate.step_time_s == pytest.approx(best, rel=1e-12)


def test_a_change_is_made_where_it_is_worth_most() -> None:
    """With one change allowed, no single operator is better left to change."""
    request = SearchRequest()
    old = planned(replace(request, degrees=(("tp", 2),)))
    splits = splits_in(old)
    one = close(request, old, 1).estimate.step_time_s
    held = replace(request, close_mesh=old.mesh, max_changes=0)
    alone = [
        planned(
            replace(held, close_to=tuple(each for each in splits if each[0] != name))
        ).estimate.step_time_s
        for name, _ in splits
    ]
    assert one == pytest.approx(min(alone), rel=1e-12)


def test_a_soft_pin_is_kept_exactly_where_it_costs_less_than_its_weight() -> None:
    request = SearchRequest()
    best = planned(request).estimate.step_time_s
    price = planned(replace(request, pins=(PIN,))).estimate.step_time_s - best
    assert price > 0
    for weight, kept in ((price * 0.99, False), (price * 1.01, True)):
        found = planned(replace(request, soft_pins=((*PIN, weight),)))
        assert found.estimate.step_time_s == pytest.approx(best + price * kept, rel=1e-12)
        assert found.estimate.step_time_s == pytest.approx(sum(
            found.estimate.time_by_cause.values()))  # fmt: skip
        assert found.notes[0].startswith("1 of 1" if kept else "0 of 1")
        assert found.bound.bound_s <= found.estimate.step_time_s * (1 + 1e-12)


def test_pins_with_a_price_are_told_from_the_others() -> None:
    hard, soft = split_pins(["a=((2,1),)", "b=((1,2),)@0.5", "m@odel/c=((4,),)"])
    assert hard == ["a=((2,1),)", "m@odel/c=((4,),)"]
    assert soft == (("b", ((1, 2),), 0.5),)
    for wrong in ("b=((1,2),)@0", "b=((1,2),)@x", "b=((1,2),)@nan"):
        with pytest.raises(UserError, match="no price"):
            split_pins([wrong])


def test_an_older_plan_and_a_number_go_together() -> None:
    document = Document("plan.json", "{}")
    for plan, most in ((document, None), (None, 3), (document, -1)):
        with pytest.raises(UserError, match="go together"):
            kept_close(SearchRequest(), plan, most)
    assert kept_close(SearchRequest(), None, None) == SearchRequest()


@pytest.mark.parametrize("text", ["tp", "tp=0", "tp=x", "tp=2,tp=4", "xp=2", "zero3=4", ""])
def test_degrees_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(RequestError):
        parse_degrees(text, "--why-not")


def test_parameters_rest_as_given() -> None:
    found = planned(SearchRequest(rests=(("layers.0.weight", (16, 1)),)))
    rest = next(t for t in found.parameters if t.name == "layers.0.weight")
    assert [len(dim) > 0 for dim in rest.layout.dims] == [True, False]
    with pytest.raises(RequestError, match="cannot rest"):
        planned(SearchRequest(rests=(("layers.0.weight", (3, 1)),)))
