"""What another element type would change, where the model says the one that is used."""

from __future__ import annotations

import pytest

from ir.normalise import with_dtype
from ir.plan import Plan
from planner.repricing.other_size import retyped
from planner.request import SearchRequest
from planner.requests.searches import OWN_TYPE, precision_notes
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.units import format_bytes, format_seconds

pytestmark = pytest.mark.fast

CLUSTER = named_cluster("atlas-800t-a2", 8)


def planned(dtype: str, request: SearchRequest, cluster: str = "atlas-800t-a2") -> Plan:
    graph = with_dtype(mlp(3, batch=64), dtype)
    return search(graph, named_cluster(cluster, 8), request)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_plan_in_its_own_type_costs_what_it_costs(dtype: str, *, training: bool) -> None:
    plan = planned(dtype, SearchRequest(training=training))
    same = retyped(plan, CLUSTER, dtype)
    assert same.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-12)
    assert same.estimate.peak_memory_bytes == plan.estimate.peak_memory_bytes
    assert same.collectives == plan.collectives


def test_the_note_says_what_these_splits_take_in_the_usual_type() -> None:
    plan = planned("float32", SearchRequest())
    (note,) = precision_notes(plan)
    other = retyped(plan, CLUSTER, "bfloat16").estimate
    assert note.startswith(f"{OWN_TYPE}; with --dtype bf16 ")
    assert format_seconds(other.step_time_s) in note
    assert format_bytes(other.peak_memory_bytes) in note
    assert other.step_time_s < plan.estimate.step_time_s
    assert all(c.nbytes * 2 == d.nbytes for c, d in zip(
        retyped(plan, CLUSTER, "bfloat16").collectives, plan.collectives, strict=True
    ))  # fmt: skip


def test_there_is_no_note_where_somebody_chose_the_type_or_it_is_short() -> None:
    for plan in (
        planned("float32", SearchRequest(dtype="fp32")),
        planned("bfloat16", SearchRequest()),
        planned("float16", SearchRequest()),
    ):
        assert precision_notes(plan) == ()


def test_a_machine_without_bf16_is_told_of_fp16() -> None:
    plan = planned("float32", SearchRequest(target="torch"), "dgx-1v")
    assert "--dtype fp16" in precision_notes(plan)[0]
