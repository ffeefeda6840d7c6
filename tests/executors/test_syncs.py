"""Gradients that are reduced apart from the graph of a micro-batch."""

from __future__ import annotations

from collections import Counter

import pytest

from executors.matching import one_stage
from executors.reference import given_tensors
from executors.syncs import late_syncs
from executors.torch_differences import differences
from executors.values import numbers
from executors.verdict import verify
from ir.plan import Plan
from ir.plan_enums import Cause
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from tests.executors.drawn_plans import drawn_plan
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


def planned(zero: int, micro_batch: int) -> Plan:
    asked = SearchRequest(
        target="torch", global_batch=64, micro_batch=str(micro_batch), zero=str(zero),
        degrees=(("dp", 2),), pipeline="off",
    )  # fmt: skip
    return search(mlp(2), named_cluster("dgx-h100", 2), asked)


@pytest.mark.parametrize(
    ("zero", "micro_batch", "late", "once"),
    [(0, 64, False, False), (0, 32, True, True), (1, 32, True, True), (2, 32, True, False),
     (1, 64, True, False), (3, 32, False, False)],
)  # fmt: skip
def test_what_waits_for_other_micro_batches_or_lies_elsewhere_is_reduced_apart(
    zero: int, micro_batch: int, late: bool, once: bool
) -> None:
    plan = planned(zero, micro_batch)
    assert plan.pipeline.micro_batches == 64 // micro_batch
    found = late_syncs(plan)
    assert set(found) == ({p.name for p in plan.parameters} if late else set())
    assert {each.once for each in found.values()} <= {once}
    assert all((each.rest != each.used) == (zero in {1, 2}) for each in found.values())


def test_the_graph_of_a_micro_batch_leaves_these_gradients_as_they_are() -> None:
    plan = planned(1, 32)
    own, syncs = one_stage(plan), late_syncs(plan)
    apart = {Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS}
    assert not any(c.cause in apart and c.tensor in syncs for c in own.collectives)
    for tensor in own.parameters:
        assert tensor.gradient == syncs[tensor.name].before
        assert tensor.gradient is not None
        assert tensor.gradient.partial


def test_what_is_applied_is_no_difference() -> None:
    said = "\n".join(differences(planned(2, 32)))
    assert "ZeRO" not in said
    assert "2 micro-batches" in said


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", ["generic", "torch", "mindspore"])
def test_every_state_of_one_batch_rests_as_planned_for_the_same_messages(
    target: str, seed: int
) -> None:
    asked = SearchRequest(target=target, training=True)
    plan = drawn_plan(attention_block(8, 8, 8, 8), 8, asked, seed, zero="1")
    own, syncs = one_stage(plan), late_syncs(plan)
    states = {t.name: t.states for t in plan.parameters if t.states is not None}
    assert {n: each.rest for n, each in syncs.items()} == states
    apart = [c for each in syncs.values() for c in (*each.reduce, *each.gather)]
    assert not any(c.cause == Cause.UPDATED_PARAMETERS for c in own.collectives)
    assert Counter((*own.collectives, *apart)) == Counter(plan.collectives)
    values = numbers(own.graph, given_tensors(own), {})
    verdict = verify(own, values)
    assert max(output.error for output in verdict.outputs) <= verdict.tolerance
