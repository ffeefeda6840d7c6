"""Whatever the user types: one message with what, where and how to mend it; no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]

SEARCH: list[tuple[list[str], str]] = [
    (["--devices", "0", "--target", "jax"], "0 is less than 1"),
    (["--devices", "-4"], "--devices -4"),
    (["--devices", "12"], "another --target"),
    (["--devices", "3"], "multiple of 8"),
    (["--devices", "99999999999"], "1048576"),
    (["--devices", "many"], "--devices takes a whole number, such as 16"),
    (["--devices", "4", "--cluster", "dgx-h10"], "did you mean 'dgx-h100'?"),
    (["--devices", "4", "--cluster", "../../etc/passwd"], "../../etc/passwd"),
    (["--devices", "4", "--bind", "batch"], "name=number"),
    (["--devices", "4", "--bind", "nosuch=4"], "nosuch"),
    (["--devices", "4", "--batch", "0"], "--batch 0"),
    (["--devices", "4", "--phase", "trian"], "did you mean 'train'?"),
    (["--devices", "4", "--optimizer", "adamm"], "known: adamw"),
    (["--devices", "4", "--dtype", "bf17"], "did you mean 'bf16'?"),
    (["--devices", "4", "--memory", "lots"], "--memory 60GiB"),
    (["--devices", "4", "--dataset-strategy", "(8,1)"], "((8,1),(8,1))"),
    (["--devices", "4", "--dataset-strategy", "((4,1),(4,1))"], "--dataset-strategy"),
    (["--devices", "4", "--dataset-strategy", "((3,1),)"], "--dataset-strategy"),
    (["--devices", "4", "--target", "mindsporr"], "did you mean 'mindspore'?"),
    (["--devices", "4", "--solver", "dynamic"], "did you mean 'dynamic_programming'?"),
    (["--devices", "4", "--time-limit", "0"], "--time-limit 0"),
    (["--devices", "4", "--time-limit", "-1"], "--time-limit -1"),
    (["--devices", "4", "--time-limit", "nan"], "--time-limit nan"),
    (["--devices", "4", "--effort", "0"], "--effort 0"),
    (["--devices", "4", "--attention", "flash"], "fused, decomposed"),
    (["--devices", "4", "--dtype", "bf16", "--cluster", "atlas-800-9000"], "fp16"),
    (["--devices", "4", "--nonsense"], "--help"),
    ([], "--devices"),
]


@pytest.mark.parametrize(("arguments", "hint"), SEARCH, ids=[" ".join(a)[:40] for a, _ in SEARCH])
def test_a_fault_of_the_user_is_status_2_and_one_message(
    arguments: list[str], hint: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, *arguments)
    assert (run.code, run.out) == (2, ""), run.err
    assert run.err.count("error: ") == 1
    assert hint in run.err
    assert "fix: " in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(("arguments", "hint"), SEARCH, ids=[" ".join(a)[:40] for a, _ in SEARCH])
def test_with_json_the_message_is_an_object_too(
    arguments: list[str], hint: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, *arguments, "--json")
    assert run.code == 2
    assert set(run.json) == {"status", "message"}
    assert run.json["status"] == "error"
    assert hint in run.json["message"]


def test_devices_are_checked_before_the_model_is_read(planner: Planner) -> None:
    run = planner("search", "no/such/model.onnx", "--devices", 12)
    assert "MindSpore" in run.err
    assert "no/such" not in run.err


@pytest.mark.parametrize("command", [["search", "--devices", "2"], ["inspect"]])
@pytest.mark.parametrize(
    "content", [None, b"", b"hello, this is text\n", b"\x08\x0a\x12", b"\x1f\x8b\x08\x00broken"]
)
def test_a_model_that_is_none_is_refused(
    command: list[str], content: bytes | None, planner: Planner, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    run = planner(command[0], path, *command[1:], "--json")
    assert run.code == 2
    assert "model.onnx" in run.json["message"]
    assert "fix: " in run.json["message"]


def test_a_file_that_is_not_there_names_the_nearest_of_its_folder(
    planner: Planner, tmp_path: Path
) -> None:
    (tmp_path / "network.onnx.gz").touch()
    run = planner("inspect", tmp_path / "network.onnx")
    assert run.code == 2
    assert "network.onnx.gz'?" in "".join(run.err.split("\n"))
    assert "did you mean" not in planner("inspect", tmp_path / "x.onnx").err


def test_a_folder_is_no_model(planner: Planner, tmp_path: Path) -> None:
    run = planner("inspect", tmp_path)
    assert run.code == 2
    assert "folder" in run.err


def test_a_name_that_nobody_would_read_whole_is_shortened(planner: Planner, tmp_path: Path) -> None:
    lost = helper.make_node("Relu", ["lost"], ["y"], name="n" * 100_000)
    y = helper.make_tensor_value_info("y", 1, [4])
    graph = helper.make_graph([lost], "g", [], [y])
    model = tmp_path / "long.onnx"
    model.write_bytes(helper.make_model(graph).SerializeToString())
    run = planner("inspect", model)
    assert run.code == 2
    assert "n ... n" in run.err
    assert len(run.err) < 4_000


def test_a_file_is_no_output_folder(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for folder in (taken, taken / "below"):
        run = planner("search", mlp, "--devices", 2, "-o", folder)
        assert (run.code, run.out) == (2, "")
        assert f"-o {folder}" in run.err
        assert "reading" not in run.err, "the search must not have begun"
    assert taken.read_text() == "mine"


def test_a_fault_of_ours_is_not_taken_for_an_answer(
    mlp: Path, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("planner.requests.searches.Question.plan", broken)
    run = planner("search", mlp, "--devices", 2, "--json")
    assert run.code == 70
    assert "ZeroDivisionError" in run.json["message"]
    assert "Traceback" in run.err


def test_an_interruption_is_no_answer(
    mlp: Path, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.requests.searches.Question.plan", interrupted)
    assert planner("search", mlp, "--devices", 2).code == 130


@pytest.mark.parametrize("name", ["serch", "plan"])
def test_an_unknown_command_is_status_2(name: str, planner: Planner) -> None:
    run = planner(name)
    assert run.code == 2
    assert "no such command" in run.err


def test_a_plan_that_is_not_there_is_named_with_what_to_do(planner: Planner) -> None:
    run = planner("show", "no/plan.json")
    assert run.code == 2
    assert "  at:  no/plan.json\n  fix: " in run.err
