"""`planner inspect`: numbers that can be checked by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

Planner = Callable[..., Any]

KEYS = {
    "name", "digest", "file", "inputs", "batch", "dynamic_dims", "operators", "kinds", "composites",
    "unknown", "parameters", "parameter_elements", "parameter_bytes", "parameter_dtypes",
    "forward_flops", "activation_bytes", "blocks", "notes", "given_rules", "sizes",
    "formulas",
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
    assert "replicated on every device" in text


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


OPEN = """
<ir_version: 10, opset_import: ["" : 20]>
agraph (float16[rows, cols, 64] x, float16[rows, 64, other] w) => (float16[rows, cols, other] y) {
    s = MatMul(x, w)
    y = Softmax<axis=-1>(s)
}
"""


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A product of tensors with three open dimensions."""
    path = tmp_path / "opened.onnx"
    path.write_bytes(onnx.parser.parse_model(OPEN).SerializeToString())
    return path


@pytest.mark.parametrize("sizes", [{"rows": 2, "cols": 3, "other": 5}, {"rows": 7, "other": 64}])
def test_open_dimensions_are_shown_by_name_and_totals_hold_at_every_size(
    opened: Path, sizes: dict[str, int], planner: Planner
) -> None:
    facts = planner("inspect", opened, "--json").json
    assert facts["inputs"]["x"] == ["float16", ["rows", "cols", 64]]
    assert [d["value"] for d in facts["dynamic_dims"]] == [None] * 4
    assert list(facts["sizes"]) == ["rows", "cols", "other"]
    bound = {**facts["sizes"], **sizes}
    given = ",".join(f"{name}={size}" for name, size in sizes.items())
    for arguments in ([], ["--bind", given]):
        part = planner("inspect", opened, *arguments, "--json").json
        whole = planner(
            "inspect", opened, "--bind", ",".join(f"{n}={s}" for n, s in bound.items()), "--json"
        ).json
        for name, text in part["formulas"].items():
            assert eval(text.replace("^", "**"), dict(bound)) == whole[name]
        assert set(part["formulas"]) == (
            {"forward_flops", "activation_bytes"} if part["sizes"] else set()
        )


def test_the_text_of_an_open_model_says_what_is_open(opened: Path, planner: Planner) -> None:
    run = planner("inspect", opened)
    assert run.code == 0
    assert "input       x float16 rows x cols x 64" in run.out
    assert "dynamic     rows open (dimension 0 of x)" in run.out
    assert " x rows x cols x other FLOP\n" in run.out
    assert " at rows=16, cols=16, other=16" in run.out
    assert max(map(len, run.out.splitlines())) <= 100


def test_kinds_of_an_open_model_are_listed(dynamic_mlp: Path, planner: Planner) -> None:
    kinds = planner("inspect", dynamic_mlp, "--operators", "--json").json["kinds"]
    assert {k["kind"] for k in kinds} == {"MatMul", "Relu"}


def test_another_batch_leaves_the_rest_open(dynamic_mlp: Path, planner: Planner) -> None:
    facts = planner("inspect", dynamic_mlp, "--batch", 8, "--json").json
    assert (facts["inputs"], facts["sizes"]) == ({"x": ["bfloat16", [8, 256]]}, {})
    assert facts["forward_flops"] == 2 * 2 * 8 * 256 * 1024 + 8 * 1024
