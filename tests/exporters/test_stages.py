"""Plans with pipeline stages as files of the frameworks."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporters import jax, megatron, torch
from exporters.errors import ExportError
from exporters.mindspore import checkpoint as mindspore
from exporters.mindspore.apply import apply_module
from exporters.mindspore.groups import groups_of
from exporters.mindspore.script import SETTINGS, script
from exporters.mindspore.slicing import strategy_slicing
from exporters.mindspore.stages import scheme_losses
from exporters.mindspore.strategy import from_json, from_protobuf, to_json, to_protobuf
from exporters.settings import Settings
from exporters.sharding import sharding_of
from exporters.stages import assigned_cells, layer_counts, torn_cells
from exporters.table import to_csv
from ir.graph import OpGraph
from ir.plan import NamedLayout, Pipeline, Plan
from ir.plan_file import plan_from_json, plan_to_json
from ir.plan_slicing import plan_slicing
from ir.plan_stages import stage_plan, stage_ranks
from planner.pipeline.space import Configuration
from tests.builders import GraphBuilder, mlp
from tests.executors.drawn_stages import drawn_stages
from tests.exporters.test_megatron import laid_out

pytestmark = pytest.mark.fast


def scoped(graph: OpGraph, per_layer: int = 2) -> OpGraph:
    """The network with a numbered cell for every few operators."""
    ops = tuple(replace(op, scope=f"net.layers.{i // per_layer}") for i, op in enumerate(graph.ops))
    return replace(graph, ops=ops)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return drawn_stages(scoped(mlp(6, 4, 64, 128)), 8, Configuration(2, 4, 4), "mindspore", 3)


@pytest.fixture(scope="module")
def free() -> Plan:
    return drawn_stages(scoped(mlp(6, 4, 64, 128)), 8, Configuration(4, 4, 4), "generic", 5)


def pipeline(plan: Plan) -> Pipeline:
    return plan.pipeline


def test_a_plan_with_stages_survives_its_file(plan: Plan, free: Plan) -> None:
    for each in (
        plan,
        free,
        drawn_stages(mlp(4, 4, 64, 64), 8, Configuration(2, 4, 4, 2), "generic", 0),
    ):
        assert plan_from_json(plan_to_json(each)) == each


def test_the_strategy_file_is_that_of_all_stages_merged(plan: Plan) -> None:
    checkpoint = mindspore.strategy_checkpoint(plan)
    stage_of = {t.name: t.stage for t in plan.parameters}
    assert {x.name for x in checkpoint.layouts} == {f"{s}-{n}" for n, s in stage_of.items()}
    assert all(item.stage == stage_of[item.key.split("_", 1)[1]] for item in checkpoint.strategies)
    found, planned = strategy_slicing(checkpoint), plan_slicing(plan)
    assert found.ranks == planned.ranks == plan.devices
    for name, grids in planned.grids.items():
        (own,), (other,) = grids, found.grids[name]
        assert list(own.ranks) == list(other.ranks)
        dims = planned.dims[name]
        assert [own.box(r, dims) for r in own.ranks] == [other.box(r, dims) for r in other.ranks]


def test_both_forms_of_the_strategy_file_hold_the_stages(plan: Plan) -> None:
    checkpoint = mindspore.strategy_checkpoint(plan)
    assert from_protobuf(to_protobuf(checkpoint)).strategies == checkpoint.strategies
    assert from_json(to_json(checkpoint)).strategies == checkpoint.strategies


def test_the_module_gives_every_cell_its_stage(plan: Plan, tmp_path: Path) -> None:
    module = tmp_path / "apply_mindspore.py"
    module.write_text(apply_module(plan))
    found = runpy.run_path(str(module))
    assert found["MICRO_BATCHES"] == 4
    cells = {path: SimpleNamespace() for path in ("net", *found["STAGES"])}
    network = SimpleNamespace(cells_and_names=cells.items)
    assert found["assign"](network) == []
    stages = {path: vars(cell).get("pipeline_stage") for path, cell in cells.items()}
    torn = torn_cells(plan)
    for op in plan.operators:
        if op.scope not in torn:
            assert stages.get(op.scope, stages["net"]) == op.stage
    del cells[next(iter(found["STAGES"]))]
    assert len(found["assign"](network)) == 1


def test_the_script_asks_for_the_stages(plan: Plan) -> None:
    (text,) = script(plan, Settings({}, SETTINGS)).files.values()
    assert "parallel.pipeline(stages=2, interleave=False, scheduler='1f1b')" in text
    assert "'pipeline_stages': 2" in text
    with pytest.raises(ExportError, match="the plan has 2 stages"):
        script(plan, Settings({"pipeline_stages": "4"}, SETTINGS))


def test_what_mindspore_does_otherwise_is_said(plan: Plan) -> None:
    few = replace(plan, pipeline=replace(pipeline(plan), micro_batches=1))
    assert any("at least as many micro-batches as stages" in loss for loss in scheme_losses(few))
    inside = drawn_stages(scoped(mlp(6, 4, 64, 128), 11), 8, Configuration(2, 4, 4), "mindspore", 3)
    assert any("cuts inside" in loss for loss in mindspore.losses(inside))


def test_groups_stay_inside_their_stage(plan: Plan) -> None:
    for rank in range(plan.devices):
        found = groups_of(plan, rank)
        own = set(range(rank // 4 * 4, rank // 4 * 4 + 4))
        assert rank in found.same
        assert own.issuperset(found.same)
        assert all(own.issuperset(group.ranks) and rank in group.ranks for group in found.groups)


@pytest.mark.parametrize("module", [jax, torch], ids=["jax", "torch"])
def test_json_has_one_mesh_for_each_stage(module: Any, free: Plan) -> None:
    record = json.loads(module.to_json(free))
    assert (record["schedule"], record["micro_batches"], record["micro_batch"]) == ("1f1b", 4, 4)
    operators = [name for stage in record["stages"] for name in stage["operators"]]
    assert operators == [op.name for op in free.graph.ops]
    assert [stage["devices"] for stage in record["stages"]] == [
        list(stage_ranks(free, number)) for number in range(4)
    ]
    for number, stage in enumerate(record["stages"]):
        read = module.from_json(json.dumps(stage["sharding"]))
        assert read == sharding_of(stage_plan(free, number))
    for before, after in zip(record["stages"], record["stages"][1:], strict=False):
        assert before["sends"] == after["receives"] != []
    with pytest.raises(ExportError, match="one mesh"):
        module.to_python(free)


def test_the_table_names_the_stage(free: Plan) -> None:
    header, *rows = to_csv(free).splitlines()
    assert header.endswith(",stage")
    assert {row.rpartition(",")[2] for row in rows} == {"0", "1", "2", "3"}


def test_cells_and_layers_are_counted_by_stage(free: Plan) -> None:
    cells = assigned_cells(free)
    assert sum(layer_counts(free)) == 6
    for op in free.operators:
        holders = [path for path in cells if op.scope == path or op.scope.startswith(f"{path}.")]
        if op.scope not in torn_cells(free):
            assert [cells[path] for path in holders] == [op.stage]


def transformer(layers: int) -> OpGraph:
    build = GraphBuilder("transformer")
    dims = (8, 4, 16)
    x = build.input("x", dims)
    for layer in range(layers):
        y = build.op("MatMul", (x, build.weight(f"in.{layer}", (16, 16))), dims)
        y = build.op("Softmax", (y,), dims, axis=2)
        y = build.op("MatMul", (y, build.weight(f"out.{layer}", (16, 16))), dims)
        x = build.op("Add", (x, y), dims)
    return scoped(build.build(x), 4)


@pytest.mark.parametrize("layers", [4, 5])
def test_megatron_is_told_stages_and_batches(layers: int) -> None:
    plan = drawn_stages(transformer(layers), 8, Configuration(2, 8, 4), "generic", 0)
    data, weight = NamedLayout((("card",), (), ())), NamedLayout(((), ()))
    plan = laid_out(plan, {t.name: (weight, weight) for t in plan.parameters}, data)
    text = megatron.to_arguments(plan)
    given = set(text.splitlines())
    assert {
        "--tensor-model-parallel-size 1", "--pipeline-model-parallel-size 2",
        "--micro-batch-size 2", "--global-batch-size 32",
    } <= given  # fmt: skip
    counts = layer_counts(plan)
    ends = [
        line for line in given if line.startswith(("--decoder-", "--pipeline-model-parallel-l"))
    ]
    assert len(ends) == (0 if len(set(counts)) == 1 else 2 if all(counts) else 1)
