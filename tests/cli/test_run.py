"""`planner run` and `planner calibrate host`: what they refuse; tests/judges has what they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import run as command
from cli.run import process_message

pytestmark = pytest.mark.fast


@pytest.fixture
def plan(mlp: Path, planner: Callable[..., Any], tmp_path: Path) -> Path:
    planner("search", mlp, "--devices", 2, "--target", "torch", "-o", tmp_path / "plan")
    return tmp_path / "plan" / "plan.json"


@pytest.fixture
def with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: object())


@pytest.mark.parametrize("words", [("run", "plan.json"), ("calibrate", "host")])
def test_without_torch_it_says_what_to_install(
    words: tuple[str, ...], planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    run = planner(*words)
    assert run.code == 2
    assert "fix: pip install 'parallel-planner[torch]'" in run.err


@pytest.mark.usefixtures("with_torch")
def test_another_number_of_processes_is_refused(plan: Path, planner: Callable[..., Any]) -> None:
    run = planner("run", plan, "--processes", 3)
    assert run.code == 2
    assert "the plan is for 2 devices" in run.err
    assert "search with --devices 3" in run.err


def test_an_unknown_backend_is_named(plan: Path, planner: Callable[..., Any]) -> None:
    assert planner("run", plan, "--backend", "paddle").code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("with_torch")
def test_a_schedule_that_torch_has_not_is_refused(
    mlp: Path, planner: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "staged"
    stages = ("--devices", 2, "--global-batch", 64, "--pp", 2)
    planner("search", mlp, *stages, "--target", "torch", "-o", out)
    record = json.loads((out / "plan.json").read_text())
    record["pipeline"]["schedule"] = "dualpipe"
    (out / "other.json").write_text(json.dumps(record))
    run = planner("run", out / "other.json")
    assert run.code == 2
    assert "torch's schedules are 1f1b, gpipe, interleaved; the plan has dualpipe" in run.err


def test_a_process_that_died_is_one_message() -> None:
    text = "the process of rank 1 had too little memory\nTraceback\n  more\nRuntimeError: last\n"
    assert process_message(text).splitlines() == [
        "the process of rank 1 had too little memory",
        "  at:  RuntimeError: last",
        "  fix: use a smaller batch or fewer processes; all other processes were ended",
    ]
