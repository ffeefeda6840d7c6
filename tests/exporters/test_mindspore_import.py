"""Strategies of parameter-strategy checkpoints as cuts of operators, by MindSpore's own rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.checkpoint import strategy_checkpoint
from exporters.mindspore.checkpoint_import import Imported, pins_of_checkpoint, pins_of_operators
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyCheckpoint, StrategyItem
from exporters.mindspore.strategy_files import read_strategies
from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph
from ir.mindspore_forms.strategies import batch_pins
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.exporters.small_networks import language_model, wide_perceptron
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

DATA = Path(__file__).parents[1] / "data"
DEVICES = 8
REQUEST = SearchRequest(fused_attention=False)
MACHINE = named_cluster("atlas-800t-a2", DEVICES)


def ready(graph: OpGraph) -> OpGraph:
    return prepare(graph, MACHINE, REQUEST)[0]


def imported(graph: OpGraph, *items: StrategyItem) -> Imported:
    return pins_of_checkpoint(ready(graph), StrategyCheckpoint(1, items, ()), DEVICES)


def perceptron() -> OpGraph:
    """Two products with weights `w1`, `w2`."""
    build = GraphBuilder("perceptron")
    x = build.input("x", (64, 32))
    for name, size in (("w1", 128), ("w2", 32)):
        rows = build.tensors[x].dims[1]
        x = build.op("MatMul", (x, build.weight(name, (rows, size))), (64, size), name=f"to_{name}")
    return build.build(x)


@pytest.mark.parametrize("make", [wide_perceptron, language_model])
def test_our_own_checkpoint_comes_back_as_the_plan(make: Callable[[], OpGraph]) -> None:
    graph = make()
    plan = search(graph, MACHINE, REQUEST)
    found = pins_of_checkpoint(ready(graph), strategy_checkpoint(plan), DEVICES)
    held = replace(REQUEST, pins=tuple(found.pins.items()))
    again = search(graph, MACHINE, held)
    ours = {op.name: op.split for op in plan.operators}
    assert found.pins
    assert {op.name: op.split for op in again.operators if op.name in found.pins} == {
        name: ours[name] for name in found.pins
    }


def test_cuts_go_to_the_operator_that_reads_the_parameter() -> None:
    found = imported(perceptron(), StrategyItem("MatMul_w1", 0, ((2, 1), (1, 4))))
    assert found.pins == {"op_to_w1": ((2, 1), (1, 4))}
    assert found.notes == ()


def test_the_rest_is_split_by_batch() -> None:
    graph = ready(perceptron())
    found = imported(perceptron(), StrategyItem("MatMul_w1", 0, ((2, 1), (1, 4))))
    rest = batch_pins(graph, DEVICES, found.pins, loss=False)
    assert rest == {"op_to_w2": ((8, 1), (1, 1))}
    assert len(batch_pins(graph, DEVICES, found.pins)) == 2


def test_a_batch_that_does_not_divide_is_repeated() -> None:
    build = GraphBuilder("odd")
    x = build.op("Relu", (build.input("x", (6, 8)),), (6, 8), name="relu")
    assert batch_pins(ready(build.build(x)), DEVICES, {})["op_relu"] == ((1, 1),)


def test_a_lookup_splits_its_indices_and_keeps_the_table() -> None:
    """MindSpore 2.7.0, `gather_info.cc`, GenerateBatchStrategies."""
    build = GraphBuilder("lookup")
    table, ids = build.weight("table", (64, 32)), build.input("ids", (16, 4), "int64")
    graph = ready(build.build(build.op("Gather", (table, ids), (16, 4, 32), name="row")))
    assert batch_pins(graph, DEVICES, {})["op_row"] == ((1, 1), (8, 1))


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        (((3, 1), (1, 1)), "dimension of size 64 of input 0 is cut 3 ways"),
        (((16, 1), (1, 1)), "it takes 16 of 8 devices"),
        (((1, 2), (4, 1)), "2 ways, and 4 ways in another input"),
        (((8, 1),), "the strategy has 1 inputs, the operator 2"),
        (((8, 1), (1,)), "the strategy of input 1 has 1 dimensions, the input 2"),
    ],
)
def test_what_mindspore_refuses_is_refused_with_its_reason(
    cuts: tuple[tuple[int, ...], ...], words: str
) -> None:
    with pytest.raises(StrategyFileError) as caught:
        imported(perceptron(), StrategyItem("MatMul_w1", 0, cuts))
    assert words in str(caught.value)
    assert "key 'MatMul_w1', operator 'op_to_w1'" in str(caught.value)


def test_all_faults_of_a_file_are_told_at_once() -> None:
    bad = ((3, 1), (1, 1))
    with pytest.raises(StrategyFileError) as caught:
        imported(perceptron(), StrategyItem("MatMul_w1", 0, bad), StrategyItem("MatMul_w2", 0, bad))
    assert {v.at for v in caught.value.violations} == {
        "key 'MatMul_w1', operator 'op_to_w1' (MatMul)",
        "key 'MatMul_w2', operator 'op_to_w2' (MatMul)",
    }


def test_a_shared_parameter_has_one_strategy() -> None:
    build = GraphBuilder("tied")
    table = build.weight("table", (64, 32))
    x = build.op("Gather", (table, build.input("ids", (64,), "int32")), (64, 32), axis=0)
    x = build.op("MatMul", (x, table), (64, 64), trans_b=1, name="logits")
    graph = build.build(x)
    first = StrategyItem("Gather_table", 0, ((1, 8), (1,)))
    with pytest.raises(StrategyFileError, match="let both cut it alike") as caught:
        imported(graph, first, StrategyItem("MatMul_table", 0, ((1, 1), (8, 1))))
    assert "parameter 'table'" in str(caught.value)
    alike = imported(graph, first, StrategyItem("MatMul_table", 0, ((1, 8), (1, 8))))
    assert len(alike.pins) == 2


def test_keys_that_match_nothing_are_told_and_a_foreign_file_is_refused() -> None:
    good = StrategyItem("MatMul_w1", 0, ((8, 1), (1, 1)))
    other = StrategyItem("MatMul_w9", 0, ((8, 1), (1, 1)))
    assert "MatMul_w9" in imported(perceptron(), good, other).notes[0]
    with pytest.raises(StrategyFileError, match="MatMul_w1"):
        imported(perceptron(), other)


def test_pipeline_stages_are_refused() -> None:
    with pytest.raises(StrategyFileError, match="pipeline stage 0, 1"):
        imported(
            perceptron(),
            StrategyItem("MatMul_w1", 0, ((8, 1), (1, 1))),
            StrategyItem("MatMul_w2", 1, ((8, 1), (1, 1))),
        )


def test_a_kind_that_takes_no_strategy_here_is_left_out_and_told() -> None:
    build = GraphBuilder("odd")
    x = build.op("MatMul", (build.input("x", (64, 32)), build.weight("w", (32, 32))), (64, 32))
    x = build.op("mindspore::Odd", (x,), (64, 32))
    graph = build.build(x)
    listed = [
        FilePrimitive(op.name, op.kind, tuple(graph.tensors[n].dims for n in op.inputs), op.inputs)
        for op in graph.ops
    ]
    content = OperatorStrategies(
        (
            StrategyItem("op_matmul_0", 0, ((8, 1), (1, 1))),
            StrategyItem("op_mindspore::odd_1", 0, ((8, 1),)),
        )
    )
    found = pins_of_operators(ready(graph), content, listed, DEVICES)
    assert set(found.pins) == {"op_matmul_0"}
    assert "unknown here" in found.notes[0]
    assert "odd" in found.notes[0]


def test_layouts_of_other_devices_are_refused() -> None:
    plan = search(wide_perceptron(), MACHINE, REQUEST)
    with pytest.raises(StrategyFileError, match="for 8 devices, not 16"):
        pins_of_checkpoint(ready(wide_perceptron()), strategy_checkpoint(plan), 16)


def test_files_are_told_by_what_is_in_them(tmp_path: Path) -> None:
    samples = [
        *(DATA / "mindspore_samples").glob("*.ckpt"),
        *(DATA / "mindspore_samples").glob("*.json"),
    ]
    assert all(isinstance(read_strategies(path), StrategyCheckpoint) for path in samples)
    for path in (DATA / "mindspore_operators").glob("*.json"):
        assert isinstance(read_strategies(path), OperatorStrategies)
    bare = tmp_path / "bare.json"
    bare.write_text(
        '{"current_stage":1,"parallel_strategy_item":{"MatMul_w":{"parallel_strategy":[[1]],"stage":0}}}'
    )
    assert isinstance(read_strategies(bare), StrategyCheckpoint)


def test_a_file_of_groups_is_no_strategy(tmp_path: Path) -> None:
    with pytest.raises(StrategyFileError, match="communication groups"):
        read_strategies(DATA / "mindspore_operators" / "groups.pb")
    with pytest.raises(StrategyFileError, match="cannot be read"):
        read_strategies(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_bytes(b"\xff{}")
    with pytest.raises(StrategyFileError, match="not UTF-8"):
        read_strategies(tmp_path / "bad.json")
