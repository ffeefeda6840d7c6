"""`planner search --global-batch` from the outside, and what other commands do with its plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]


@pytest.fixture
def staged(mlp: Path, planner: Planner, tmp_path: Path) -> Path:
    folder = tmp_path / "plan"
    run = planner("search", mlp, "--devices", 8, "--global-batch", 64, "--pipeline", 2,
                  "--micro-batch", 16, "-o", folder)  # fmt: skip
    assert run.code == 0
    assert "2 pipeline stages, 4 micro-batches of 16 (1f1b)" in run.out
    assert "batch 64, " in run.out
    assert "no strategy file, mindspore cannot apply this plan" in run.err
    assert [path.name for path in folder.iterdir()] == ["plan.json"]
    return folder / "plan.json"


def test_show_prints_the_stages_and_json_has_them(staged: Path, planner: Planner) -> None:
    assert "2 pipeline stages, 4 micro-batches of 16 (1f1b)" in planner("show", staged).out
    found = planner("show", staged, "--json").json
    pipeline = found["pipeline"]
    assert [stage["in_flight"] for stage in pipeline["stages"]] == [2, 1]
    assert sum(found["time_by_cause"].values()) == pytest.approx(found["step_time_s"])
    assert len(pipeline["sends"]) == 1


def test_the_summary_fits_into_100_columns(staged: Path, planner: Planner) -> None:
    assert max(map(len, planner("show", staged).out.splitlines())) <= 100


def test_diff_tells_stages_and_micro_batches(
    staged: Path, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    planner("search", mlp, "--devices", 8, "--batch", 64, "-o", tmp_path / "plain")
    run = planner("diff", staged, tmp_path / "plain" / "plan.json")
    assert run.code == 0
    assert "pipeline stages" in run.out
    assert "micro-batches" in run.out


@pytest.mark.parametrize("command", ["verify", "simulate", "export", "show --op", "show --html"])
def test_what_knows_no_stages_says_so(
    command: str, staged: Path, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    words = {
        "verify": ("verify", mlp, staged),
        "simulate": ("simulate", staged),
        "export": ("export", staged, "--format", "table", "-o", tmp_path / "plan.csv"),
        "show --op": ("show", staged, "--op", "MatMul"),
        "show --html": ("show", staged, "--html", tmp_path / "plan.html"),
    }[command]
    run = planner(*words)
    assert run.code == 2
    assert "2 stages and 4 micro-batches" in run.err
    assert "fix: search with --batch" in run.err


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--batch", 8, "--global-batch", 8), "leave --batch out"),
        (("--pipeline", 2), "--global-batch"),
        (("--batch", 8, "--micro-batch", 2), "--global-batch 8 in place of --batch"),
        (("--global-batch", 8, "--pipeline", "many"), "a number of 1 or more"),
        (("--global-batch", 8, "--micro-batch", 0), "a number of 1 or more"),
        (("--global-batch", 0), "a whole number, 1 or more"),
        (("--global-batch", 8, "--micro-batch", 3), "--micro-batch 2"),
        (("--global-batch", 8, "--pipeline", 3), "--pipeline 2"),
        (("--global-batch", 8, "--phase", "infer"), "--batch in place of --global-batch"),
        (("--global-batch", 8, "--pin", "*=((1,1),(1,1))"), "leave them out"),
    ],
)
def test_an_impossible_request_is_refused_with_a_way_out(
    options: tuple[object, ...], fix: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, "--devices", 4, *options)
    assert run.code == 2
    assert "  at:  --" in run.err
    assert fix in run.err.partition("fix: ")[2]
