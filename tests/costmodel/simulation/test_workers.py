"""Data-parallel plans whose devices exchange gradients through parameter servers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from costmodel.memory import Optimizer
from costmodel.simulation.parameter_server import (
    ServerError,
    Servers,
    served_rate,
    served_training,
)
from costmodel.simulation.workers import plan_workers
from ir.plan import Plan
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.cluster import Cluster

pytestmark = pytest.mark.fast

DEVICES = 16
WHOLE = (("MatMul *", ((1, 1), (1, 1))), ("Relu *", ((1, 1),)), ("Loss *", ((1, 1),)))
CLUSTER = named_cluster("dgx-a100", DEVICES)


def planned(**asked: Any) -> Plan:
    request = replace(SearchRequest(optimizer=Optimizer.SGD, target="generic"), **asked)
    return search(mlp(2), CLUSTER, request)


def data_parallel() -> Plan:
    return planned(degrees=(("dp", DEVICES),))


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 4, 16, 64])
def test_a_batch_takes_what_its_exchange_takes_beside_computation(servers: int) -> None:
    """docs/simulation.md: compute + 2 n / B max(1, W / S)."""
    plan = data_parallel()
    workers = plan_workers(plan)
    tier = Cluster.from_dict(plan.cluster).tiers[0]
    nbytes = sum(math.prod(t.dims) * 4 for t in plan.parameters)
    turn_s = nbytes / tier.bandwidth_bytes_per_s + tier.latency_s
    rate = served_rate(served_training(workers, Servers(servers)))
    assert workers.count == DEVICES
    assert workers.compute_s == pytest.approx(
        math.fsum(op.compute_s + op.recompute_s for op in plan.operators)
    )
    assert rate.step_s == pytest.approx(
        workers.compute_s + 2 * turn_s * max(1.0, DEVICES / servers)
    )
    assert workers.samples * DEVICES == plan.batch


def test_micro_batches_of_one_stage_are_the_batch_of_a_worker() -> None:
    request = SearchRequest(
        optimizer=Optimizer.SGD,
        target="generic",
        pipeline="1",
        micro_batch=str(2 * DEVICES),
        global_batch=8 * DEVICES,
        degrees=(("dp", DEVICES),),
    )
    plan = search_pipeline(mlp(2), CLUSTER, request)
    workers = plan_workers(plan)
    assert plan.pipeline.micro_batches == 4
    assert workers.samples == 8
    stage = plan.pipeline.stages[0]
    assert workers.compute_s <= 4 * (stage.forward_s + stage.backward_s) * (1 + 1e-9)


def stages() -> Plan:
    request = SearchRequest(optimizer=Optimizer.SGD, target="generic", pipeline="2",
                            global_batch=64)  # fmt: skip
    return search_pipeline(mlp(4), CLUSTER, request)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: planned(degrees=(("tp", DEVICES),)), "is used split"),
        (lambda: planned(pins=WHOLE, dataset_strategy="full_batch"), "same samples"),
        (lambda: planned(training=False), "trains nothing"),
        (stages, "pipeline stages"),
    ],
)
def test_what_is_not_data_parallel_is_refused_with_the_reason(
    make: Callable[[], Plan], words: str
) -> None:
    with pytest.raises(ServerError, match=words):
        plan_workers(make())
