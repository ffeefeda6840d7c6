"""Commands on PyTorch programs: what `planner inspect` shows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.importers.torch_export.hostile import fx_graph
from tests.importers.torch_export.recorded import DATA


def twisted(record: dict[str, Any]) -> None:
    for node in record["nodes"]:
        if node["target"] == "aten.relu.default":
            node["target"] = "custom.twist.default"


def test_a_program_is_inspected(planner: Callable[..., Any]) -> None:
    run = planner("inspect", DATA / "dynamic.pt2", "--bind", "x.0=8,s27=32", "--json")
    assert run.code == 0, run.err
    facts = run.json
    assert facts["file"]["producer"].startswith("torch 2.")
    assert [(d["tensor"], d["axis"], d["name"]) for d in facts["dynamic_dims"]] == [
        ("x", 0, "s77"), ("x", 1, "s27"),
    ]  # fmt: skip
    assert facts["inputs"]["x"][1] == [8, 32, 64]
    assert facts["unknown"] == []


def test_what_becomes_of_each_operator_is_shown(planner: Callable[..., Any]) -> None:
    run = planner("inspect", DATA / "mlp.pt2", "--operators", "--json")
    kinds = {each["kind"]: each for each in run.json["kinds"]}
    assert kinds["aten.linear.default"]["treatment"] == "converted"
    assert kinds["aten.linear.default"]["becomes"] == ["Transpose", "MatMul", "Add"]
    assert kinds["MatMul"]["operators"] == 2


def test_what_is_not_covered_is_shown(planner: Callable[..., Any], tmp_path: Path) -> None:
    path = fx_graph(tmp_path, twisted)
    found = planner("inspect", path, "--json").json["unknown"]
    assert [(each["kind"], each["count"]) for each in found] == [("custom::twist", 1)]
    run = planner("inspect", path, "--rule", "custom::twist: b h -> b h", "--json")
    assert run.json["unknown"] == []
    kinds = planner("inspect", path, "--operators", "--json").json["kinds"]
    assert [each["kind"] for each in kinds if not each["known"]] == ["custom::twist"]


def test_a_fault_of_the_file_is_one_message(planner: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"PK")
    run = planner("search", path, "--devices", 8, "-o", tmp_path / "plan")
    assert run.code == 2
    assert "is not a complete archive" in run.err
    assert not (tmp_path / "plan").exists()
