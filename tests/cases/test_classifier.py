"""A million classes, the loss in small operators: only numbers per sample are reduced."""

from __future__ import annotations

import pytest

from costmodel.memory import Optimizer
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_enums import Cause
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.cases import nets
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

BATCH, CLASSES, DEVICES = 256, 1 << 20, 8
TARGETS = ["generic", "mindspore"]


def classifier(batch: int = BATCH, classes: int = CLASSES) -> OpGraph:
    build = GraphBuilder("classifier", "bfloat16")
    x = nets.dense(build, build.input("x", (batch, 2048)), "trunk", 512, act="Relu", bias=False)
    x = nets.dense(build, x, "head", classes, bias=False)
    return build.build(nets.softmax_loss(build, x))


def planned(target: str, *, training: bool) -> Plan:
    request = SearchRequest(
        training=training,
        optimizer=Optimizer.SGD,
        target=target,
        dataset_strategy=((DEVICES, 1), (1, DEVICES)),
    )
    return search(classifier(), named_cluster("dgx-a100", DEVICES), request)


@pytest.mark.parametrize("target", TARGETS)
def test_few_classes_of_many_samples_are_not_split(target: str) -> None:
    """The pattern of ms_resnet50_*: the last layer changes its split at some number of classes."""
    request = SearchRequest(optimizer=Optimizer.SGD, target=target)
    plan = search(classifier(1 << 16, 1024), named_cluster("dgx-a100", DEVICES), request)
    (head,) = (op for op in plan.operators if op.name == "op_head")
    assert head.inputs[1] is not None
    assert not any(head.inputs[1].dims)


def per_sample(plan: Plan) -> list[tuple[str, str, int]]:
    """Reductions of a number for each sample: operator or tensor, cause and times a step."""
    return [
        (c.operator, c.cause, c.count)
        for c in plan.collectives
        if c.kind == "all_reduce"
        and c.nbytes in {BATCH * 2, BATCH * 4}
        and c.cause != Cause.GRADIENT_SYNC
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("training", [True, False])
def test_the_classes_are_split_and_logits_stay_where_they_are(target: str, training: bool) -> None:
    plan = planned(target, training=training)
    (head,) = (op for op in plan.operators if op.name == "op_head")
    sizes = {name: size for name, size, _ in plan.mesh}
    pieces = 1
    for axis in head.inputs[1].dims[1] if head.inputs[1] else ():
        pieces *= sizes[axis]
    assert pieces == DEVICES
    logits_on_a_device = BATCH * CLASSES // DEVICES * 2
    assert all(c.nbytes < logits_on_a_device / 10 for c in plan.collectives)


@pytest.mark.parametrize("target", TARGETS)
def test_a_forward_pass_reduces_three_numbers_of_each_sample(target: str) -> None:
    """The largest logit, the sum of powers, the logit of the label."""
    found = per_sample(planned(target, training=False))
    assert len(found) == 3
    assert [count for _, _, count in found] == [1, 1, 1]


@pytest.mark.parametrize("target", TARGETS)
def test_training_lists_three_reductions_inside_the_loss(target: str) -> None:
    inside = [r for r in per_sample(planned(target, training=True)) if r[1] == Cause.INSIDE]
    assert len(inside) == 3
    assert inside[0][0] == "op_top"
    assert len({operator for operator, _, _ in inside[1:]}) == 1


def test_mindspore_reduces_nothing_else_of_each_sample() -> None:
    assert len(per_sample(planned("mindspore", training=True))) == 3


def test_a_free_target_reduces_nothing_else_of_each_sample() -> None:
    assert len(per_sample(planned("generic", training=True))) == 3


def test_the_gradient_of_the_last_sum_needs_no_message() -> None:
    found = per_sample(planned("generic", training=True))
    assert sorted(count for _, cause, count in found if cause == Cause.INSIDE) == [1, 1, 2]
