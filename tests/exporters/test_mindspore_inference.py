"""The file for inference: what a rank reads is its piece of the whole, and nothing is lost."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from exporters.errors import ExportError
from exporters.formats import FORMATS
from exporters.mindspore.inference import inference_module
from ir.plan import Plan
from planner.pipeline.space import Configuration
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from tests.executors.drawn_stages import drawn_stages
from tests.exporters.small_networks import image_model
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast
DEVICES = 8


def planned(dataset: Any, **request: Any) -> Plan:
    asked = SearchRequest(training=False, time_limit_s=None, dataset_strategy=dataset, **request)
    return search(image_model(), named_cluster("atlas-800t-a2", DEVICES), asked)


def module(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file, with a stand-in for MindSpore, which only loading needs."""
    monkeypatch.setitem(sys.modules, "mindspore", types.ModuleType("mindspore"))
    found = types.ModuleType("inference_mindspore")
    found.__file__ = "inference_mindspore.py"
    exec(inference_module(plan), vars(found))
    return found


def cuts(rows: int, height: int) -> tuple[tuple[int, ...], ...]:
    dims = image_model().tensors[image_model().inputs[0]].dims
    return ((rows, 1, height, *(1 for _ in dims[3:])),)


@pytest.mark.parametrize(("rows", "height"), [(8, 1), (4, 2), (2, 4), (2, 1), (1, 8)])
def test_the_slices_of_all_ranks_make_up_the_whole(
    rows: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(cuts(rows, height))
    found = module(plan, monkeypatch)
    dims = plan.graph.tensors[plan.graph.inputs[0]].dims
    whole = np.arange(np.prod(dims)).reshape(dims)
    seen = np.zeros(dims, int)
    for rank in range(DEVICES):
        shard = found.shard(rank)
        assert shard["num_shards"] == rows
        own = np.split(whole, rows)[shard["shard_id"]]
        (part,) = found.sliced(rank, [own])
        assert part.shape[2] == dims[2] // height
        np.add.at(seen.reshape(-1), part.reshape(-1), 1)
    assert np.array_equal(seen, np.full(dims, DEVICES // (rows * height)))


def test_stages_are_refused_and_a_training_plan_is_told() -> None:
    asked = SearchRequest(time_limit_s=None)
    trained = search(mlp(1), named_cluster("atlas-800t-a2", DEVICES), asked)
    (note,) = FORMATS["mindspore-inference"].losses(trained, None)
    assert "may lay out prediction otherwise" in note
    staged = drawn_stages(mlp(4, batch=64), DEVICES, Configuration(2, 4, 4), "mindspore", 3)
    with pytest.raises(ExportError, match="pipeline stages"):
        inference_module(staged)
