"""Branches, loops and functions that are none: the error names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.importers.onnx_models import (
    BOOL,
    control_flow,
    graph,
    imported,
    kinds,
    model,
    node,
    refusal,
    stored,
    value,
)


def test_a_branch_with_another_number_of_results_is_refused(tmp_path: Path) -> None:
    made = control_flow()
    branch = next(a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    del branch.output[:]
    assert "then_branch" in refusal(tmp_path, made).what


def test_a_missing_producer_inside_a_branch_is_named(tmp_path: Path) -> None:
    made = control_flow()
    branch = next(a.g for a in made.graph.node[0].attribute if a.name == "else_branch")
    branch.node[0].input[0] = "ghost"
    assert "'ghost'" in refusal(tmp_path, made).what


def test_a_condition_of_many_elements_is_refused(tmp_path: Path) -> None:
    made = control_flow()
    made.graph.initializer[0].CopyFrom(stored("yes", np.array([True, False])))
    assert "2 elements" in refusal(tmp_path, made).what


def test_deeply_nested_branches_are_read_or_refused(tmp_path: Path) -> None:
    inner = graph([node("Relu", ["x"], ["t"])], outputs=[value("t", [2])])
    for _ in range(12):
        step = node("If", ["yes"], ["t"], then_branch=inner, else_branch=inner)
        inner = graph([step], outputs=[value("t", [2])])
        if inner.ByteSize() > 2**20:
            break
    made = model(
        [node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)],
        {"x": [2]},
        {"y": [2]},
        [stored("yes", np.array(True))],
    )
    assert kinds(imported(tmp_path, made))[0] == "Relu"


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return helper.make_function(
        "local",
        name,
        ["a"],
        ["b"],
        list(nodes),
        [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)],
    )


def calling(*functions: onnx.FunctionProto) -> onnx.ModelProto:
    made = model([node("F0", ["x"], ["y"], domain="local")], {"x": [2]}, {"y": [2]})
    made.functions.extend(functions)
    made.opset_import.add(domain="local", version=1)
    return made


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    made = calling(
        function("F0", node("F1", ["a"], ["b"], domain="local")),
        function("F1", node("F0", ["a"], ["b"], domain="local")),
    )
    assert "calls itself" in refusal(tmp_path, made).what


def test_functions_that_multiply_are_refused(tmp_path: Path) -> None:
    def doubling(level: int) -> onnx.FunctionProto:
        callee = f"F{level + 1}"
        return function(
            f"F{level}",
            node(callee, ["a"], ["c"], domain="local"),
            node(callee, ["c"], ["b"], domain="local"),
        )

    made = calling(*map(doubling, range(40)), function("F40", node("Relu", ["a"], ["b"])))
    assert "unfold" in refusal(tmp_path, made).what


def test_a_deep_chain_of_functions_is_refused(tmp_path: Path) -> None:
    chain = [function(f"F{i}", node(f"F{i + 1}", ["a"], ["b"], domain="local")) for i in range(300)]
    made = calling(*chain, function("F300", node("Relu", ["a"], ["b"])))
    assert "deep" in refusal(tmp_path, made).what


def test_a_boolean_input_is_no_condition(tmp_path: Path) -> None:
    """A condition that the user gives at run time leaves the If whole."""
    made = control_flow()
    del made.graph.initializer[0]
    made.graph.input.append(value("yes", [], BOOL))
    assert kinds(imported(tmp_path, made)).count("If") == 2
