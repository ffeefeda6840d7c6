"""Schemes that spread experts and split contexts: what is split, and what is sent for it."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any

import pytest

from costmodel.collectives import Collective
from importers.hf_config import import_config
from ir.batch import batch_dims
from ir.graph import Role
from ir.ops.experts import slot_tensors
from ir.published import CONTEXT_PARALLEL, DENSE, ROUTED
from planner.constraints.schemes import InexpressibleError, Scheme, choice_of
from planner.lowering.calibration_class import kind_of
from planner.lowering.lowered import Lowered
from planner.pipeline.plan_builder import PlanBuilder
from planner.request import SearchRequest
from planner.search import search
from tests.importers.configurations import SMALL
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis

SEQUENCE = 4096
"""Messages so long that their bytes count."""
ROUTED_MODELS = ("mixtral", "deepseek_v3")
CAUSES = ("forward", "activation gradient")


@cache
def lowered(model: str, batch: int, *axes: int) -> Lowered:
    """On one server of GPUs, axes outermost first."""
    config = {**SMALL[model], "num_hidden_layers": 1, "first_k_dense_replace": 0}
    graph = import_config(config, model, model, {"batch": batch, "sequence": SEQUENCE})
    cluster = named_cluster("dgx-h100", 8)
    mesh = Mesh(tuple(MeshAxis(f"a{i}", size, 0) for i, size in enumerate(axes)))
    return lowered_on(graph, cluster, mesh, SearchRequest(batch=batch, target="generic"))


def chosen(found: Lowered, scheme: Scheme) -> PlanBuilder:
    return PlanBuilder(found, choice_of(found, scheme, batch_dims(found.liveness.graph)))


def split_of(evidence: PlanBuilder) -> dict[str, list[int]]:
    return {op.name: [factor for _, factor in op.split] for op in evidence.operators()}


@pytest.mark.parametrize("model", ROUTED_MODELS)
def test_spread_experts_take_an_exchange_there_and_back_each_way(model: str) -> None:
    found = lowered(model, 8, 2, 4)
    scheme = Scheme("", (0, 1), (), shard_weights=False, expert_axes=(1,), whole_experts=True)
    evidence = chosen(found, scheme)
    graph = found.liveness.graph
    sent = [c for c in evidence.collectives() if c.cause in CAUSES]
    assert Counter((c.kind, c.axes, c.cause) for c in sent) == {
        (Collective.ALL_TO_ALL.value, ("a1",), cause): 2 for cause in CAUSES
    }
    copies = next(graph.tensors[op.outputs[0]] for op in graph.ops if op.kind == "Dispatch")
    assert {c.nbytes for c in sent} == {copies.nbytes / 8}


def test_copies_of_experts_are_fewer_the_wider_they_are_spread() -> None:
    found = lowered("mixtral", 8, 2, 4)
    for spread in ((), (1,), (0,)):
        scheme = Scheme("", (0, 1), (), False, expert_axes=spread, whole_experts=True)
        evidence = chosen(found, scheme)
        weights = [t for t in evidence.tensors() if ".experts." in t.name and t.role == "parameter"]
        assert weights
        names = tuple(f"a{axis}" for axis in spread)
        assert all(w.layout.dims == (names, (), ()) for w in weights)
        own = {w.name for w in weights}
        axes = {c.axes for c in evidence.collectives() if c.tensor in own}
        assert axes == {tuple(a for a in ("a0", "a1") if a not in names)}


def test_widths_of_experts_are_split_unless_they_stay_whole() -> None:
    found = lowered("mixtral", 4, 4, 2)
    for whole in (False, True):
        scheme = Scheme("", (0,), (1,), False, expert_axes=(0,), whole_experts=whole)
        evidence = chosen(found, scheme)
        weights = [t for t in evidence.tensors() if ".experts." in t.name and t.role == "parameter"]
        for weight in weights:
            assert weight.used is not None
            assert weight.used.dims[0] == ("a0",)
            assert any("a1" in dim for dim in weight.used.dims[1:]) is not whole


def test_a_split_context_gathers_keys_and_values_alone() -> None:
    evidence = chosen(lowered("llama", 4, 4, 2), Scheme("", (0,), (), False, context_axes=(1,)))
    sent = [c for c in evidence.collectives() if c.cause == "forward"]
    assert Counter((c.kind, c.axes) for c in sent) == {(Collective.ALL_GATHER.value, ("a1",)): 2}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama", {"batch": 8}),
        ("deepseek_v3", {"batch": 8}),
        ("mixtral", {"global_batch": 8, "pipeline": "off", "zero": "3"}),
    ],
)
def test_all_devices_of_a_searched_plan_hold_every_parameter(
    model: str, options: dict[str, Any]
) -> None:
    """As layouts priced by their sizes: weights, gradients and optimizer states, once at least."""
    graph = import_config(SMALL[model], model, model, {"batch": 8, "sequence": 64})
    plan = search(graph, named_cluster("dgx-h100", 8), SearchRequest(target="torch", **options))
    held = plan.estimate.memory_by_cause
    weights = [t for t in plan.graph.tensors.values() if t.role is Role.PARAMETER]
    whole = sum(weight.nbytes for weight in weights)
    elements = sum(math.prod(weight.dims) for weight in weights)
    for cause, nbytes in (("weights", whole), ("optimizer state", 8 * elements)):
        assert held[cause] * 8 >= nbytes * (1 - 1e-12), cause


def test_what_does_not_split_is_inexpressible() -> None:
    found = lowered("mixtral", 8, 8)
    with pytest.raises(InexpressibleError):
        chosen(found, Scheme("", (0,), (), False, expert_axes=(0,), whole_experts=True))


def test_plans_are_told_apart_by_what_they_train_and_how_attention_is_cut() -> None:
    whole = Scheme("", (0, 1), (), False)
    plain = chosen(lowered("llama", 8, 4, 2), whole)
    cut = chosen(lowered("llama", 4, 4, 2), Scheme("", (0,), (), False, context_axes=(1,)))
    routed = chosen(lowered("mixtral", 8, 2, 4), whole)
    kinds = [kind_of(e.lowered.liveness.graph, split_of(e)) for e in (plain, cut, routed)]
    assert kinds == [DENSE, CONTEXT_PARALLEL, ROUTED]


@pytest.mark.parametrize("model", ROUTED_MODELS)
def test_slots_lie_between_the_sorting_of_tokens_and_its_undoing(model: str) -> None:
    graph = lowered(model, 8, 2, 4).liveness.graph
    slots = slot_tensors(graph)
    experts = SMALL[model].get("num_local_experts") or SMALL[model]["n_routed_experts"]
    assert {graph.tensors[name].dims[0] for name in slots} == {experts}
    readers = graph.consumers()
    ends = {op.kind for name in slots for op in readers[name] if op.outputs[0] not in slots}
    assert ends == {"Combine"}
