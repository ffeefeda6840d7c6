"""Laws of whole plans."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from costmodel.memory import Optimizer
from ir.graph import OpGraph
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from planner.pipeline.one_batch import search_batch
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster

FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)


def step_s(graph: OpGraph, request: SearchRequest, *, scale: float = 1.0) -> float:
    cluster = named_cluster("atlas-800t-a2", 16)
    for tier in cluster.tiers:
        cluster = cluster.with_bandwidth(tier.name, scale)
    return search(graph, cluster, request).estimate.step_time_s


@pytest.mark.parametrize("target", ["mindspore", "generic"])
@pytest.mark.parametrize("training", [True, False])
def test_time_and_memory_by_cause_sum_to_the_whole(target: str, training: bool) -> None:
    request = replace(FAST, target=target, training=training)
    plan = search(attention_block(batch=32), named_cluster("atlas-800t-a2", 16), request)
    estimate = plan.estimate
    assert sum(estimate.time_by_cause.values()) == pytest.approx(estimate.step_time_s, rel=1e-9)
    assert sum(estimate.memory_by_cause.values()) == pytest.approx(estimate.peak_memory_bytes)
    assert plan.bound.bound_s <= estimate.step_time_s
    assert plan.space.candidates > plan.space.nodes


@pytest.mark.parametrize("target", ["mindspore", "generic"])
def test_more_bandwidth_never_makes_the_optimum_slower(target: str) -> None:
    request = replace(FAST, target=target)
    times = [step_s(attention_block(), request, scale=s) for s in (0.5, 1.0, 2.0, 4.0)]
    assert times == sorted(times, reverse=True)


def test_more_memory_never_makes_the_answer_slower() -> None:
    graph = mlp(4, batch=65536, width=1024, hidden=8192)
    free = search(graph, named_cluster("atlas-800t-a2", 8), replace(FAST, overlap="none"))
    peak = free.estimate.peak_memory_bytes
    # With overlap micro-batches, tried where one batch is too large, may be faster than it.
    request = replace(FAST, target="generic", overlap="none")
    times = []
    for share in (0.8, 0.9, 1.5):
        limited = replace(request, memory_limit_bytes=peak * share)
        plan = search(graph, named_cluster("atlas-800t-a2", 8), limited)
        assert plan.estimate.peak_memory_bytes <= peak * share
        times.append(plan.estimate.step_time_s)
    assert times == sorted(times, reverse=True)


def test_the_free_space_holds_everything_that_cut_counts_can_say_on_one_tier() -> None:
    graph = attention_block(batch=32)
    cluster = named_cluster("atlas-800t-a2", 4)
    free = search(graph, cluster, replace(FAST, target="generic")).estimate.step_time_s
    cuts = search(graph, cluster, replace(FAST, target="mindspore")).estimate.step_time_s
    assert free <= cuts


def test_a_plan_survives_its_file() -> None:
    plan = search(mlp(3), named_cluster("dgx-a100", 8), replace(FAST, target="generic"))
    text = plan_to_json(plan)
    assert plan_to_json(plan_from_json(text)) == text


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(version=99),
        lambda d: d.update(format="else"),
        lambda d: d.pop("estimate"),
        lambda d: d.update(surprise=1),
        lambda d: d["graph"].pop("ops"),
        lambda d: d["mesh"].append(["x"]),
    ],
)
def test_a_damaged_plan_is_refused_with_one_message(damage: object) -> None:
    request = replace(FAST, target="jax")
    data = json.loads(plan_to_json(search(mlp(2), named_cluster("dgx-a100", 4), request)))
    damage(data)  # type: ignore[operator]
    with pytest.raises(PlanFileError):
        plan_from_json(json.dumps(data))


SCRIPT = """
from dataclasses import replace
from ir.plan_file import plan_to_json
from planner.search import search
from tests.builders import attention_block
from tests.planner.test_plans import FAST
from topology.catalogue import named_cluster
import hashlib, sys
limit = float(sys.argv[2])
request = replace(FAST, solver="portfolio", threads=int(sys.argv[1]), memory_limit_bytes=limit)
plan = search(attention_block(batch=64), named_cluster("atlas-800t-a2", 16), request)
print(hashlib.sha256(plan_to_json(plan).encode()).hexdigest())
"""


def test_equal_input_and_effort_give_equal_bytes() -> None:
    graph = attention_block(batch=64)
    free = search(graph, named_cluster("atlas-800t-a2", 16), FAST)
    limit = free.estimate.peak_memory_bytes * 0.9
    seen = set()
    for hash_seed, threads in (("0", "1"), ("1", "2")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, threads, str(limit)],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_what_does_not_fit_says_how_much_and_what_would() -> None:
    graph = mlp(2, batch=64, width=65536, hidden=65536)
    with pytest.raises(InfeasibleError) as caught:
        search(graph, named_cluster("atlas-800t-a2", 1), FAST)
    error = caught.value
    assert error.needed_bytes > error.available_bytes
    assert error.contributors["optimizer state"] == pytest.approx(2 * 65536**2 * 8)
    assert any("--devices" in r for r in error.remedies)
    assert any("--optimizer sgd" in r for r in error.remedies)


def test_activations_that_do_not_fit_are_named() -> None:
    graph = mlp(4, batch=2**20, width=4096, hidden=16384)
    request = replace(FAST, optimizer=Optimizer.SGD)
    with pytest.raises(InfeasibleError) as caught:
        search_batch(graph, named_cluster("atlas-800t-a2", 2), request)
    assert (
        max(caught.value.contributors, key=lambda c: caught.value.contributors[c]) == "activations"
    )
    assert any("--batch" in r for r in caught.value.remedies)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": "pytorch"}, "no target 'pytorch'"),
        ({"dtype": "bf16"}, "--dtype fp16"),
        ({"dataset_strategy": ((8, 1), (8, 1))}, "2 entries"),
        ({"dataset_strategy": ((5, 1),)}, "does not split 5 ways"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        search(mlp(2), named_cluster("atlas-800-9000", 8), replace(FAST, **change))  # type: ignore[arg-type]


def test_inputs_arrive_split_over_the_axes_that_divide_them() -> None:
    plan = search(mlp(2, batch=6), named_cluster("atlas-800t-a2", 16), FAST)
    (entry,) = [t for t in plan.tensors if t.role == "input"]
    assert str(entry.layout) == "[server, -]"
    assert any("6 rows" in note for note in plan.notes)
    whole = replace(FAST, dataset_strategy="full_batch")
    plan = search(mlp(2, batch=6), named_cluster("atlas-800t-a2", 16), whole)
    (entry,) = [t for t in plan.tensors if t.role == "input"]
    assert str(entry.layout) == "[-, -]"


def test_buffers_of_communication_groups_beyond_the_reserve_count_as_memory() -> None:
    graph = mlp(4, batch=65536, width=1024, hidden=8192)
    cluster = named_cluster("atlas-800t-a2", 16)
    plain = search(graph, cluster, FAST)
    groups = plain.estimate.communicators
    assert groups == len({frozenset(c.axes) for c in plain.collectives})
    greedy = replace(cluster, communicator_buffer_bytes=8 * 2**30)
    plan = search(graph, greedy, FAST)
    estimate = plan.estimate
    beyond = estimate.communicator_bytes - greedy.reserved_memory_bytes
    assert estimate.memory_by_cause["communication buffers"] == beyond > 0
    assert estimate.peak_memory_bytes <= estimate.memory_limit_bytes
    assert sum(estimate.memory_by_cause.values()) == pytest.approx(estimate.peak_memory_bytes)
