"""`planner verify --executor`: outside judges, as they are shown and as they are missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from executors.judgement import Judgement, Traffic
from executors.verdict import Output

Planner = Callable[..., Any]

JUDGEMENT = Judgement(
    judge="a judge 1.0",
    outputs=(Output("y", (64, 256), 1e-7),),
    predicted=(Traffic("all_reduce", 8, 2048.0, 2),),
    emitted=(Traffic("all_reduce", 8, 2048.0, 1),),
    tolerance=1e-5,
    memory_bytes=3 * 2**20,
    notes=("one message may be several",),
)


@pytest.fixture
def plan(mlp: Path, planner: Planner, tmp_path: Path) -> Path:
    planner("search", mlp, "--devices", 8, "--target", "jax", "-o", tmp_path / "plan")
    return tmp_path / "plan" / "plan.json"


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judgement], None]:
    """Let the judge JAX say something."""

    def say(judgement: Judgement) -> None:
        monkeypatch.setattr("cli.judges.find_spec", lambda _: True)
        monkeypatch.setattr("cli.verify.judgement", lambda *_: judgement)

    return say


@pytest.mark.fast
def test_a_judge_that_agrees_confirms_the_plan(
    mlp: Path, plan: Path, planner: Planner, says: Callable[[Judgement], None]
) -> None:
    says(JUDGEMENT)
    run = planner("verify", mlp, plan, "--executor", "jax")
    assert run.code == 0, run.err
    assert run.out.startswith("mlp: confirmed by a judge 1.0 on 8 devices\n")
    assert "one message may be several" in run.out
    assert "all-reduce" in run.out
    assert "differs" not in run.out
    assert "3 MiB" in run.out
    found = planner("verify", mlp, plan, "--executor", "jax", "--json").json
    assert found["status"] == "verified"
    assert [m["agrees"] for m in found["messages"]] == [True]


def test_a_judge_that_sends_something_else_does_not(
    mlp: Path, plan: Path, planner: Planner, says: Callable[[Judgement], None]
) -> None:
    says(replace(JUDGEMENT, emitted=(Traffic("all_gather", 8, 2048.0, 1),)))
    run = planner("verify", mlp, plan, "--executor", "jax")
    assert run.code == 1
    assert run.out.startswith("mlp: NOT confirmed by a judge 1.0 on 8 devices\n")
    assert run.out.count("differs") == 2
    found = planner("verify", mlp, plan, "--executor", "jax", "--json").json
    assert found["status"] == "not verified"
    assert [m["agrees"] for m in found["messages"]] == [False, False]


def test_operators_that_a_judge_cannot_run_are_listed(
    mlp: Path, plan: Path, planner: Planner, says: Callable[[Judgement], None]
) -> None:
    says(replace(JUDGEMENT, outputs=(), predicted=(), emitted=(), not_run={"twist": "unknown"}))
    run = planner("verify", mlp, plan, "--executor", "jax")
    assert run.code == 1
    assert "none predicted, none sent" in run.out
    assert "twist: unknown" in run.out


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_a_judge_that_is_not_installed_is_named(
    mlp: Path, plan: Path, planner: Planner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.judges.find_spec", lambda _: None)
    run = planner("verify", mlp, plan, "--executor", name)
    assert run.code == 2
    assert f"{name} is not installed" in run.err
    assert f"pip install 'parallel-planner[{name}]'" in run.err


def test_mindspore_needs_its_interpreter(
    mlp: Path, plan: Path, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLANNER_MINDSPORE_PYTHON", raising=False)
    run = planner("verify", mlp, plan, "--executor", "mindspore")
    assert run.code == 2
    assert "fix: name its interpreter: --mindspore-python" in run.err
    run = planner("verify", mlp, plan, "--executor", "mindspore", "--mindspore-python", "no/python")
    assert run.code == 2
    assert "there is no no/python" in run.err


def test_an_executor_that_does_not_exist_is_refused(
    mlp: Path, plan: Path, planner: Planner
) -> None:
    run = planner("verify", mlp, plan, "--executor", "tensorflow")
    assert run.code == 2
    assert "unknown executor 'tensorflow'" in run.err
