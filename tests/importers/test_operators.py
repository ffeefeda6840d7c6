"""What nodes become: one form, whatever opset and exporter wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from importers.errors import ModelError
from ir.graph import Op, OpGraph
from ir.ops import is_known, lookup
from tests.importers.onnx_models import (
    BOOL,
    Dims,
    control_flow,
    graph,
    imported,
    kinds,
    model,
    node,
    shape_arithmetic,
    stored,
    value,
    weight,
)

pytestmark = pytest.mark.fast


def one(
    folder: Path,
    kind: str,
    inputs: list[str],
    dims: dict[str, Dims],
    *stored_tensors: onnx.TensorProto,
    opset: int = 21,
    results: int = 1,
    **attributes: Any,
) -> Op:
    """The operator that a single node becomes."""
    outputs = [f"y{i}" for i in range(results)]
    made = model(
        [node(kind, inputs, outputs, **attributes)],
        dims,
        dict.fromkeys(outputs),
        list(stored_tensors),
        opset,
    )
    found = imported(folder, made).ops
    assert len(found) == 1
    return found[0]


X: dict[str, Dims] = {"x": [2, 3, 4]}


def test_reductions_have_axes_whatever_the_opset(tmp_path: Path) -> None:
    as_attribute = one(tmp_path, "ReduceSum", ["x"], X, opset=11, axes=[-1])
    as_operand = one(tmp_path, "ReduceSum", ["x", "a"], X, stored("a", [-1]))
    assert as_attribute.attributes == as_operand.attributes == {"axes": (2,)}
    assert as_operand.inputs == ("x",)


def test_a_reduction_without_axes_takes_all_or_none(tmp_path: Path) -> None:
    assert one(tmp_path, "ReduceMax", ["x"], X).attributes["axes"] == (0, 1, 2)
    nothing = one(tmp_path, "ReduceMax", ["x"], X, noop_with_empty_axes=1)
    assert nothing.kind == "Identity"


def test_axes_computed_while_the_model_runs_are_refused(tmp_path: Path) -> None:
    made = model(
        [node("ReduceSum", ["x", "a"], ["y"], keepdims=1)],
        {"x": [2, 3], "a": [1]},
        {"y": [2, 1]},
        integers=["a"],
    )
    with pytest.raises(ModelError, match="computed while the model runs"):
        imported(tmp_path, made)


def test_softmax_before_opset_13_flattens(tmp_path: Path) -> None:
    old = one(tmp_path, "Softmax", ["x"], X, opset=11)
    assert old.attributes == {"axis": 1, "to_end": 1}
    last = one(tmp_path, "Softmax", ["x"], X, opset=11, axis=2)
    assert last.attributes == one(tmp_path, "Softmax", ["x"], X).attributes == {"axis": 2}


@pytest.mark.parametrize("kind", ["Squeeze", "Unsqueeze"])
def test_squeezed_axes_are_attributes(tmp_path: Path, kind: str) -> None:
    dims: dict[str, Dims] = {"x": [2, 1, 3, 1]}
    as_attribute = one(tmp_path, kind, ["x"], dims, opset=11, axes=[-1, 1])
    as_operand = one(tmp_path, kind, ["x", "a"], dims, stored("a", [-1, 1]))
    assert as_attribute.attributes == as_operand.attributes
    assert as_operand.attributes["axes"] == ((1, 3) if kind == "Squeeze" else (1, 5))


def test_squeeze_without_axes_takes_all_of_size_one(tmp_path: Path) -> None:
    assert one(tmp_path, "Squeeze", ["x"], {"x": [2, 1, 3, 1]}).attributes["axes"] == (1, 3)


def sliced(folder: Path, starts: int, ends: int, axis: int, step: int = 1) -> Op:
    bounds = [stored(n, [v]) for n, v in zip("seak", (starts, ends, axis, step), strict=True)]
    return one(folder, "Slice", ["x", *"seak"], X, *bounds)


def test_a_slice_locks_the_axes_that_it_cuts(tmp_path: Path) -> None:
    assert sliced(tmp_path, 1, 3, -1).attributes["axes"] == (2,)
    assert sliced(tmp_path, 0, 99, 1).kind == "Identity"
    assert sliced(tmp_path, 0, 4, 2, 2).attributes["axes"] == (2,)


def test_a_reversed_axis_is_locked_although_its_size_stays(tmp_path: Path) -> None:
    flipped = sliced(tmp_path, -1, -99, 1, -1)
    assert flipped.kind == "Slice"
    assert flipped.attributes["axes"] == (1,)


def test_a_slice_in_old_form(tmp_path: Path) -> None:
    old = one(tmp_path, "Slice", ["x"], X, opset=9, starts=[1], ends=[2], axes=[1])
    assert old.attributes["axes"] == (1,)


def padded(folder: Path, *pads: int) -> Op:
    return one(folder, "Pad", ["x", "p"], X, stored("p", list(pads)))


def test_padding_locks_its_axes_although_cropping_may_keep_the_size(tmp_path: Path) -> None:
    assert padded(tmp_path, 0, 1, 0, 0, 1, 0).attributes["axes"] == (1,)
    shifted = padded(tmp_path, 0, 1, 0, 0, -1, 0)
    assert shifted.kind == "Pad"
    assert shifted.attributes["axes"] == (1,)
    assert padded(tmp_path, 0, 0, 0, 0, 0, 0).kind == "Identity"


def test_gemm_becomes_a_product_and_an_addition(tmp_path: Path) -> None:
    made = model(
        [node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        {"x": [2, 8]},
        {"y": None},
        [weight("w", 4, 8), weight("b", 4)],
    )
    found = imported(tmp_path, made)
    assert kinds(found) == ["MatMul", "Add"]
    assert found.ops[0].attributes == {"trans_b": 1}
    assert found.tensors[found.ops[0].outputs[0]].dims == (2, 4)


def test_the_product_of_a_gemm_has_a_name_of_its_own(tmp_path: Path) -> None:
    made = model(
        [
            node("Relu", ["x"], ["y/product"]),
            node("Gemm", ["y/product", "w", "b"], ["y"]),
        ],
        {"x": [2, 8]},
        {"y": None},
        [weight("w", 8, 4), weight("b", 4)],
    )
    assert kinds(imported(tmp_path, made)) == ["Relu", "MatMul", "Add"]


def test_a_convolution_with_bias_becomes_two(tmp_path: Path) -> None:
    made = model(
        [node("Conv", ["x", "w", "b"], ["y"], group=2, pads=[1, 1, 1, 1])],
        {"x": [2, 4, 8, 8]},
        {"y": None},
        [weight("w", 6, 2, 3, 3), weight("b", 6)],
    )
    found = imported(tmp_path, made)
    assert kinds(found) == ["Conv", "BiasAdd"]
    assert found.ops[0].attributes["group"] == 2
    assert {t.name for t in found.parameters} == {"w", "b"}


def test_an_absent_result_in_front_of_a_used_one_has_dims(tmp_path: Path) -> None:
    made = model(
        [node("TopK", ["x", "k"], ["", "i"], axis=1), node("Cast", ["i"], ["y"], to=1)],
        {"x": [2, 8]},
        {"y": None},
        [stored("k", [3])],
    )
    found = imported(tmp_path, made)
    assert [found.tensors[n].dims for n in found.ops[0].outputs] == [(2, 3), (2, 3)]


def test_unused_results_and_dead_nodes_go(tmp_path: Path) -> None:
    made = model(
        [
            node("Dropout", ["x"], ["d", "mask"]),
            node("Exp", ["x"], ["nobody"]),
            node("Relu", ["d"], ["y"]),
        ],
        {"x": [2, 8]},
        {"y": None},
    )
    found = imported(tmp_path, made)
    assert kinds(found) == ["Dropout", "Relu"]
    assert found.ops[0].outputs == ("d",)


def test_shape_arithmetic_is_folded_away(tmp_path: Path) -> None:
    found = imported(tmp_path, shape_arithmetic(), {"batch": 2, "seq": 4})
    assert kinds(found) == [
        "MatMul", "Reshape", "Transpose", "Transpose", "MatMul", "Div", "Softmax", "MatMul",
    ]  # fmt: skip
    assert found.tensors["q4"].dims == (2, 4, 2, 4)


def test_a_known_condition_takes_its_branch_and_an_unknown_one_stays(tmp_path: Path) -> None:
    found = imported(tmp_path, control_flow())
    assert kinds(found) == ["Relu", "ReduceSum", "Greater", "If", "Loop"]
    opaque = found.ops[3]
    assert not is_known(opaque.kind)
    assert "x" in opaque.inputs
    assert lookup("If").rule is lookup("Loop").rule


def test_the_other_branch(tmp_path: Path) -> None:
    made = control_flow()
    made.graph.initializer[0].CopyFrom(stored("yes", np.array(False)))
    assert kinds(imported(tmp_path, made))[0] == "Neg"


def branching(then: onnx.GraphProto) -> onnx.NodeProto:
    return node("If", ["yes"], [then.output[0].name + "_out"], then_branch=then, else_branch=then)


def test_sibling_branches_may_use_the_same_names(tmp_path: Path) -> None:
    def branch(result: str, kind: str) -> onnx.GraphProto:
        steps = [node(kind, ["x"], ["same"]), node("MatMul", ["same", "w"], [result])]
        return graph(steps, [], [value(result, [2, 4])], [weight("w", 8, 4)])

    made = model(
        [
            branching(branch("a", "Relu")),
            branching(branch("b", "Neg")),
            node("Add", ["a_out", "b_out"], ["y"]),
        ],
        {"x": [2, 8]},
        {"y": [2, 4]},
        [stored("yes", np.array(True))],
    )
    found = imported(tmp_path, made)
    assert kinds(found) == ["Relu", "MatMul", "Neg", "MatMul", "Add"]
    assert len(found.parameters) == 2


def test_a_branch_may_hand_out_what_it_did_not_make(tmp_path: Path) -> None:
    passing = graph([], outputs=[value("x", [2, 8])])
    made = model(
        [node("If", ["yes"], ["h"], then_branch=passing, else_branch=passing),
         node("Relu", ["h"], ["y"])],
        {"x": [2, 8]},
        {"y": None},
        [stored("yes", np.array(True))],
    )  # fmt: skip
    assert kinds(imported(tmp_path, made)) == ["Identity", "Relu"]


def test_an_inner_branch_sees_the_names_of_the_outer_one(tmp_path: Path) -> None:
    inner = graph([node("Neg", ["made"], ["t"])], outputs=[value("t", [2, 8])])
    outer = graph(
        [
            node("Relu", ["x"], ["made"]),
            node("If", ["asked"], ["u"], then_branch=inner, else_branch=inner),
        ],
        outputs=[value("u", [2, 8])],
    )
    made = model(
        [node("If", ["yes"], ["y"], then_branch=outer, else_branch=outer)],
        {"x": [2, 8]},
        {"y": [2, 8]},
        [stored("yes", np.array(True))],
    )
    made.graph.input.append(value("asked", [], BOOL))
    found = imported(tmp_path, made)
    assert kinds(found) == ["Relu", "If"]
    assert found.ops[0].outputs[0] in found.ops[1].inputs


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    swish = helper.make_function(
        "local",
        "Swish",
        ["a"],
        ["b"],
        [node("Sigmoid", ["a"], ["s"]), node("Mul", ["a", "s"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    made = model([node("Swish", ["x"], ["y"], domain="local")], {"x": [2]}, {"y": [2]})
    made.functions.append(swish)
    made.opset_import.add(domain="local", version=1)
    assert kinds(imported(tmp_path, made)) == ["Sigmoid", "Mul"]


def foreign(folder: Path, domain: str, kind: str) -> OpGraph:
    made = model([node(kind, ["x"], ["y"], domain=domain)], {"x": [2, 4]}, {"y": [2, 4]})
    made.opset_import.add(domain=domain, version=1)
    return imported(folder, made)


def test_an_operator_of_another_domain_is_not_taken_for_onnx(tmp_path: Path) -> None:
    found = foreign(tmp_path, "com.microsoft", "Attention")
    assert kinds(found) == ["com.microsoft::Attention"]
    assert not is_known(found.ops[0].kind)


def test_an_operator_of_another_domain_that_is_known_keeps_its_name(tmp_path: Path) -> None:
    assert kinds(foreign(tmp_path, "com.microsoft", "QuickGelu")) == ["QuickGelu"]


def test_an_unknown_operator_needs_a_noted_shape(tmp_path: Path) -> None:
    made = model(
        [node("MyOp", ["x"], ["h"], domain="mine"), node("Relu", ["h"], ["y"])],
        {"x": [2, 4]},
        {"y": None},
    )
    made.opset_import.add(domain="mine", version=1)
    with pytest.raises(ModelError, match="'h'") as caught:
        imported(tmp_path, made)
    assert "value_info" in caught.value.fix
    made.graph.value_info.append(value("h", [2, 4]))
    assert kinds(imported(tmp_path, made)) == ["mine::MyOp", "Relu"]


def test_looked_up_positions_are_known_as_such(tmp_path: Path) -> None:
    pairs = np.stack([np.arange(4), np.array([1, 0, 3, 2])], axis=-1)
    made = model(
        [node("GatherND", ["x", "i"], ["y"])], {"x": [4, 4, 6]}, {"y": None}, [stored("i", pairs)]
    )
    assert imported(tmp_path, made).ops[0].attributes["identity_coordinates"] == (0, 0)


def test_the_module_path_of_the_exporter_is_the_scope(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": None})
    made.graph.node[0].metadata_props.add(
        key="namespace", value=": Model/layers.3: Block/layers.3.mlp: MLP/relu: aten.relu.default"
    )
    assert imported(tmp_path, made).ops[0].scope == "layers.3.mlp"
