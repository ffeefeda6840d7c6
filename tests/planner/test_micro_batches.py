"""A batch that does not fit as one is split into micro-batches by the search itself."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from exporters import jax, torch
from exporters.html import to_html
from exporters.mindspore.apply import apply_module
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from ir.plan_stages import split_text
from planner import search as searching
from planner.explain.plan_request import source_of, whole_request_of
from planner.pipeline.one_batch import search_batch
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.requests.plan_json import found
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster
from topology.units import format_memory, format_seconds

CLUSTER = named_cluster("atlas-800t-a2", 4)
GRAPHS = {"mlp": mlp(2, batch=2048), "attention": attention_block(batch=16, rows=64, heads=4)}
BATCHES = {"mlp": 2048, "attention": 16}
TARGETS = ("mindspore", "jax", "torch", "generic")


def tight(graph: OpGraph, target: str, share: float = 0.5) -> SearchRequest:
    """A request of which some part of the memory is left that the batch needs as one."""
    free = search(graph, CLUSTER, SearchRequest(target=target)).estimate.peak_memory_bytes
    return SearchRequest(target=target, memory_limit_bytes=free * share)


def needed_as_one(graph: OpGraph, request: SearchRequest) -> float:
    with pytest.raises(InfeasibleError) as raised:
        search_batch(graph, CLUSTER, request)
    return raised.value.needed_bytes


@pytest.fixture(scope="module")
def split() -> Plan:
    return search(GRAPHS["mlp"], CLUSTER, tight(GRAPHS["mlp"], "jax"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_what_a_global_batch_of_one_stage_finds(name: str, target: str) -> None:
    graph = GRAPHS[name]
    asked = tight(graph, target)
    needed = needed_as_one(graph, asked)
    plan = search(graph, CLUSTER, asked)
    whole = replace(asked, global_batch=BATCHES[name], pipeline="off")
    cut = search_pipeline(graph, CLUSTER, whole)
    assert plan.pipeline == cut.pipeline
    assert (plan.tensors, plan.operators) == (cut.tensors, cut.operators)
    assert (plan.estimate, plan.request) == (cut.estimate, cut.request)
    assert plan.batch == BATCHES[name]
    assert plan.estimate.peak_memory_bytes <= plan.estimate.memory_limit_bytes
    assert plan.whole_batch_bytes == needed > plan.estimate.memory_limit_bytes


@pytest.mark.parametrize("share", [0.95, 0.9, 0.7])
@pytest.mark.parametrize("target", ["mindspore", "jax"])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_batch_is_slower_as_one_than_in_micro_batches(
    name: str, target: str, share: float
) -> None:
    graph = GRAPHS[name]
    asked = tight(graph, target, share)
    cut = replace(asked, global_batch=BATCHES[name], pipeline="off")
    step_s = search(graph, CLUSTER, asked).estimate.step_time_s
    assert step_s <= search_pipeline(graph, CLUSTER, cut).estimate.step_time_s * (1 + 1e-9)


def test_a_batch_that_pays_for_its_memory_is_split_and_the_plan_says_so() -> None:
    graph = GRAPHS["mlp"]
    asked = tight(graph, "jax", 0.75)
    as_one = search_batch(graph, CLUSTER, asked)
    plan = search(graph, CLUSTER, asked)
    assert plan.pipeline.micro_batches > 1
    assert plan.estimate.step_time_s < as_one.estimate.step_time_s
    assert plan.whole_batch_bytes is None
    assert format_seconds(as_one.estimate.step_time_s) in plan.notes[0]
    assert plan_from_json(plan_to_json(plan)) == plan
    again = search(source_of(plan), CLUSTER, whole_request_of(plan))
    assert again.estimate == plan.estimate


def _never(*_: object, **__: object) -> Plan:
    raise AssertionError("the batch was split")


@pytest.mark.parametrize("changes", [{"solver": "local_search"}, {"cost": "mindspore"}])
def test_a_search_that_is_told_how_or_for_what_keeps_its_batch(
    changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "search_pipeline", _never)
    asked = tight(GRAPHS["attention"], "mindspore", 0.7)
    plan = search(GRAPHS["attention"], CLUSTER, replace(asked, **changes))  # type: ignore[arg-type]
    assert plan.pipeline.is_single


def test_a_batch_that_pays_nothing_for_its_memory_is_never_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "search_pipeline", _never)
    for graph in GRAPHS.values():
        plan = search(graph, CLUSTER, SearchRequest())
        assert plan == search_batch(graph, CLUSTER, SearchRequest())
        assert plan.whole_batch_bytes is None
        assert "split" not in found(plan)
        assert split_text(plan) == ""


def test_one_sentence_says_so_wherever_a_plan_is_told(split: Plan) -> None:
    assert split.whole_batch_bytes is not None
    count, size = split.pipeline.micro_batches, split.pipeline.micro_batch
    needs = format_memory(split.whole_batch_bytes)
    text = (
        f"batch 2048 as {count} micro-batches of {size}: the whole batch needs {needs} per device"
    )
    assert split_text(split) == text
    assert found(split)["split"] == {
        "text": text, "micro_batches": count, "micro_batch": size,
        "whole_batch_bytes": split.whole_batch_bytes,
    }  # fmt: skip
    assert text in to_html(split)


def test_the_plan_survives_its_file_and_is_searched_again_from_it(split: Plan) -> None:
    plan = plan_from_json(plan_to_json(split))
    assert plan == split
    again = search(source_of(plan), CLUSTER, whole_request_of(plan))
    assert again.estimate == plan.estimate


def test_a_plan_that_was_not_split_says_nothing_of_it_in_its_file() -> None:
    plan = search(GRAPHS["mlp"], CLUSTER, SearchRequest())
    assert "whole_batch_bytes" not in json.loads(plan_to_json(plan))


def test_modules_of_one_stage_say_micro_batches_and_states(split: Plan, tmp_path: Path) -> None:
    states = {each.name for each in split.parameters if each.states is not None}
    for target in (jax, torch):
        path = tmp_path / "layouts.py"
        path.write_text(target.to_python(split))
        module = SimpleNamespace(**runpy.run_path(str(path)))
        assert split.pipeline.micro_batches == module.MICRO_BATCHES
        assert set(module.STATES) == states
        assert any("adds up the gradients" in loss for loss in target.losses(split))


def test_mindspore_accumulates_the_gradients_of_one_stage() -> None:
    plan = search(GRAPHS["mlp"], CLUSTER, tight(GRAPHS["mlp"], "mindspore"))
    text = apply_module(plan)
    assert f"MICRO_BATCHES = {plan.pipeline.micro_batches}\n" in text
    assert "GradAccumulation(network_with_loss, MICRO_BATCHES)" in text
    assert "PipelineCell" not in text


@pytest.mark.parametrize(
    "changes",
    [{"training": False}, {"dataset_strategy": ((1, 1),)}],
    ids=["inference", "cuts of the inputs"],
)
def test_what_cannot_be_split_is_refused_as_before(changes: dict[str, object]) -> None:
    asked = replace(SearchRequest(memory_limit_bytes=1e6, **changes), target="generic")  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError) as raised:
        search(mlp(1, batch=2**14, width=64, hidden=64), CLUSTER, asked)
    assert "micro-batches" not in str(raised.value)
    assert not any("--pipeline" in remedy for remedy in raised.value.remedies)


def test_states_that_do_not_fit_are_told_before_anything_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "search_pipeline", _never)
    with pytest.raises(InfeasibleError, match="of states"):
        search(GRAPHS["mlp"], CLUSTER, SearchRequest(memory_limit_bytes=1e6))


def test_a_refusal_in_micro_batches_too_names_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Plan:
        raise InfeasibleError("no plan fits: 5 of 4", 5.0, 4.0, {"activations": 5.0}, ("more",))

    monkeypatch.setattr(searching, "search_pipeline", full)
    with pytest.raises(InfeasibleError, match="in micro-batches too") as raised:
        search(GRAPHS["mlp"], CLUSTER, tight(GRAPHS["mlp"], "jax"))
    assert raised.value.needed_bytes == 5.0
    assert raised.value.remedies[0].startswith("--pipeline auto")


def test_a_request_that_micro_batches_contradict_keeps_its_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def contradicted(*_: object, **__: object) -> Plan:
        raise RequestError("no stage can have it")

    monkeypatch.setattr(searching, "search_pipeline", contradicted)
    with pytest.raises(InfeasibleError, match="the smallest one found needs"):
        search(GRAPHS["mlp"], CLUSTER, tight(GRAPHS["mlp"], "jax"))


def test_one_time_limit_is_of_both_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    told: list[float | None] = []
    monkeypatch.setattr("planner.request.now_s", lambda: clock[0])

    def late(*_: object, **__: object) -> Plan:
        clock[0] += 20.0
        raise InfeasibleError("no plan fits", 5e6, 4e6, {}, ())

    def limited(*given: object, **_: object) -> Plan:
        told.extend(each.time_limit_s for each in given if isinstance(each, SearchRequest))
        raise InfeasibleError("no plan fits", 5e6, 4e6, {}, ())

    monkeypatch.setattr(searching, "batch_answer", late)
    monkeypatch.setattr(searching, "search_pipeline", limited)
    with pytest.raises(InfeasibleError):
        search(GRAPHS["mlp"], CLUSTER, SearchRequest(time_limit_s=30.0))
    assert told == [10.0]
