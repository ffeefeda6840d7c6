"""Networks with layers of several kinds, built from a config.json: sizes, plans, what is said."""

from __future__ import annotations

import pytest

from costmodel import published_steps
from executors.evaluation import Evaluator
from executors.reference import given_tensors
from executors.values import numbers
from executors.verdict import verify
from importers.errors import ModelError
from importers.hf_config import constant_values, import_config
from importers.hf_mixed import MIXED_FAMILIES
from importers.hf_mixers import MIXED, layer_kinds
from ir.batch import with_batch
from ir.normalise import normalise
from planner.request import SearchRequest
from planner.search import search
from tests.importers.configurations import SMALL, SMALL_MIXED, short
from tests.importers.mixed_configurations import OLMO_HYBRID, PUBLISHED
from tests.service_views.chinese import chinese_of, without_chinese
from topology.catalogue import named_cluster

UNLIKE = (
    "nemotron_h", "qwen3_next", "qwen3_5_text", "minimax", "kimi_linear", "jamba", "falcon_h1",
    "granitemoehybrid", "mamba", "mamba2",
)  # fmt: skip
"""One of each family that differs from the others."""
BUILT = {name: found for name, found in PUBLISHED.items() if found[1] < 250}


def test_every_architecture_that_is_built_has_a_small_configuration() -> None:
    assert set(SMALL_MIXED) == set(MIXED_FAMILIES)
    assert set(MIXED) - set(MIXED_FAMILIES) == {"olmo_hybrid"}


@pytest.mark.parametrize("name", BUILT)
def test_parameters_are_the_published_ones(name: str) -> None:
    config, published = PUBLISHED[name]
    graph = import_config(config, name, "a test", {"sequence": 8})
    billions = sum(tensor.elements for tensor in graph.parameters) / 1e9
    assert billions == pytest.approx(published, rel=0.006)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", UNLIKE)
def test_a_plan_computes_what_the_whole_network_does(kind: str, training: bool) -> None:
    config, bind = SMALL_MIXED[kind], short(kind)
    request = SearchRequest(batch=4, target="jax", training=training)
    graph = import_config(config, kind, "a test", bind)
    plan = search(graph, named_cluster("dgx-a100", 4), request)
    names = given_tensors(plan)
    held = constant_values(config, "a test", names, bind)
    assert verify(plan, numbers(plan.graph, names, held, 0), Evaluator()).passed


@pytest.mark.parametrize("kind", UNLIKE)
def test_a_batch_set_later_is_the_batch_built_with(kind: str) -> None:
    config = SMALL_MIXED[kind]
    later = with_batch(import_config(config, kind, "a test", short(kind)), 6)
    built = import_config(config, kind, "a test", {**short(kind), "batch": 6})
    assert {n: t.dims for n, t in built.tensors.items() if n in later.tensors} == {
        n: t.dims for n, t in later.tensors.items() if n in built.tensors
    }


@pytest.mark.parametrize("kind", UNLIKE)
def test_attention_stands_where_the_configuration_says(kind: str) -> None:
    config = SMALL_MIXED[kind]
    kinds = layer_kinds(config, "a test")
    assert kinds is not None
    made = [op.kind for op in normalise(import_config(config, kind, "a test", short(kind))).ops]
    assert made.count("Attention") == kinds.attention
    mixers = made.count("LinearAttention") + made.count("SelectiveScan")
    assert mixers == kinds.mixed


def test_no_published_run_is_like_a_plan_without_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short operators have no such runs either: here they count as long ones."""
    monkeypatch.setattr(published_steps, "SHORT_OPERATOR_S", 0.0)
    wide = {"hidden_size": 2048, "intermediate_size": 5632}
    found = {}
    for kind in ("mamba2", "qwen3_next", "llama"):
        config = {**SMALL, **SMALL_MIXED}[kind]
        more = wide if kind == "llama" else {}
        graph = import_config({**config, **more}, kind, "a test", short(kind))
        request = SearchRequest(batch=64, target="jax", training=True, dtype="bf16")
        found[kind] = search(graph, named_cluster("dgx-a100", 4), request).estimate
    assert found["llama"].published is not None
    assert (found["mamba2"].published, found["qwen3_next"].published) == (None, None)


def test_the_heads_of_a_state_space_are_split_over_devices() -> None:
    request = SearchRequest(batch=1, target="jax", degrees=())
    graph = import_config(SMALL_MIXED["mamba2"], "mamba2", "a test", {"sequence": 8})
    plan = search(graph, named_cluster("dgx-a100", 4), request)
    mixers = [op for op in plan.operators if op.kind == "LinearAttention"]
    assert mixers
    assert all(op.split for op in mixers)


@pytest.mark.fast
def test_parts_of_one_weight_are_named_after_it_and_said() -> None:
    graph = import_config(SMALL_MIXED["mamba2"], "mamba2", "a test", {"sequence": 8})
    names = {tensor.name for tensor in graph.parameters}
    assert {f"backbone.layers.0.mixer.in_proj.{part}.weight" for part in "zxBC"} <= names
    assert any("planned in its parts" in note for note in graph.notes)
    for note in graph.notes:
        assert chinese_of(note) or note.startswith("sequence is")


def test_what_nobody_writes_is_refused_with_what_prices_it() -> None:
    with pytest.raises(ModelError, match="whose operators this importer does not write") as refused:
        import_config(OLMO_HYBRID, "olmo", "config.json")
    assert "planner layouts" in str(refused.value)
    assert not without_chinese(str(refused.value))
