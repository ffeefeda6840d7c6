"""What MindSpore 2.10.0 chose by recursive programming, and what repeats it.

`tests/data/mindspore_recursive_programming.json` has drawn networks with the strategies that the
package gave every operator: for 8, 16 and 64 devices in training, for 8 when predicting, and for 8
with the batch split between the devices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.mindspore_searches.network import network
from planner.mindspore_searches.partition import partition
from planner.mindspore_searches.recursive_programming import strategies
from planner.mindspore_searches.shapes import Strategy, reshaped
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.planner.mindspore_nets import Network
from topology.catalogue import named_cluster

PATH = Path(__file__).parents[2] / "data" / "mindspore_recursive_programming.json"
GROUPS = [(8, True, "full_batch"), (16, True, "full_batch"), (64, True, "full_batch"),
          (8, False, "full_batch"), (8, True, "data_parallel")]  # fmt: skip


@cache
def recorded() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(PATH.read_text()))


def of_group(devices: int, dataset: str, *, training: bool) -> list[Mapping[str, Any]]:
    wanted = (devices, training, dataset)
    return [r for r in recorded() if (r["devices"], r["training"], r["dataset"]) == wanted]


def chosen(record: Mapping[str, Any]) -> dict[str, Strategy]:
    """By operator, in the dims of the primitive."""
    devices, training = record["devices"], record["training"]
    request = SearchRequest(dataset_strategy=record["dataset"], training=training)
    graph = Network(record["net"]).graph()
    ready, _ = prepare(graph, named_cluster("atlas-800t-a2", devices), request)
    nodes = network(ready, training=training)
    found = strategies(
        nodes,
        partition(nodes, devices, {}),
        devices,
        training=training,
        full_batch=record["dataset"] == "full_batch",
    )
    return {node.makes[0]: found[number] for number, node in enumerate(nodes) if node.makes}


@pytest.mark.parametrize(("devices", "training", "dataset"), GROUPS)
def test_every_operator_is_cut_as_mindspore_cut_it(
    *, devices: int, training: bool, dataset: str
) -> None:
    group = of_group(devices, dataset, training=training)
    assert len(group) >= 12
    for record in group:
        found = chosen(record)
        for name, cuts in record["strategies"].items():
            theirs = tuple(map(tuple, cuts))
            assert found[name][: len(theirs)] == theirs, (record["net"], name)


def test_plans_have_what_was_chosen() -> None:
    """Composites are cut as their first part; the rest of a plan is searched."""
    for record in of_group(8, "full_batch", training=True)[::5]:
        graph = Network(record["net"]).graph()
        request = SearchRequest(solver="recursive_programming", dataset_strategy="full_batch")
        plan = search(graph, named_cluster("atlas-800t-a2", 8), request)
        sizes = {name: size for name, size, _ in plan.mesh}
        of = {op.name.removeprefix("op_"): op for op in plan.operators}
        for name in record["strategies"].keys() & of.keys():
            first = of[name].inputs[0]
            assert first is not None
            cuts = [_product(sizes[axis] for axis in dim) for dim in first.dims]
            assert cuts == record["strategies"][name][0], name


def _product(values: Any) -> int:
    out = 1
    for value in values:
        out *= value
    return out


@pytest.mark.parametrize(
    ("source", "target", "cuts", "result"),
    [
        ((640, 1280), (10, 64, 1280), (64, 1), (1, 64, 1)),
        ((256, 32), (2, 128, 32), (8, 1), (1, 8, 1)),
        ((64, 64), (4, 16, 64), (16, 4), (1, 16, 4)),
        ((4, 16, 64), (64, 64), (4, 2, 1), (8, 1)),
        ((16, 16), (4, 4, 16), (8, 1), (4, 2, 1)),
    ],
)
def test_cuts_pass_a_reshape_whole_where_they_fit(
    source: tuple[int, ...], target: tuple[int, ...], cuts: tuple[int, ...], result: tuple[int, ...]
) -> None:
    assert reshaped(source, target, cuts) == result
