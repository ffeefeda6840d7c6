"""The forms for JAX: what they carry comes back, and the module builds what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters import jax
from exporters.errors import ExportError, StrategyFileError
from exporters.sharding import as_filed, sharding_of
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.exporters.shardings import drawn_plan
from tests.exporters.small_networks import expert_model, image_model, language_model, tied
from topology.catalogue import named_cluster


def module(plan: Plan) -> dict[str, Any]:
    """The exported module, loaded without JAX."""
    names: dict[str, Any] = {}
    exec(compile(jax.to_python(plan), "jax_sharding.py", "exec"), names)
    return names


@given(st.integers(0, 2**32))
def test_what_the_file_carries_comes_back(seed: int) -> None:
    plan = drawn_plan(seed)
    text = jax.to_json(plan)
    found = jax.from_json(text)
    assert found == sharding_of(plan)
    assert jax.to_json(found) == text


@pytest.mark.parametrize("make", [language_model, image_model, expert_model, tied])
@pytest.mark.parametrize("target", ["jax", "mindspore"])
def test_searched_plans_come_back(make: Any, target: str) -> None:
    graph: OpGraph = make()
    plan = search(graph, named_cluster("atlas-800t-a2", 8), SearchRequest(target=target))
    text = jax.to_json(plan)
    assert jax.from_json(text) == sharding_of(plan)
    assert jax.to_json(jax.from_json(text)) == text


@given(st.integers(0, 2**32))
def test_the_module_says_what_the_json_says(seed: int) -> None:
    plan = drawn_plan(seed)
    names = module(plan)
    assert names["AXES"] == (("server", 2), ("card0", 2), ("card1", 2))
    assert names["DEVICES"] == plan.rank_order
    for each in sharding_of(plan).parameters:
        rest = as_filed(each.rest, each.permutation).dims
        assert names["PARAMETERS"][each.file_name] == rest
        if each.used is not None:
            used = as_filed(each.used, each.permutation).dims
            assert names["USED"].get(each.file_name, rest) == used
    for op, node in zip(plan.operators, plan.graph.ops, strict=True):
        layout = op.outputs[0]
        assert layout is not None
        table = names["PARTIAL"] if layout.partial else names["ACTIVATIONS"]
        assert table[node.outputs[0]] == (layout.partial or layout.dims)


def test_partial_sums_are_told(plan: Plan) -> None:
    (loss,) = [x for x in jax.losses(plan) if "terms of a sum" in x]
    assert "2 activations ('h0', 'h1')" in loss


def test_recomputation_is_told(plan: Plan) -> None:
    assert any("jax.checkpoint" in x for x in jax.losses(plan))
    assert not any("jax.checkpoint" in x for x in jax.losses(replace(plan, recomputed=())))


def test_unequal_shards_are_refused(plan: Plan) -> None:
    tensor = replace(plan.tensors[0], dims=(1023, 1024))
    with pytest.raises(ExportError, match="unequal size") as caught:
        jax.to_json(replace(plan, tensors=(tensor, *plan.tensors[1:])))
    assert "parameter 'm.layers.0.proj.weight'" in str(caught.value)


def test_hostile_names_stay_text(plan: Plan) -> None:
    name = '\'"""\n$parameters {0} \u202e\\'
    tensors = {**plan.graph.tensors, name: replace(plan.graph.tensors["h0"], name=name)}
    graph = replace(
        plan.graph,
        tensors=tensors,
        ops=(replace(plan.graph.ops[0], outputs=(name,)), *plan.graph.ops[1:]),
    )
    hostile = replace(plan, graph=graph)
    assert name in module(hostile)["PARTIAL"]
    assert jax.from_json(jax.to_json(hostile)) == sharding_of(hostile)


def _changed(plan: Plan, **change: Any) -> str:
    data = json.loads(jax.to_json(plan))
    return json.dumps({**data, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "plan"}, "not of the format"),
        ({"version": 2}, "version 2, this program reads version 1"),
        ({"devices": [0, 1, 2, 3, 4, 5, 6, 6]}, "numbered from 0"),
        ({"devices": [0, 1]}, "mesh of 8 ranks over 2 devices"),
        ({"mesh": []}, "distinct names"),
        ({"more": 1}, "more"),
        ({"operators": {}}, "no operator 'op0'"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], words: str, plan: Plan) -> None:
    with pytest.raises(StrategyFileError, match=words):
        jax.from_json(_changed(plan, **change))


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"spec": ["rack", None]}, "no axis 'rack'"),
        ({"spec": ["card0", "card0"]}, "twice"),
        ({"spec": ["card0"]}, "1 dimensions"),
        ({"spec": [["card0"], None]}, "stands in a spec by itself"),
        ({"spec": [3, None]}, "no axis 3"),
        ({"spec": "card0"}, "list 'spec'"),
        ({"spec": [None, None], "unreduced": []}, "no more"),
        ({"spec": [[["card0"], "card1"], None]}, "no axis"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: dict[str, Any], words: str, plan: Plan) -> None:
    data = json.loads(jax.to_json(plan))
    next(iter(data["parameters"].values()))["rest"] = layout
    with pytest.raises(StrategyFileError, match=words) as caught:
        jax.from_json(json.dumps(data))
    assert "parameters.m.layers.0.proj.weight" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"format": 1, "format": 2}', "[" * 100_000])
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(StrategyFileError):
        jax.from_json(text)


def test_two_parameters_of_one_name_in_the_file_are_told(plan: Plan) -> None:
    tensors = {
        n: replace(t, source="w") if t.role == "parameter" else t
        for n, t in plan.graph.tensors.items()
    }
    shared = replace(plan, graph=replace(plan.graph, tensors=tensors))
    assert any("lays it out as the first" in x for x in jax.losses(shared))
    assert set(module(shared)["PARAMETERS"]) == {"w"}


def test_a_layout_is_written_like_this(plan: Plan) -> None:
    line = next(x for x in jax.to_json(plan).splitlines() if "layers.0.proj.weight" in x)
    assert line.strip().rstrip(",") == (
        '"m.layers.0.proj.weight": {"dims": [1024, 1024], "dtype": "bfloat16", '
        '"rest": {"spec": [["server", "card0"], "card1"]}, "used": {"spec": [null, "card1"]}}'
    )
    assert str(NamedLayout(((), ("card1",)))) == "[-, card1]"
