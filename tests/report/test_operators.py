"""Equal operators and parameters are told together, with all that they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ir.plan import NamedLayout, Plan
from report.operators import operator_groups, parameter_groups, recomputed_groups
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast


@pytest.fixture
def plan() -> Plan:
    return tiny_plan()


def test_operators_that_are_split_alike_are_one_group(plan: Plan) -> None:
    groups = operator_groups(plan)
    assert [(g.label, g.where, g.count, g.compute_s) for g in groups] == [
        ("MatMul", "layers.*.proj", 2, 0.5),
        ("Softmax", "head", 1, 0.5),
    ]


def test_operators_that_are_split_differently_are_two_groups(plan: Plan) -> None:
    first, second, *rest = plan.operators
    other = replace(second, outputs=(NamedLayout(((), (), ())),))
    groups = operator_groups(replace(plan, operators=(first, other, *rest)))
    assert sorted(g.where for g in groups) == ["head", "layers.0.proj", "layers.1.proj"]


def test_what_an_operator_sends_counts_as_far_as_it_is_exposed(plan: Plan) -> None:
    sent = replace(plan.collectives[0], operator="op1", time_s=0.5, hidden_s=0.375)
    first, second = operator_groups(replace(plan, collectives=(sent,)))
    assert (first.label, first.communication_s, first.time_s) == ("MatMul", 0.125, 0.625)
    assert second.communication_s == 0.0


def test_parameters_that_lie_alike_are_one_group(plan: Plan) -> None:
    (group,) = parameter_groups(plan)
    assert (group.where, group.count) == ("layers.*.proj.weight", 2)
    assert group.nbytes == 2 * 1024 * 1024 * 2
    assert group.layouts == "[server*card0,card1] -> [-,card1]"


def test_recomputed_tensors_are_told_by_their_operators(plan: Plan) -> None:
    assert recomputed_groups(plan) == (("MatMul at layers.*.proj", 2),)
