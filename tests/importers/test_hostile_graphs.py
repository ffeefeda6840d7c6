"""Graphs that are no model: the error names the node or tensor and says how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.importers.onnx_models import (
    INT64,
    imported,
    kinds,
    mlp,
    model,
    node,
    refusal,
    stored,
    value,
    weight,
)

pytestmark = pytest.mark.fast


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    made = mlp()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    change(made)
    return made


def test_a_cycle_names_a_node_on_it(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.node[0].input.__setitem__(0, "r"))
    error = refusal(tmp_path, made)
    assert "cycle" in error.what
    assert "first" in error.where


def test_a_node_that_reads_itself_is_a_cycle(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.node[1].input.__setitem__(0, "r"))
    assert "cycle" in refusal(tmp_path, made).what


def test_a_missing_producer_is_named_with_its_reader(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.node[0].input.__setitem__(0, "ghost"))
    error = refusal(tmp_path, made)
    assert "'ghost'" in error.what
    assert "first" in error.where


def test_an_output_that_nothing_makes_is_named(tmp_path: Path) -> None:
    made = changed(lambda m: setattr(m.graph.output[0], "name", "ghost"))
    assert "'ghost'" in refusal(tmp_path, made).what


def test_a_tensor_made_twice_is_named(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.node[2].output.__setitem__(0, "h"))
    assert "'h' is made twice" in refusal(tmp_path, made).what


def test_an_initializer_with_the_name_of_a_result_is_refused(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.initializer.append(weight("h", 4)))
    assert "'h'" in refusal(tmp_path, made).what


def test_two_initializers_of_one_name_are_refused(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.initializer.append(weight("w1", 16, 8)))
    assert "'w1' is defined twice" in refusal(tmp_path, made).what


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.input.append(value("x", [2, 8])))
    assert "'x'" in refusal(tmp_path, made).what


def test_an_input_may_repeat_an_initializer(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.input.append(value("w1", [16, 8])))
    assert imported(tmp_path, made).inputs == ("x",)


@pytest.mark.parametrize("code", [0, 99, -1])
def test_an_unknown_element_type_is_refused(tmp_path: Path, code: int) -> None:
    made = changed(lambda m: setattr(m.graph.initializer[0], "data_type", code))
    error = refusal(tmp_path, made)
    assert str(code) in error.what
    assert "'w1'" in error.where


def test_a_cast_to_an_unknown_type_is_refused(tmp_path: Path) -> None:
    made = model([node("Cast", ["x"], ["y"], to=77)], {"x": [2]}, {"y": None})
    assert "y (Cast)" in refusal(tmp_path, made).where


@pytest.mark.parametrize("size", [0, -3, 2**60])
def test_impossible_input_dims_are_refused(tmp_path: Path, size: int) -> None:
    def change(made: onnx.ModelProto) -> None:
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size

    error = refusal(tmp_path, changed(change))
    assert str(size) in error.what
    assert "'x'" in error.where


@pytest.mark.parametrize("size", [-1, 2**62])
def test_impossible_weight_dims_are_refused(tmp_path: Path, size: int) -> None:
    made = changed(lambda m: m.graph.initializer[0].dims.__setitem__(0, size))
    assert "'w1'" in refusal(tmp_path, made).where


def test_a_tensor_that_no_machine_holds_is_refused(tmp_path: Path) -> None:
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        {"x": [2**38, 1]},
        {"y": None},
        [weight("w", 1, 2**38)],
    )
    assert "impossible dims" in refusal(tmp_path, made).what


def test_an_input_without_shape_is_refused(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"))
    assert "no shape" in refusal(tmp_path, made).what


def test_a_sequence_as_input_is_refused(tmp_path: Path) -> None:
    made = changed(
        lambda m: m.graph.input[0].type.CopyFrom(
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2]))
        )
    )
    assert "sequence" in refusal(tmp_path, made).what


def test_a_sequence_inside_is_refused(tmp_path: Path) -> None:
    made = model(
        [
            node("SequenceConstruct", ["x", "x"], ["s"]),
            node("ConcatFromSequence", ["s"], ["y"], axis=0),
        ],
        {"x": [2, 2]},
        {"y": [4, 2]},
    )
    error = refusal(tmp_path, made)
    assert "sequence" in error.what
    assert "SequenceConstruct" in error.where


def test_an_unbound_dimension_is_named_with_the_flag(tmp_path: Path) -> None:
    error = refusal(tmp_path, mlp())
    assert "'batch'" in error.what
    assert "'x'" in error.where
    assert "--bind batch=" in error.fix


def test_an_anonymous_dimension_is_named_after_its_input(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": [None, 4]}, {"y": None})
    assert "--bind x.0=" in refusal(tmp_path, made).fix
    assert imported(tmp_path, made, {"x.0": 6}).tensors["y"].dims == (6, 4)


def test_all_names_of_a_computed_dimension_are_asked_for(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": ["seq*batch + 1"]}, {"y": None})
    assert refusal(tmp_path, made).fix.endswith("--bind batch=16,seq=16")
    assert imported(tmp_path, made, {"batch": 2, "seq": 8}).tensors["y"].dims == (17,)


def test_a_dimension_known_only_when_the_model_runs_is_named(tmp_path: Path) -> None:
    made = model(
        [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["y"], to=1)],
        {"x": [4]},
        {"y": None},
    )
    error = refusal(tmp_path, made)
    assert "'n'" in error.what
    assert "NonZero" in error.where


def test_an_annotated_inner_dimension_can_be_bound(tmp_path: Path) -> None:
    made = model(
        [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["y"], to=1)],
        {"x": [4]},
        {"y": None},
    )
    made.graph.value_info.append(value("n", [1, "found"], onnx.TensorProto.INT64))
    assert "--bind found=" in refusal(tmp_path, made).fix
    assert imported(tmp_path, made, {"found": 3}).tensors["y"].dims == (1, 3)


def test_binding_a_name_that_the_model_lacks_lists_those_it_has(tmp_path: Path) -> None:
    error = refusal(tmp_path, mlp(), {"bach": 4})
    assert "'bach'" in error.what
    assert "batch" in error.fix


def test_binding_dimensions_of_a_fixed_model_is_refused(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": [2]})
    assert "leave --bind out" in refusal(tmp_path, made, {"batch": 2}).fix


@pytest.mark.parametrize("size", [0, -1, 2**50])
def test_binding_to_an_impossible_size_is_refused(tmp_path: Path, size: int) -> None:
    assert str(size) in refusal(tmp_path, mlp(), {"batch": size}).what


def test_a_computed_dimension_that_becomes_zero_is_refused(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": ["n - 4"]}, {"y": None})
    assert "becomes 0" in refusal(tmp_path, made, {"n": 4}).what
    assert "becomes -1" in refusal(tmp_path, made, {"n": 3}).what


@pytest.mark.parametrize(
    "location", ["../weights.bin", "/etc/passwd", "a/../../b", "C:\\w.bin", "..\\w.bin", "\\w.bin"]
)
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    def change(made: onnx.ModelProto) -> None:
        made.graph.initializer[0].external_data[0].value = location

    assert "outside the model's folder" in refusal(tmp_path, changed(change)).what


def test_external_data_of_a_constant_node_is_checked_too(tmp_path: Path) -> None:
    tensor = weight("w", 2, 2)
    tensor.external_data[0].value = "../../w.bin"
    made = model(
        [node("Constant", [], ["c"], value=tensor), node("MatMul", ["x", "c"], ["y"])],
        {"x": [2, 2]},
        {"y": None},
    )
    assert "outside the model's folder" in refusal(tmp_path, made).what


@pytest.mark.parametrize(
    "broken",
    [
        node("MatMul", ["x"], ["y"]),
        node("MatMul", ["x", "x", "x"], ["y"]),
        node("MatMul", ["x", ""], ["y"]),
        node("MatMul", ["", "x"], ["y"]),
        node("Relu", ["x", "x"], ["y"]),
        node("Relu", [], ["y"]),
        node("Softmax", ["x"], ["y"], axis=7),
        node("Softmax", ["x"], ["y"], axis=1.5),
        node("Softmax", ["x"], ["y"], axis="last"),
        node("Softmax", ["x"], ["y"], unheard_of=1),
        node("Transpose", ["x"], ["y"], perm=[0, 0]),
        node("Transpose", ["x"], ["y"], perm=[0, 5]),
        node("Reshape", ["x", "x"], ["y"]),
        node("Reshape", ["x", "five"], ["y"]),
        node("Conv", ["x", "x"], ["y"]),
        node("MatMul", ["x", "tall"], ["y"]),
        node("Add", ["x", "tall"], ["y"]),
        node("Concat", ["x", "tall"], ["y"], axis=0),
        node("Concat", ["x", "x"], ["y"], axis=9),
        node("Concat", ["x", "x"], ["y"]),
        node("Gather", ["x", "x"], ["y"], axis=5),
        node("Gather", ["x", "five"], ["y"], axis=-9),
        node("Split", ["x"], ["y", "z"], axis=3),
        node("Split", ["x"], ["y", "z"], num_outputs=1),
        node("GatherND", ["x", "five"], ["y"], batch_dims=-2),
        node("Expand", ["x", "endless"], ["y"]),
        node("Einsum", ["x", "x"], ["y"], equation="ij->"),
        node("Einsum", ["x", "x"], ["y"], equation="ij,jk,kl->il"),
        node("Einsum", ["x"], ["y"], equation="ijk->i"),
        node("Einsum", ["x"], ["y"]),
        node("TopK", ["x", "five"], ["y", "z"], axis=8),
        node("LayerNormalization", ["x", "wide"], ["y"]),
        node("LayerNormalization", ["x"], ["y"]),
        node("BatchNormalization", ["x"], ["y"]),
        node("Attention", ["x", "x", "x"], ["y"]),
        node("ReduceSum", ["x", "x"], ["y"]),
        node("Squeeze", ["x", "five"], ["y"]),
        node("Unsqueeze", ["x", "five"], ["y"]),
        node("CumSum", ["x", "five"], ["y"]),
        node("Slice", ["x", "five", "five", "five"], ["y"]),
        node("GatherND", ["x", "x"], ["y"]),
        node("Pad", ["x", "five"], ["y"]),
        node("If", ["yes"], ["y"]),
        node("Loop", ["five", "yes"], ["y"]),
        node("Scan", ["x"], ["y"], num_scan_inputs=1),
    ],
    ids=lambda n: f"{n.op_type}({','.join(n.input)})",
)
def test_a_node_that_does_not_fit_is_named(tmp_path: Path, broken: onnx.NodeProto) -> None:
    made = model(
        [broken],
        {"x": [2, 3]},
        {"y": None},
        [
            stored("tall", np.zeros((5, 7), np.float32)),
            stored("five", [5]),
            weight("endless", 2**33, code=INT64),
            stored("wide", np.zeros((2, 2, 2, 3), np.float32)),
            stored("yes", np.array(True)),
        ],
        opset=23,
    )
    error = refusal(tmp_path, made)
    assert broken.op_type in f"{error.what} {error.where}"


def test_a_node_without_result_is_refused(tmp_path: Path) -> None:
    made = changed(lambda m: m.graph.node.append(node("Relu", ["x"], [])))
    assert "no result" in refusal(tmp_path, made).what


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    data = changed(lambda m: setattr(m.graph.node[1], "name", "needle")).SerializeToString()
    path.write_bytes(data.replace(b"needle", b"\xff\xfe\xfd\xfc\xfb\xfa"))
    made = onnx.ModelProto()
    made.ParseFromString(path.read_bytes())
    assert "no text" in refusal(tmp_path, made).what


def test_a_model_that_computes_nothing_is_refused(tmp_path: Path) -> None:
    made = model(
        [node("Add", ["one", "one"], ["y"])], {"x": [2]}, {"y": None}, [stored("one", 1.0)]
    )
    assert "no operator" in refusal(tmp_path, made).what


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    def reverse(made: onnx.ModelProto) -> None:
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made.graph.node]
        del made.graph.node[:]
        made.graph.node.extend(reversed(nodes))

    assert kinds(imported(tmp_path, changed(reverse))) == ["MatMul", "Add", "Relu", "MatMul"]


def test_nodes_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    def same(made: onnx.ModelProto) -> None:
        for each in made.graph.node:
            each.name = "layer"

    found = imported(tmp_path, changed(same))
    assert len({op.name for op in found.ops}) == len(found.ops)


def test_large_constant_arithmetic_stays_small(tmp_path: Path) -> None:
    """Shapes that multiply out to more than memory are dims without numbers, or refused."""
    made = model(
        [
            node("ConstantOfShape", ["huge"], ["c"]),
            node("Gather", ["row", "column"], ["g"], axis=0),
            node("Add", ["row", "upright"], ["s"]),
            node("ReduceSum", ["c"], ["r"], keepdims=0),
            node("ReduceSum", ["g"], ["gs"], keepdims=0),
            node("ReduceSum", ["s"], ["ss"], keepdims=0),
            node("Add", ["gs", "ss"], ["t"]),
            node("Cast", ["t"], ["q"], to=1),
            node("Sum", ["x", "r", "q"], ["y"]),
        ],
        {"x": [2]},
        {"y": None},
        [
            stored("huge", [2**20, 2**20]),
            stored("row", np.zeros(60000, np.int64)),
            stored("column", np.zeros((60000, 1), np.int64)),
            stored("upright", np.zeros((60000, 1), np.int64)),
        ],
    )
    assert kinds(imported(tmp_path, made)) == ["Sum"]
