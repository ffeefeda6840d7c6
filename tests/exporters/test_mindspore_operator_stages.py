"""Operator strategies of networks in stages: the names that MindSpore 2.10.0 saved for such."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.errors import ExportError
from exporters.mindspore.operator_stages import cell_around, own_operators, repeated
from exporters.mindspore.operator_strategy import DATASET, OperatorFile, operator_strategy
from exporters.mindspore.records import StrategyItem
from exporters.mindspore.symbols import planned_sizes
from importers.mindir.listing import listed_primitives
from importers.mindir.reading import import_mindir
from ir.plan import Plan
from planner.pipeline.space import Configuration
from tests.executors.drawn_stages import drawn_stages

pytestmark = pytest.mark.fast

FILE = Path(__file__).parents[1] / "data" / "mindir" / "open.mindir"
SCOPE = "network-PipelineCell/network-Net"
ROWS = 256
SAVED = {
    "Default/_VirtualDataset-op0",
    *(f"Default/network-PipelineCell/Add-op{i}" for i in range(3)),
    *(
        f"Default/network-PipelineCell/micro_inputs-CellList/{i}-_MicroBatch/StridedSlice-op0"
        for i in range(4)
    ),
    *(f"Default/network-PipelineCell/network-Net/Add-op{i}" for i in range(8)),
    *(f"Default/network-PipelineCell/network-Net/ReduceMean-op{i}" for i in range(4)),
    "Default/network-PipelineCell/network-Net/a-Dense/MatMul-op0",
}
"""Names in a file of MindSpore's: four micro-batches, two additions and a mean in the network
itself, a product in a cell of one stage.
"""


@functools.cache
def plan() -> Plan:
    shape = Configuration(2, ROWS // 4, 4)
    return drawn_stages(import_mindir(FILE, {"x.0": ROWS}), 8, shape, "mindspore", 1)


def exported(scope: str = SCOPE) -> OperatorFile:
    return operator_strategy(plan(), listed_primitives(FILE, planned_sizes(plan())), scope)


def test_names_are_those_that_mindspore_saves() -> None:
    inside = [(f"{SCOPE}/Add", 0), (f"{SCOPE}/Add", 1), (f"{SCOPE}/ReduceMean", 0)]
    items = [StrategyItem(f"Default/{n}-op{i}", 0, ((1,),)) for n, i in inside]
    items.append(StrategyItem(f"Default/{SCOPE}/a-Dense/MatMul-op0", 0, ((1,),)))
    own = own_operators(cell_around(SCOPE), [(1, 1)], 0, 4)
    found = {each.key for each in (*own, *repeated(items, 4))} | {DATASET}
    assert found >= SAVED
    assert {key for key in found - SAVED if "/a-Dense/" not in key} == set()


def test_micro_batches_are_cut_alike() -> None:
    items = [StrategyItem(f"Default/n/Add-op{i}", 0, ((2**i,),)) for i in range(2)]
    found = {each.key: each.cuts for each in repeated(items, 3)}
    assert found == {f"Default/n/Add-op{i}": ((2 ** (i % 2),),) for i in range(6)}


def test_a_plan_has_every_operator_for_every_micro_batch() -> None:
    assert plan().graph.tensors["x"].dims[0] == ROWS // 4
    keys = {item.key for item in exported().content.strategies}
    for primitive in listed_primitives(FILE, {"x.0": ROWS // 4}):
        name = primitive.name.removeprefix("Default/").rpartition("-op")[0]
        assert sum(key.startswith(f"Default/{SCOPE}/{name}-op") for key in keys) % 4 == 0
    assert len(keys) == len(exported().content.strategies)


def test_what_is_sliced_is_not_cut_by_rows() -> None:
    found = {item.key: item.cuts for item in exported().content.strategies}
    (rows, *_), *_ = found[DATASET]
    assert rows > 1
    slices = [cuts for key, cuts in found.items() if "_MicroBatch" in key]
    assert len(slices) == 4
    assert all(own[0] == 1 for cuts in slices for own in cuts)


@pytest.mark.parametrize("scope", ["", "network-Net", "/"])
def test_a_network_in_stages_is_within_another_cell(scope: str) -> None:
    with pytest.raises(ExportError, match="compiled within PipelineCell") as caught:
        exported(scope)
    assert "--set scope=network-PipelineCell/network-Net" in str(caught.value)


def test_sizes_of_a_plan_are_those_of_a_micro_batch() -> None:
    assert planned_sizes(plan()) == {"x.0": ROWS // 4}
    graph = replace(plan().graph, symbols={"rows": 8, "x.7": 3})
    assert planned_sizes(replace(plan(), graph=graph)) == {}
