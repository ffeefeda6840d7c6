"""What a file says beside its graph: names, numbers, calls, primitives that no line has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from importers.errors import ModelError
from importers.mindir.flattening import PASSED
from importers.mindir.reading import constant_values, import_mindir, mindir_facts
from importers.model_file import import_model_file, model_format
from importers.traced.operations import FrontEnd, table
from ir.file_primitives import cell_path
from ir.mindspore_forms.primitives import PRIMITIVES
from ir.ops import annotation
from planner.constraints.operator_rules import annotated
from tests.importers.mindir.crafted import function, message, model, node, shape, tensor, written

pytestmark = pytest.mark.fast

DATA = Path(__file__).parents[2] / "data" / "mindir"


def test_functions_are_inlined_at_every_call() -> None:
    graph = import_mindir(DATA / "calls.mindir")
    products = [op for op in graph.ops if op.kind == "MatMul"]
    assert len(products) == 3
    weights = {t.name for t in graph.parameters}
    wanted = {f"layers.{i}.up.{part}" for i in range(3) for part in ("weight", "bias")}
    assert weights == wanted
    assert len(graph.outputs) == 6
    assert graph.inputs == ("x", "before")


def test_weights_in_the_file_are_read() -> None:
    expected = json.loads((DATA / "calls.json").read_text())
    found = constant_values(DATA / "calls.mindir", expected)
    assert found.keys() == expected.keys()
    for name, record in expected.items():
        np.testing.assert_array_equal(
            found[name].reshape(-1), np.array(record["values"], np.float32)
        )


def test_weights_beside_the_file_are_read(tmp_path: Path) -> None:
    numbers = np.arange(32, dtype="<f4")
    (tmp_path / "net_variables").mkdir()
    (tmp_path / "net_variables" / "data_0").write_bytes(bytes(64) + numbers.tobytes())
    outside = message("ExternalDataProto", location="net_variables/data_0", offset=64, length=128)
    weight = tensor(4, 8, name="g:w", ref_key="net.w", external_data=outside)
    add = node("REF::Add:1", ["x", "g:w"], "y", shape(4, 8))
    graph = function("g", [add], ["x"], "y") + message("GraphProto", parameter=weight)
    path = written(tmp_path, model([], graph=graph))
    assert [t.name for t in import_mindir(path).parameters] == ["net.w"]
    found = constant_values(path, ["net.w"])["net.w"]
    np.testing.assert_array_equal(found, numbers.reshape(4, 8))


def test_statistics_are_no_parameters() -> None:
    names = {t.name for t in import_mindir(DATA / "residual.mindir").parameters}
    assert "bn1.gamma" in names
    assert not any("moving" in name for name in names)


def test_an_unknown_primitive_keeps_its_name_and_takes_a_rule(tmp_path: Path) -> None:
    path = written(tmp_path, model([node("REF::Twist:1", ["x"], "y", shape(4, 8))]))
    assert mindir_facts(path).kinds == {"mindspore::Twist": 1}
    graph = import_mindir(path)
    assert [op.kind for op in graph.ops] == ["mindspore::Twist"]
    annotated(graph, [("mindspore::Twist", "a b -> a b")])


def test_a_primitive_that_onnx_lacks_has_a_rule(tmp_path: Path) -> None:
    graph = import_mindir(written(tmp_path, model([node("Lgamma", ["x"], "y", shape(4, 8))])))
    (op,) = graph.ops
    assert (op.kind, annotation(op)) == ("mindspore::Lgamma", "d0 d1 -> d0 d1")


def test_primitives_without_a_table_of_their_own_are_read(tmp_path: Path) -> None:
    """Files of older releases name the primitive in the node, with its attributes."""
    turned = message("AttributeProto", name="transpose_b", type=9, i=1)
    product = node("MatMul", ["x", "x"], "y", shape(4, 4), turned)
    graph = import_mindir(written(tmp_path, model([product])))
    assert graph.tensors["Default/y-op0"].dims == (4, 4)


@pytest.mark.parametrize("name", ["Acos", "Acosh", "Asin", "Asinh", "Atan"])
def test_primitives_of_newer_releases_are_those_of_older_ones(name: str, tmp_path: Path) -> None:
    graph = import_mindir(written(tmp_path, model([node(f"{name}Ext", ["x"], "y", shape(4, 8))])))
    assert [op.kind for op in graph.ops] == [name]


def test_numbers_of_a_primitive_are_attributes(tmp_path: Path) -> None:
    slope = message("AttributeProto", name="alpha", type=1, f=0.5)
    path = written(tmp_path, model([node("CeLU", ["x"], "y", slope, shape(4, 8))]))
    assert [(op.kind, op.attributes) for op in import_mindir(path).ops] == [
        ("Celu", {"alpha": 0.5})
    ]


def test_sizes_cannot_be_bound() -> None:
    with pytest.raises(ModelError, match="no dynamic dimension"):
        import_mindir(DATA / "mlp.mindir", {"batch": 3})


def test_the_name_of_the_file_tells_the_way_in() -> None:
    path = DATA / "mlp.mindir"
    assert import_model_file(path).name == "mlp"
    facts = model_format(path).facts(path)
    assert facts.producer == "MindSpore 2.10.0"
    assert facts.kinds == {"MatMul": 2, "BiasAdd": 2, "ReLU": 1}
    assert facts.becomes["ReLU"] == ("Relu",)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Default/up-Dense/MatMul-op0", "up"),
        ("Default/net-WithLoss/layers-CellList/0-Layer/Add-op3", "net.layers.0"),
        ("Default/Add-op1", ""),
        ("Gradients/Default/up-Dense/gradMatMul/MatMul-op2", "up"),
    ],
)
def test_the_path_of_a_cell(name: str, path: str) -> None:
    assert cell_path(name) == path


def test_primitives_that_strategies_are_written_for_are_read() -> None:
    missing = {name for name in PRIMITIVES.values() if name not in table(FrontEnd.MINDIR)}
    assert missing <= PASSED


def test_arguments_stand_where_mindspore_has_them() -> None:
    """Of older primitives these are the tensors, the rest are attributes."""
    recorded = json.loads((DATA / "arguments.json").read_text())
    compared = 0
    for name, entry in table(FrontEnd.MINDIR).items():
        theirs = tuple(recorded.get(name, ()))
        count = min(len(theirs), len(entry.parameters))
        assert theirs[:count] == entry.parameters[:count], name
        compared += bool(theirs)
    assert compared > 200
