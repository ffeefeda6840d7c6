"""Numbers that a model fixes, of a plan that runs without the model's code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from importers.model_file import import_model_file
from ir.plan import Plan
from planner.request import RequestError, SearchRequest
from planner.requests.constants import fixed_numbers
from planner.search import search
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

SMALL = {
    "model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16,
    "vocab_size": 64, "torch_dtype": "float32",
}  # fmt: skip


def config_file(folder: Path, **changed: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(SMALL | changed))
    return path


def plan_of(path: Path) -> Plan:
    sizes = (("batch", 2), ("sequence", 16))
    graph = import_model_file(path, dict(sizes))
    request = SearchRequest(target="torch", training=True, bind=sizes)
    return search(graph, named_cluster("atlas-800t-a2", 2), request)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return config_file(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    return plan_of(model)


def test_the_model_has_its_masks_and_scales(plan: Plan, model: Path) -> None:
    found, notes = fixed_numbers(plan, model)
    assert not notes
    mask = next(a for n, a in found.items() if "mask" in n)
    allowed = np.tril(np.ones((16, 16), dtype=bool))
    assert np.array_equal(mask.reshape(16, 16) == 0, allowed)
    assert found["activation/half"] == 0.5


def test_without_a_model_it_says_that_constants_are_drawn(plan: Plan) -> None:
    found, (note,) = fixed_numbers(plan, None)
    assert not found
    assert "--model" in note


def test_a_model_of_a_published_name_that_is_another_is_not_taken_for_it(plan: Plan) -> None:
    named = replace(plan, graph=replace(plan.graph, name="gpt2"))
    found, notes = fixed_numbers(named, None)
    assert not found
    assert notes


def test_another_model_is_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="the plan is for another model"):
        fixed_numbers(plan, config_file(tmp_path, n_embd=64))
