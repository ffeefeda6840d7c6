"""Plans and conventional layouts keep the same bytes of the same parameters, with any optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from costmodel.memory import Optimizer, parameter_bytes
from costmodel.operators import OperatorModel
from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.table import RunTable
from importers.hf_config import import_config
from importers.sizes import configuration
from ir.graph import OpGraph
from ir.plan_enums import MemoryCause
from ir.plan_file import plan_from_json, plan_to_json
from planner.request import InfeasibleError, SearchRequest
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.errors import UserError
from planner.requests.option_texts import OPTIMIZERS
from planner.requests.options.searches import SearchOptions
from planner.requests.options.simulations import LayoutOptions
from planner.requests.search_request import search_request
from planner.search import search
from tests.builders import mlp
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster
from topology.mesh import tier_mesh

EVERY = list(Optimizer)
SMALL = {
    "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1024, "head_dim": 64,
}  # fmt: skip


def small_llama() -> Mapping[str, object]:
    return {**dict(configuration("llama3-8b")), **SMALL, "torch_dtype": "bfloat16"}


def graph_of(config: Mapping[str, object]) -> OpGraph:
    return import_config(config, "model", "model", {"batch": 2, "sequence": 128})


def test_the_names_of_options_are_the_optimizers() -> None:
    assert tuple(o.value for o in EVERY) == OPTIMIZERS


@pytest.mark.parametrize("optimizer", EVERY)
def test_a_plan_and_a_layout_keep_the_same_states(optimizer: Optimizer) -> None:
    """But for the normalisation behind the last layer, which layouts do not count."""
    config = small_llama()
    request = SearchRequest(optimizer=optimizer, target="generic")
    plan = search(graph_of(config), named_cluster("dgx-h100", 1), request)
    asked = LayoutOptions(
        layout="batch=2,micro=2,seq=128", cluster="dgx-h100", optimizer=optimizer.value
    )
    run = run_of_layout(asked, config, "small")
    use = memory_use(RunTable.of([run]), MemoryConstants(gradient_bytes=2.0))
    norm = parameter_bytes("bfloat16", optimizer, training=True, dims=(256,))
    held = plan.estimate.memory_by_cause
    for cause, by_sizes, more in (
        (MemoryCause.OPTIMIZER_STATE, use.optimizer, norm.states),
        (MemoryCause.WEIGHTS, use.parameters, norm.weight),
        (MemoryCause.GRADIENTS, use.gradients, norm.gradient),
    ):
        assert held.get(cause, 0.0) == pytest.approx(by_sizes[0] + 256 * more, rel=1e-12)


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("optimizer", EVERY)
def test_a_plan_of_a_small_network_holds_what_is_counted_by_hand(
    optimizer: Optimizer, micro_batches: int
) -> None:
    """Also where micro-batches let states rest elsewhere than parameters."""
    cluster = named_cluster("atlas-800t-a2", 1)
    graph = mlp(3, batch=64, width=128, hidden=512)
    request = SearchRequest(optimizer=optimizer, target="generic")
    if micro_batches > 1:
        request = replace(request, global_batch=64, micro_batch=str(64 // micro_batches))
    plan = search(graph, cluster, request)
    whole, moments = 128 * 512, {"sgd": 0, "none": 0, "momentum": 1, "adagrad": 1}
    elements = {
        "adafactor": 3 * (128 + 512),
        "muon": (1 + 1 + 2) * whole,
    }.get(optimizer, 3 * whole * moments.get(optimizer, 2))
    held = plan.estimate.memory_by_cause
    assert held.get(MemoryCause.OPTIMIZER_STATE, 0.0) == pytest.approx(4 * elements)
    assert held[MemoryCause.WEIGHTS] == held[MemoryCause.GRADIENTS] == 3 * 4 * whole


def test_muon_spends_the_time_of_its_products() -> None:
    """Five steps of three products for each matrix but the last, after the bytes that it moves."""
    cluster = named_cluster("atlas-800t-a2", 1)
    graph = mlp(3, batch=64, width=128, hidden=512)
    request = SearchRequest(optimizer=Optimizer.MUON, target="generic")
    lowered = lowered_on(graph, cluster, tier_mesh(cluster), request)
    spent = sum(
        lowered.problem.node_tables[lowered.problem.node_table_of[number]].time_s[0]
        for number, node in enumerate(lowered.nodes)
        if node.kind == "parameter"
    )
    model = OperatorModel(cluster.chip, smooth=True)
    products = ((128, 128, 512), (128, 128, 128), (128, 512, 128))
    one = 5 * sum(float(model.matmul_s("bfloat16", *sizes)) for sizes in products)
    moved = [
        parameter_bytes("float32", each, training=True).moved_by_update
        for each in (Optimizer.MUON, Optimizer.MUON, Optimizer.ADAMW)
    ]
    streamed = model.stream_s(np.array(128 * 512 * math.fsum(moved)))
    assert spent == pytest.approx(2 * one + float(streamed))


@pytest.mark.parametrize("optimizer", [Optimizer.ADAMW, Optimizer.MUON, Optimizer.ADAFACTOR])
def test_stages_update_each_parameter_as_one_stage_does(optimizer: Optimizer) -> None:
    """A stage without an end of the network does not take its last matrix for one."""
    graph = graph_of({**small_llama(), "num_hidden_layers": 3})
    request = SearchRequest(optimizer=optimizer, target="generic")
    one = search(graph, named_cluster("dgx-h100", 1), request)
    stages = replace(request, global_batch=3, pipeline="3", micro_batch="1", interleave="1")
    staged = search(graph, named_cluster("dgx-h100", 3), stages)
    assert len(staged.pipeline.stages) == 3
    alone, apart = ({t.name: t.update_s for t in plan.parameters} for plan in (one, staged))
    assert apart == pytest.approx(alone)


@pytest.mark.parametrize("optimizer", EVERY)
def test_plain_sgd_is_a_remedy_for_what_keeps_moments(optimizer: Optimizer) -> None:
    request = SearchRequest(optimizer=optimizer, target="generic", memory_limit_bytes=1e5)
    with pytest.raises(InfeasibleError) as error:
        search(mlp(3), named_cluster("atlas-800t-a2", 1), request)
    named = any("--optimizer sgd" in remedy for remedy in error.value.remedies)
    assert named == (optimizer not in {Optimizer.SGD, Optimizer.NONE, Optimizer.ADAFACTOR})


@pytest.mark.parametrize("optimizer", EVERY)
def test_a_plan_file_keeps_its_optimizer(optimizer: Optimizer) -> None:
    request = SearchRequest(optimizer=optimizer, target="generic")
    plan = search(mlp(2), named_cluster("atlas-800t-a2", 2), request)
    assert plan_from_json(plan_to_json(plan)).request["optimizer"] == optimizer.value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("adam-w", "adamw"), ("mumon", "muon"), ("adafacter", "adafactor"), ("lambda", "lamb"),
     ("Momentum", "momentum"), ("AdaGrad", "adagrad")],
)  # fmt: skip
def test_an_unknown_optimizer_is_refused_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{meant}'"):
        search_request(SearchOptions(optimizer=typed))
    asked = LayoutOptions(layout="dp=2", cluster="dgx-h100", optimizer=typed)
    with pytest.raises(UserError, match=f"did you mean '{meant}'"):
        run_of_layout(asked, small_llama(), "small")
