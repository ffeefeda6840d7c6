"""Calls of `shard`: every restriction by its name, and the pins that calls become."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from importers.onnx import import_onnx
from ir.graph import OpGraph
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.requests.shard import (
    ShardCall,
    ShardContext,
    ShardError,
    check_calls,
    pins_of_calls,
    read_calls,
)
from planner.requests.shard.calls import Scopes
from planner.requests.shard.checks import CODES
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

NETWORKS = Path(__file__).parents[4] / "examples" / "mindspore" / "networks.py"
CLUSTER = named_cluster("atlas-800t-a2", 8)


def graph_of(name: str, folder: Path, **bind: Any) -> OpGraph:
    path = folder / f"{name}.onnx"
    path.write_bytes(runpy.run_path(str(NETWORKS))["network"](name).SerializeToString())
    return prepare(import_onnx(path, bind), CLUSTER, SearchRequest())[0]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> OpGraph:
    return graph_of("blocks", tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> OpGraph:
    return graph_of("dense_relu", tmp_path_factory.mktemp("function"))


def cell(target: str = "block1", *cuts: tuple[int, ...] | None, **more: Any) -> ShardCall:
    return ShardCall(target, is_cell=True, in_strategy=cuts or ((8, 1),), **more)


def codes(graph: OpGraph, *calls: ShardCall, context: ShardContext | None = None) -> list[str]:
    return [issue.code for issue in check_calls(graph, calls, context or ShardContext(), 8)]


def test_a_call_without_faults(blocks: OpGraph, function: OpGraph) -> None:
    assert codes(blocks, cell(), cell("block2", (1, 8))) == []
    call = ShardCall("dense_relu", is_cell=False, in_strategy=((4, 2), None, None))
    assert codes(function, call) == ["W_SHARD_DERIVED"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (cell("block9"), "E_SHARD_TARGET"),
        (cell(inside="shard"), "E_SHARD_NESTED"),
        (cell(inside="vmap"), "E_SHARD_VMAP"),
        (cell(assigned_to="block1"), "E_SHARD_ASSIGNED_TO_CELL"),
        (cell(assigned_to="block2"), "E_SHARD_ASSIGNED_TO_CELL"),
        (cell("block1", (8, 1), (8, 1)), "E_SHARD_INPUTS"),
        (cell("block1", (8,)), "E_SHARD_RANK"),
        (cell("block1", (1, 3)), "E_SHARD_DIVIDE"),
        (cell("block1", (16, 1)), "E_SHARD_DEVICES"),
        (cell(device="TPU"), "E_SHARD_DEVICE"),
        (cell(level=3), "E_SHARD_LEVEL"),
        (cell(level=1), "W_SHARD_UNUSED"),
        (cell(device="GPU"), "W_SHARD_UNUSED"),
        (cell(out_strategy=((8, 1),)), "W_SHARD_OUT_STRATEGY"),
        (cell("block1", None), "W_SHARD_DERIVED"),
        (cell(parameter_plan={"self.nothing": (8, 1)}), "W_SHARD_PARAMETER_UNKNOWN"),
        (cell(parameter_plan={"block1.dense1.weight": (3, 1)}), "E_SHARD_DIVIDE"),
        (cell(parameter_plan={"block1.dense1.weight": (8,)}), "E_SHARD_RANK"),
        (ShardCall("block1", False, ((8, 1),)), "E_SHARD_FUNCTION_PARAMETERS"),
        (
            ShardCall("block1", False, ((8, 1),), parameter_plan={"w": (8, 1)}),
            "E_SHARD_PLAN_OF_FUNCTION",
        ),
    ],
)
def test_every_restriction_has_its_name(call: ShardCall, code: str, blocks: OpGraph) -> None:
    found = codes(blocks, call)
    assert code in found
    assert set(found) <= set(CODES)


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "GRAPH_MODE"},
        {"parallel_mode": "semi_auto_parallel"},
        {"parallel_mode": "data_parallel"},
        {"search_mode": "recursive_programming"},
    ],
)
def test_the_mode_is_one_of_shard(change: dict[str, str], blocks: OpGraph) -> None:
    context = replace(ShardContext(), **change)  # type: ignore[arg-type]
    assert codes(blocks, cell(), context=context) == ["E_SHARD_MODE"]


def test_newer_releases_take_graph_mode_and_semi_auto(blocks: OpGraph) -> None:
    context = ShardContext("GRAPH_MODE", "semi_auto_parallel", "", release=(2, 3))
    assert codes(blocks, cell(), context=context) == []
    assert codes(blocks, cell(), context=replace(context, parallel_mode="hybrid_parallel")) == [
        "E_SHARD_MODE"
    ]


def test_results_are_laid_out_in_two_ways(blocks: OpGraph) -> None:
    context = ShardContext(dataset_strategy="((8,1),)")
    assert codes(blocks, cell(), context=context) == ["E_SHARD_DATASET"]


def test_one_shard_inside_another(blocks: OpGraph) -> None:
    assert codes(blocks, cell("block1"), cell("block1.dense1")) == ["E_SHARD_NESTED"]
    assert codes(blocks, cell("block1.dense1"), cell("block1")) == ["E_SHARD_NESTED"]


def test_a_parameter_is_laid_out_once(blocks: OpGraph) -> None:
    """By the first call that names it; a tied weight would be in two cells."""
    plan = {"block1.dense1.weight": (1, 8)}
    twice = {"block1.dense1.weight": (1, 8), "self.block1.dense1.weight": (8, 1)}
    assert codes(blocks, cell(parameter_plan=plan)) == []
    assert codes(blocks, cell(parameter_plan=twice)) == ["W_SHARD_PARAMETER_SET"]


def test_dynamic_sizes_are_refused(tmp_path: Path) -> None:
    from ir.symbols import parse_symbol  # noqa: PLC0415

    graph = graph_of("dynamic_mlp", tmp_path, batch=parse_symbol("64..512/64"))
    assert "E_SHARD_DYNAMIC" in codes(graph, cell("matmul1"))
    assert "E_SHARD_DYNAMIC" not in codes(graph_of("dynamic_mlp", tmp_path, batch=64))


def test_pins_hold_the_edge_and_leave_the_rest_data_parallel(blocks: OpGraph) -> None:
    call = cell("block1", (1, 8), parameter_plan={"block1.dense2.weight": (8, 1)})
    found = dict(pins_of_calls(blocks, [call], ShardContext(), 8))
    assert found["/block1/dense1/matmul"] == ((1, 8), (8, 1))
    assert found["/block1/dense2/matmul"] == ((1, 8), (8, 1))
    assert "/block1/gelu" not in found, "inside the search decides"
    assert found["/block2/gelu"] == ((8, 1),)
    assert found["/layer1/matmul"] == ((8, 1), (1, 1))
    whole = dict(pins_of_calls(blocks, [call], ShardContext(dataset_strategy="full_batch"), 8))
    assert whole["/layer1/matmul"] == ((1, 1), (1, 1))


def test_entries_that_disagree(function: OpGraph) -> None:
    call = ShardCall("dense_relu", is_cell=False, in_strategy=((4, 2), (4, 1), None))
    with pytest.raises(ShardError, match="E_SHARD_DISAGREE operator /dense_relu/matmul"):
        pins_of_calls(function, [call], ShardContext(), 8)


def test_a_cell_is_known_by_scope_or_by_name(blocks: OpGraph) -> None:
    scopes = Scopes(blocks)
    assert {op.name.split("/")[1] for op in scopes.part("block1").ops} == {"block1"}
    named = tuple(replace(op, name=f"n{i}", scope="m.block1") for i, op in enumerate(blocks.ops))
    other = Scopes(
        replace(blocks, ops=named[:1] + tuple(replace(o, scope="m.x") for o in named[1:]))
    )
    assert [op.name for op in other.part("block1").ops] == ["n0"]
    assert other.part("block").ops == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("calls: 3", "there are no calls"),
        ("{}", "there are no calls"),
        ("colls: []", "no field 'colls'"),
        ("[1, 2]", "E_SHARD_FILE"),
        ("calls: [", "E_SHARD_FILE"),
        ("calls: [5]", "a call is no mapping"),
        ("calls: [{cell: a}]", "no in_strategy"),
        ("calls: [{cell: a, function: b, in_strategy: [[1]]}]", "one cell or one function"),
        ("calls: [{cell: a, in_strategy: [[0]]}]", "whole numbers from 1"),
        ("calls: [{cell: a, in_strategy: [[true]]}]", "whole numbers from 1"),
        ("calls: [{cell: a, in_strategy: 4}]", "an entry for each tensor"),
        ("calls: [{cell: a, in_strategy: [[1]], level: high}]", "no whole number"),
        ("calls: [{cell: a, in_strategy: [[1]], in: 1}]", "no field 'in'"),
        ("calls: [{cell: a, in_strategy: [[1]], parameter_plan: 1}]", "no mapping"),
        ("calls: []\nrelease: new", "is no release"),
        ("calls: []\nmode: [1]", "no word"),
    ],
)
def test_files_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ShardError, match="E_SHARD_FILE") as error:
        read_calls(text, "calls.yaml")
    assert words in str(error.value)
    assert "at:" in str(error.value)


def test_a_file_of_calls() -> None:
    context, calls = read_calls(
        "mode: GRAPH_MODE\nrelease: '2.3.1'\ncalls:\n"
        "  - {cell: a, in_strategy: [[2, 1], null], level: 1, assigned_to: b}\n",
        "calls.yaml",
    )
    assert context == ShardContext("GRAPH_MODE", release=(2, 3))
    assert calls == (cell("a", (2, 1), None, level=1, assigned_to="b"),)
