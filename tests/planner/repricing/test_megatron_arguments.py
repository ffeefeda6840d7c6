"""A step as Megatron-LM runs it from the arguments alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.export import export
from exporters.megatron import losses, to_arguments
from importers.hf_config import import_hf_config
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.other_size import arguments_only
from planner.request import SearchRequest
from topology.catalogue import named_cluster

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 1024, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
Planned = Callable[..., Plan]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> OpGraph:
    path = tmp_path_factory.mktemp("llama") / "config.json"
    path.write_text(json.dumps(LLAMA))
    return import_hf_config(path, {"batch": 1, "sequence": 128})


@pytest.fixture(scope="module")
def planned(graph: OpGraph) -> Planned:
    def plan(**asked: Any) -> Plan:
        request = SearchRequest(
            target="torch", global_batch=32, sequence_parallel="off", context_parallel="off",
            **{"recompute": "none", "zero": "0", "pipeline": "off", **asked},
        )  # fmt: skip
        return search_pipeline(graph, named_cluster("dgx-h100", 4), request)

    return plan


@pytest.mark.fast
@pytest.mark.parametrize("zero", ["0", "1", "2", "3"])
def test_what_the_arguments_say_in_full_is_priced_as_planned(zero: str, planned: Planned) -> None:
    plan = planned(zero=zero, micro_batch="32", degrees=(("dp", 4), ("tp", 1)))
    found = arguments_only(plan, to_arguments(plan))
    assert found.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=0.02)


def test_stages_and_recomputation_are_priced_too(planned: Planned) -> None:
    starts = tuple(f"model.layers.{i}" for i in (1,))
    plan = planned(pipeline="2", micro_batch="4", recompute="full", stage_starts=starts)
    assert "--decoder-first-pipeline-num-layers 1" in to_arguments(plan)
    assert "--recompute-granularity full" in to_arguments(plan)
    found = arguments_only(plan, to_arguments(plan))
    assert found.step_time_s >= plan.estimate.step_time_s * 0.98


def test_export_says_what_a_step_takes_without_what_is_lost(
    planned: Planned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(pipeline="2", micro_batch="4")
    plan = replace(plan, rank_order=plan.rank_order[::-1])
    assert losses(plan)
    tight = replace(plan.estimate, memory_limit_bytes=2.0**20)
    for each, excess in ((plan, False), (replace(plan, estimate=tight), True)):
        (tmp_path / "plan.json").write_text(plan_to_json(each))
        given = dict.fromkeys(("names", "recipe", "model", "server")) | {"form": "megatron"}
        export(plan=tmp_path / "plan.json", output=tmp_path / "m.txt", settings=[], **given)
        note = capsys.readouterr().err.splitlines()[-1]
        assert note.startswith("note: from the arguments alone a step takes ")
        assert ("it needs" in note) == excess


def test_stages_that_are_told_are_all_kept(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to price the places between them."""
    monkeypatch.setattr("planner.pipeline.segments.MOST_PRICED", 0)
    monkeypatch.setattr("planner.pipeline.segments.FEWEST_CUTS", 1)
    monkeypatch.setattr("planner.pipeline.networks.FEWEST_CUTS", 1)
    starts = ("model.layers.1", "model.layers.2", "model.layers.3")
    plan = planned(pipeline="2", interleave="2", micro_batch="4", stage_starts=starts)
    assert len(plan.pipeline.stages) == 4
