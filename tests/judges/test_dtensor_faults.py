"""Plans changed behind the planner's back: the judge says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from executors.judgement import Judgement
from executors.reference import given_tensors
from executors.torch import judge, judge_all
from executors.values import numbers
from ir.plan import NamedLayout, Plan, PlannedCollective
from planner.request import SearchRequest
from tests.judges import dtensor_nets as nets
from tests.judges.schemes import SHARDED, TENSOR, TWO_D, plans

TRAINING = SearchRequest(target="torch", training=True)


@pytest.fixture
def plan() -> Plan:
    return plans(nets.attention_block(8, 8, 8, 8), 8, TRAINING, wanted=[TWO_D])[TWO_D]


def counts_of(plan: Plan) -> Judgement:
    return judge(plan, {}, processes=False)


def _with_operator(plan: Plan, index: int, **changes: object) -> Plan:
    changed = replace(plan.operators[index], **changes)  # type: ignore[arg-type]
    return replace(plan, operators=(*plan.operators[:index], changed, *plan.operators[index + 1 :]))


def test_the_plan_as_it_is_is_confirmed(plan: Plan) -> None:
    assert counts_of(plan).passed


def _variants(layout: NamedLayout, axes: Sequence[str]) -> Iterator[NamedLayout]:
    """Layouts in which one axis less or more splits a dimension, or one sum is complete."""
    used = {axis for dim in layout.dims for axis in dim} | set(layout.partial)
    for index, dim in enumerate(layout.dims):
        before, after = layout.dims[:index], layout.dims[index + 1 :]
        if dim:
            yield replace(layout, dims=(*before, (), *after))
        for axis in axes:
            if axis not in used:
                yield replace(layout, dims=(*before, (*dim, axis), *after))
    for axis in layout.partial:
        yield replace(layout, partial=tuple(a for a in layout.partial if a != axis))


def _changed_operators(plan: Plan, axes: Sequence[str]) -> Iterator[Plan]:
    for index, op in enumerate(plan.operators):
        for side in ("inputs", "outputs"):
            layouts = getattr(op, side)
            for place, layout in enumerate(layouts):
                for other in _variants(layout, axes) if layout is not None else ():
                    changed = (*layouts[:place], other, *layouts[place + 1 :])
                    yield _with_operator(plan, index, **{side: changed})


def _changed_tensors(plan: Plan, axes: Sequence[str]) -> Iterator[Plan]:
    for index, tensor in enumerate(plan.tensors):
        if tensor.role == "input":  # how data arrive is not the planner's decision
            continue
        for side in ("layout", "gradient"):
            layout = getattr(tensor, side)
            for other in _variants(layout, axes) if layout is not None else ():
                changed = replace(tensor, **{side: other})  # type: ignore[arg-type]
                tensors = (*plan.tensors[:index], changed, *plan.tensors[index + 1 :])
                yield replace(plan, tensors=tensors)


@pytest.mark.parametrize("scheme", [TENSOR, TWO_D, SHARDED])
def test_any_layout_that_is_another_one_is_a_difference(scheme: str) -> None:
    plan = plans(nets.attention_block(8, 8, 8, 8), 8, TRAINING, wanted=[scheme])[scheme]
    axes = [name for name, _, _ in plan.mesh]
    operators = [*_changed_operators(plan, axes)][::3]
    changed = [*operators, *_changed_tensors(plan, axes)]
    assert len(changed) > 20
    for each in changed:
        assert not counts_of(each).passed


def test_a_gather_of_what_is_whole_already_is_a_difference() -> None:
    """DTensor could be led to slice a tensor and to gather it again."""
    request = SearchRequest(target="torch", training=False)
    plan = plans(nets.mlp(3, 64, 64, 64), 64, request, wanted=[SHARDED])[SHARDED]
    assert counts_of(plan).passed
    index = next(i for i, t in enumerate(plan.tensors) if t.role == "parameter")
    rest = plan.tensors[index].layout
    whole = NamedLayout(((),) * len(rest.dims))
    assert whole != rest
    changed = replace(plan.tensors[index], layout=whole)
    tensors = (*plan.tensors[:index], changed, *plan.tensors[index + 1 :])
    assert not counts_of(replace(plan, tensors=tensors)).passed


def test_the_judge_says_which_layout_it_found(plan: Plan) -> None:
    index = next(i for i, op in enumerate(plan.operators) if op.kind == "MatMul")
    whole = NamedLayout(((), (), ()))
    judgement = counts_of(_with_operator(plan, index, outputs=(whole,)))
    assert "the plan says [-, -, -]" in judgement.not_run[plan.operators[index].name]


def test_an_operator_that_splits_something_else_is_a_difference(plan: Plan) -> None:
    for index, op in enumerate(plan.operators):
        if op.kind == "MatMul":
            split = tuple((axis, -1) for axis, _ in op.split)
            assert not counts_of(_with_operator(plan, index, split=split)).passed


@pytest.mark.parametrize("changes", [{"kind": "all_to_all"}, {"nbytes": 8.0}, {"count": 2}])
def test_a_message_that_is_another_one_is_a_difference(
    plan: Plan, changes: dict[str, object]
) -> None:
    items: list[PlannedCollective] = list(plan.collectives)
    items[0] = replace(items[0], **changes)  # type: ignore[arg-type]
    assert not counts_of(replace(plan, collectives=tuple(items))).passed


def test_a_message_that_the_plan_forgets_is_a_difference(plan: Plan) -> None:
    for index in range(len(plan.collectives)):
        items = (*plan.collectives[:index], *plan.collectives[index + 1 :])
        assert not counts_of(replace(plan, collectives=items)).passed


def test_numbers_of_a_changed_plan_are_not_confirmed() -> None:
    """On processes: the same layouts, one operator that splits something else."""
    plan = plans(nets.mlp(3, 8, 16, 32), 2, TRAINING, wanted=[TENSOR])[TENSOR]
    values = numbers(plan.graph, given_tensors(plan), {})
    index = next(i for i, op in enumerate(plan.operators) if any(f >= 0 for _, f in op.split))
    split = tuple((axis, -1) for axis, _ in plan.operators[index].split)
    right, wrong = judge_all([(plan, values), (_with_operator(plan, index, split=split), values)])
    assert right.passed
    assert right.outputs
    assert not wrong.passed
