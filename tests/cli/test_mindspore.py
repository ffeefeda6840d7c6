"""`planner mindspore check`, with a stand-in for MindSpore's interpreter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]
MODEL = Path(__file__).parents[1] / "data" / "mindspore_networks" / "encoder.mindir"


@pytest.fixture
def plan(planner: Planner, tmp_path: Path) -> Path:
    planner(
        "search", str(MODEL), "--devices", "8", "--phase", "infer", "-o", str(tmp_path / "plan")
    )
    return tmp_path / "plan" / "plan.json"


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text("class Net: ...\n")
    return f"{tmp_path / 'net.py'}:Net"


def interpreter(folder: Path, found: object) -> Path:
    """What answers like MindSpore's."""
    (folder / "answer.json").write_text(json.dumps(found))
    path = folder / "python"
    path.write_text(f"#!/bin/sh\ncp {folder / 'answer.json'} found.json\n")
    path.chmod(0o755)
    return path


def test_what_arrives_is_counted_and_a_difference_is_status_1(
    planner: Planner, plan: Path, script: str, tmp_path: Path
) -> None:
    name = "Default/network-Net/norm-LayerNorm/LayerNorm-op0"
    found = {
        "error": "", "missing": ["norm: nothing"], "order": [name], "collectives": [],
        "strategies": {name: [[1, 2, 1], [1], [1]]},
    }  # fmt: skip
    python = str(interpreter(tmp_path, found))
    arguments = ("mindspore", "check", script, str(plan), "--mindspore-python", python)
    run = planner(*arguments)
    assert run.code == 1
    assert "0 of 1 operators are as planned" in run.out
    assert name in run.out
    assert "not found: norm: nothing" in run.out
    record = planner(*arguments, "--route", "operators", "--json").json
    assert record["status"] == "differs"
    assert record["arrived"] == 0


@pytest.mark.slow
def test_the_step_is_priced_as_it_was_compiled(
    planner: Planner, plan: Path, script: str, tmp_path: Path
) -> None:
    files = tmp_path / "plan"
    run = planner(
        "export", str(plan), "--format", "mindspore-operators", "--set", "scope=network-Net",
        "-o", str(files / "operators.json"),
    )  # fmt: skip
    assert run.code == 0
    items = json.loads((files / "operators.json").read_text())["parallel_strategy_item"]
    used = {name: each["parallel_strategy"] for name, each in items.items()}
    found = {"error": "", "missing": [], "collectives": [], "order": list(used), "strategies": used}
    arguments = ("mindspore", "check", script, str(plan), "--json", "--mindspore-python")
    same = planner(*arguments, str(interpreter(tmp_path, found))).json["step_s"]
    assert same["compiled"] == pytest.approx(same["planned"], rel=1e-9)
    name = "Default/network-Net/norm-LayerNorm/LayerNorm-op0"
    used[name] = [[1, 1, 1], [1], [1]]
    other = planner(*arguments, str(interpreter(tmp_path, found))).json["step_s"]
    assert other["planned"] == same["planned"]
    assert other["compiled"] > same["planned"] * 1.001


def test_a_refusal_says_which_operator_and_is_status_1(
    planner: Planner, plan: Path, script: str, tmp_path: Path
) -> None:
    found = {"error": "RuntimeError: Failure:operator Add init failed", "missing": []}
    python = str(interpreter(tmp_path, found))
    run = planner("mindspore", "check", script, str(plan), "--mindspore-python", python)
    assert run.code == 1
    assert "operator Add init failed" in run.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "what"),
    [
        ("net.py", "names no cell"),
        ("none.py:Net", "there is no file"),
        ("net.mindir", "operators have no shapes"),
    ],
)
def test_a_network_that_is_none_is_an_error(
    planner: Planner, plan: Path, tmp_path: Path, network: str, what: str
) -> None:
    python = str(interpreter(tmp_path, {}))
    run = planner("mindspore", "check", network, str(plan), "--mindspore-python", python)
    assert run.code == 2
    assert what in run.err
