"""Names that a network has once it is compiled, and the loss behind it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from exporters.formats import FORMATS
from exporters.mindspore.apply import apply_module, operator_strategies
from exporters.mindspore.compiled_names import compiled_names
from exporters.mindspore.listed import cut_primitives
from exporters.mindspore.loss import class_cuts, loss_module, loss_operators
from exporters.settings import Settings
from importers.mindir.reading import import_mindir
from importers.onnx import import_onnx
from ir.file_primitives import FilePrimitive
from ir.plan import Plan
from planner.repricing.mindspore.checkpoint import batch_loss_s
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from topology.catalogue import named_cluster

DATA = Path(__file__).parents[1] / "data" / "mindspore_networks"


@functools.cache
def plan(suffix: str, seed: int) -> Plan:
    read = import_onnx if suffix == "onnx" else import_mindir
    return drawn_plan(read(DATA / f"encoder.{suffix}"), 8, SearchRequest(training=False), seed)


def compiled(*primitives: FilePrimitive) -> dict[str, str]:
    """By the likeliest of its names in another cell, the name in the file."""
    out: dict[str, str] = {}
    for name, each in compiled_names(primitives, inside=True):
        out.setdefault(name, each.name)
    return out


def primitive(name: str, *makers: str) -> FilePrimitive:
    kind = name.rpartition("/")[2].rpartition("-op")[0]
    return FilePrimitive(f"Default/{name}", kind, ((8, 8),) * len(makers), makers)


@pytest.mark.fast
def test_operators_of_python_are_counted_on_from_the_first_of_the_cell() -> None:
    found = compiled(
        primitive("Add-op0", "x", "w"),
        primitive("a-Block/Add-op0", "Default/Add-op0", "x"),
        primitive("b-Block/Add-op0", "Default/a-Block/Add-op0", "x"),
    )
    assert found["Default/Add-op1"] == "Default/a-Block/Add-op0"
    assert found["Default/Add-op2"] == "Default/b-Block/Add-op0"


def test_reshapes_that_the_export_merged_stand_in_each_cell() -> None:
    shared = "Default/q-Dense/Reshape-op0"
    found = compiled(
        primitive("q-Dense/Reshape-op0", "x"),
        primitive("q-Dense/MatMul-op0", shared, "q.weight"),
        primitive("k-Dense/MatMul-op0", shared, "k.weight"),
        primitive("k-Dense/Reshape-op0", "Default/k-Dense/MatMul-op0"),
    )
    assert found["Default/k-Dense/Reshape-op0"] == shared
    assert found["Default/k-Dense/Reshape-op1"] == "Default/k-Dense/Reshape-op0"


def test_the_result_of_another_kind_of_cell_is_not_its_reader_s() -> None:
    found = compiled(
        primitive("norm-LayerNorm/LayerNorm-op0", "x"),
        primitive("k-Dense/MatMul-op0", "Default/norm-LayerNorm/LayerNorm-op0", "k.weight"),
    )
    assert set(found) == {"Default/norm-LayerNorm/LayerNorm-op0", "Default/k-Dense/MatMul-op0"}


@pytest.mark.parametrize("suffix", ["mindir", "onnx"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_files_have_the_primitives_and_dimensions_of_the_network(suffix: str, seed: int) -> None:
    found = operator_strategies(plan(suffix, seed))
    for own in cut_primitives(plan(suffix, seed)):
        assert [len(c) for c in own.cuts] == [len(dims) for dims in own.primitive.operands]
    assert all(len(cuts[0]) == 2 for cuts in found["layers.0.up"]["BiasAdd"])
    assert "Add" not in found["layers.0.up"]


@pytest.mark.fast
def test_a_plan_of_a_mindir_needs_no_model_for_the_operators_file() -> None:
    form = FORMATS["mindspore-operators"]
    made = form.of_model(plan("mindir", 1), Settings({"scope": "network-Net"}, form.settings), ())
    assert b"Default/network-Net/Add-op4" in made.content
    with pytest.raises(Exception, match="names of all operators are in the model file"):
        form.of_model(plan("onnx", 1), Settings({}, form.settings), ())


def class_parallel() -> Plan:
    graph = import_mindir(DATA / "encoder.mindir")
    (logits,) = graph.outputs
    request = SearchRequest(pins=((f"loss/{logits}", ((2, 4),)),))
    return search(graph, named_cluster("atlas-800t-a2", 8), request)


def test_a_loss_that_cuts_classes_comes_with_a_cell_and_a_price() -> None:
    found = class_parallel()
    assert class_cuts(found) == (2, 4)
    assert "LOGITS = (2, 4)" in apply_module(found)
    compile(loss_module(found), "loss", "exec")
    other_s = batch_loss_s(found)
    assert other_s is not None
    assert other_s != found.estimate.step_time_s


def test_losses_beside_the_network_have_strategies() -> None:
    found = {i.key: i.cuts for i in loss_operators(class_parallel(), "network-W/_backbone-Net")}
    around = "Default/network-W/_loss_fn-"
    rows = found[f"{around}SoftmaxCrossEntropyWithLogits/SoftmaxCrossEntropyWithLogits-op0"]
    assert rows == ((2, 1), (2, 1))
    assert found[f"{around}PlannedLoss/Exp-op0"] == ((2, 4),)
    assert list(loss_operators(class_parallel(), "network-Net")) == []
