"""A searched plan as a framework's recipe: the layout that it has, or a refusal."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from cli.recipe_files import written_recipe
from importers.hf_config import import_config
from importers.recipes.reading import read_recipe
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from planner.request import SearchRequest
from planner.requests.conventional_layouts import parsed
from planner.requests.errors import UserError
from planner.requests.search_request import with_restriction
from planner.search import search
from planner.whatif.plan_recipe import layout_of_plan, run_of_plan
from tests.service_views.plans_of import plan_of
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

CONFIG: dict[str, object] = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 4096,
    "max_position_embeddings": 256, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
ASKED = SearchRequest(target="torch", solver="dynamic_programming", time_limit_s=None)


@cache
def held_to(degrees: str, pipeline: str = "off") -> Plan:
    graph = import_config(CONFIG, "tiny", "tiny", {"batch": 16, "sequence": 256})
    asked = replace(ASKED, global_batch=16, micro_batch="8", pipeline=pipeline)
    return search(graph, named_cluster("dgx-h100", 8), with_restriction(asked, degrees, "DEGREES"))


@pytest.mark.slow
@pytest.mark.parametrize(("degrees", "pipeline"), [("tp=2,dp=4", "off"), ("tp=2,dp=2", "2")])
def test_a_recipe_has_the_degrees_of_the_plan(degrees: str, pipeline: str, tmp_path: Path) -> None:
    plan = held_to(degrees, pipeline)
    run, own = run_of_plan(plan, CONFIG, "tiny"), degrees_of(plan)
    layout = run.layout
    assert (layout.tp, layout.dp, layout.pp) == (own.tp, own.dp, own.pp)
    assert (layout.zero_stage, layout.global_batch, layout.seq_len) == (own.zero, 16, 256)
    assert layout.micro_batch * layout.dp == plan.pipeline.micro_batch
    files = written_recipe("megatron", run, tmp_path)
    read = read_recipe([str(path) for path in files], "", {"nodes": Fraction(1)}, {}).values
    assert {name: int(read[name]) for name in ("tp", "pp", "micro")} == {  # type: ignore[arg-type]
        "tp": own.tp, "pp": own.pp, "micro": layout.micro_batch,
    }  # fmt: skip


def test_the_text_is_what_a_simulation_takes() -> None:
    parts = parsed(layout_of_plan(held_to("tp=2,dp=4")))
    assert parts.items() >= {"tp": "2", "dp": "4", "batch": "16", "seq": "256"}.items()


def test_what_no_recipe_says_is_refused() -> None:
    with pytest.raises(UserError, match="trains a transformer"):
        layout_of_plan(plan_of("layers"))
    plan = held_to("tp=2,dp=4")
    products = [op for op in plan.operators if op.kind == "MatMul"]
    other = {op.name: tuple((axis, -1) for axis, _ in op.split) for op in products[::2]}
    mixed = tuple(replace(op, split=other.get(op.name, op.split)) for op in plan.operators)
    with pytest.raises(UserError, match=r"have another in this plan|compute the same"):
        layout_of_plan(replace(plan, operators=mixed))
