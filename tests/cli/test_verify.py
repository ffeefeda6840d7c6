"""`planner verify`: the verdict, its exit status, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from tests.cli.conftest import HEADER

pytestmark = pytest.mark.fast

NAN = f"""{HEADER}
nothing (bfloat16[8, 16] x) => (bfloat16[8, 16] y)
{{
    zero = Sub(x, x)
    y = Div(zero, zero)
}}
"""


@pytest.fixture
def plan(mlp: Path, planner: Callable[..., Any], tmp_path: Path) -> Path:
    planner("search", mlp, "--devices", 8, "--memory", "2MiB", "-o", tmp_path / "plan")
    return tmp_path / "plan" / "plan.json"


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["small", "full"])
def test_a_searched_plan_is_verified(
    mlp: Path, plan: Path, planner: Callable[..., Any], scale: str
) -> None:
    run = planner("verify", mlp, plan, "--scale", scale, "--json")
    assert run.code == 0, run.err
    assert run.json["status"] == "verified"
    names = {output["name"] for output in run.json["outputs"]}
    assert {"gradient of up", "gradient of down"} <= names
    assert run.json["messages"] > 0
    assert run.json["mismatches"] == []


def test_the_verdict_comes_first(mlp: Path, plan: Path, planner: Callable[..., Any]) -> None:
    lines = planner("verify", mlp, plan).out.splitlines()
    assert lines[0] == "mlp: verified on 8 virtual devices"
    assert "Outputs, split against whole" in lines


def test_an_edited_layout_fails(mlp: Path, plan: Path, planner: Callable[..., Any]) -> None:
    data = json.loads(plan.read_text())
    axis = data["mesh"][-1][0]
    product = next(op for op in data["operators"] if op["kind"] == "MatMul")
    old = product["outputs"][0]["dims"]
    product["outputs"][0]["dims"] = [[], []] if any(old) else [[axis], []]
    plan.write_text(json.dumps(data))
    run = planner("verify", mlp, plan)
    assert run.code == 1
    assert run.out.startswith("mlp: NOT verified")


def test_a_message_with_other_bytes_fails(
    mlp: Path, plan: Path, planner: Callable[..., Any]
) -> None:
    data = json.loads(plan.read_text())
    item = next(c for c in data["collectives"] if c["before"] is not None)
    item["nbytes"] *= 2
    plan.write_text(json.dumps(data))
    run = planner("verify", mlp, plan, "--json")
    assert run.code == 1
    assert len(run.json["mismatches"]) >= 1


def test_another_model_is_refused(
    mlp: Path, strange: Path, plan: Path, planner: Callable[..., Any]
) -> None:
    run = planner("verify", strange, plan)
    assert run.code == 2
    assert "the plan is for another model" in run.err
    assert "fix:" in run.err


def test_fewer_devices_than_the_plan_has_are_refused(
    mlp: Path, plan: Path, planner: Callable[..., Any]
) -> None:
    run = planner("verify", mlp, plan, "--devices", 4)
    assert run.code == 2
    assert "the plan needs 8 devices, 4 are given" in run.err
    assert planner("verify", mlp, plan, "--devices", 16).code == 0


def test_a_model_that_gives_no_numbers_is_refused(
    planner: Callable[..., Any], tmp_path: Path
) -> None:
    model = tmp_path / "nothing.onnx"
    model.write_bytes(parser.parse_model(NAN).SerializeToString())
    planner("search", model, "--devices", 2, "--phase", "infer", "-o", tmp_path / "plan")
    run = planner("verify", model, tmp_path / "plan" / "plan.json")
    assert run.code == 2
    assert "the whole model gives NaN in" in run.err


def test_a_scale_that_does_not_exist_is_refused(
    mlp: Path, plan: Path, planner: Callable[..., Any]
) -> None:
    run = planner("verify", mlp, plan, "--scale", "tiny")
    assert run.code == 2
    assert "small, full" in run.err
