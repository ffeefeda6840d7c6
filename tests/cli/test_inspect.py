"""`planner inspect`: numbers that can be checked by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]

KEYS = {
    "name", "digest", "file", "inputs", "batch", "dynamic_dims", "operators", "kinds", "composites",
    "unknown", "parameters", "parameter_elements", "parameter_bytes", "parameter_dtypes",
    "forward_flops", "activation_bytes", "blocks", "notes", "given_rules",
}  # fmt: skip


def test_the_numbers_of_a_perceptron(mlp: Path, planner: Planner) -> None:
    facts = planner("inspect", mlp, "--json").json
    assert set(facts) == KEYS
    assert (facts["name"], facts["batch"], facts["operators"]) == ("mlp", 64, 3)
    assert facts["parameters"] == 2
    assert facts["parameter_elements"] == 2 * 256 * 1024
    assert facts["parameter_bytes"] == 2 * 256 * 1024 * 2
    products = next(k for k in facts["kinds"] if k["kind"] == "MatMul")
    assert products["count"] == 2
    assert products["flops"] == 2 * 2 * 64 * 256 * 1024
    assert facts["forward_flops"] == products["flops"] + 64 * 1024
    assert facts["unknown"] == []
    assert facts["file"]["opsets"]["ai.onnx"] == 20


def test_flops_and_activations_follow_the_batch(mlp: Path, planner: Planner) -> None:
    once = planner("inspect", mlp, "--json").json
    twice = planner("inspect", mlp, "--batch", 128, "--json").json
    assert twice["batch"] == 128
    assert twice["forward_flops"] == 2 * once["forward_flops"]
    assert twice["activation_bytes"] == 2 * once["activation_bytes"] > 0
    assert twice["parameter_bytes"] == once["parameter_bytes"]
    assert twice["digest"] != once["digest"]


def test_dynamic_dimensions_are_listed_with_their_values(
    dynamic_mlp: Path, planner: Planner
) -> None:
    facts = planner("inspect", dynamic_mlp, "--bind", "batch=16", "--json").json
    found = {"tensor": "x", "axis": 0, "name": "batch", "value": 16}
    assert facts["dynamic_dims"] == [found | {"sizes": ""}]
    assert facts["inputs"] == {"x": ["bfloat16", [16, 256]]}
    facts = planner("inspect", dynamic_mlp, "--bind", "batch=8..16/8", "--json").json
    assert facts["dynamic_dims"] == [found | {"sizes": "8..16/8"}]
    text = planner("inspect", dynamic_mlp, "--bind", "batch=8..16/8").out
    assert "batch = 16, of 8..16/8 (dimension 0 of x)" in text


def test_an_operator_without_a_rule_is_listed_with_what_happens_to_it(
    strange: Path, planner: Planner
) -> None:
    facts = planner("inspect", strange, "--json").json
    assert [(u["kind"], u["count"]) for u in facts["unknown"]] == [("custom::Twist", 1)]
    text = planner("inspect", strange).out
    assert "1 x custom::Twist" in text
    assert "repeated on every device" in text


def test_the_text_is_for_people(mlp: Path, planner: Planner) -> None:
    run = planner("inspect", mlp)
    assert run.code == 0
    assert "524,288 in 2 tensors, 1 MiB (bfloat16)" in run.out
    assert "Every operator has a sharding rule." in run.out
    assert max(map(len, run.out.splitlines())) <= 100
    assert run.err == ""


@pytest.mark.parametrize("option", [("--batch", "0"), ("--bind", "x"), ("--bind", "nosuch=1")])
def test_faults_are_status_2(option: tuple[str, str], mlp: Path, planner: Planner) -> None:
    run = planner("inspect", mlp, *option)
    assert (run.code, run.out) == (2, "")
    assert "fix: " in run.err
