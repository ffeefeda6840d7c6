"""`planner search --global-batch` from the outside, and what other commands do with its plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]


@pytest.fixture
def staged(mlp: Path, planner: Planner, tmp_path: Path) -> Path:
    folder = tmp_path / "plan"
    run = planner("search", mlp, "--devices", 8, "--global-batch", 64, "--pipeline", 2,
                  "--micro-batch", 16, "--interleave", 1, "-o", folder)  # fmt: skip
    assert run.code == 0
    assert "2 pipeline stages, 4 micro-batches of 16 (1f1b)" in run.out
    assert "batch 64, " in run.out
    assert sorted(path.name for path in folder.iterdir()) == [
        "apply_mindspore.py", "plan.json", "strategy.ckpt", "strategy.json",
    ]  # fmt: skip
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
    for words in ("pipeline stages", "micro-batches", "schedule", "operators of the stages"):
        assert words in run.out


def test_verify_runs_every_stage(staged: Path, mlp: Path, planner: Planner) -> None:
    found = planner("verify", mlp, staged, "--json").json
    assert found["status"] == "verified"
    assert "2 of 4 micro-batches are run" in found["notes"]
    assert {o["name"] for o in found["outputs"]} >= {"gradient of up", "gradient of down"}


def test_simulate_runs_every_stage(staged: Path, planner: Planner, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    found = planner("simulate", staged, "--json", "--trace", trace).json
    assert found["step_time_s"] < found["estimate_s"]
    facts = {"schedule": "1f1b", "stages": 2, "micro-batches": 4}
    assert found["facts"] == {"degrees": "pp=2,dp=4,zero=1", **facts}
    assert [curve["device"] for curve in found["memory"]] == ["stage 0", "stage 1"]
    assert found["bubble"]["total_s"] > 0
    assert trace.exists()
    slower = planner("simulate", staged, "--bandwidth", "card=0.1", "--json").json
    assert slower["step_time_s"] > found["step_time_s"]
    assert "Pipeline bubble by cause" in planner("simulate", staged).out


def test_show_knows_the_operators_and_writes_the_report(
    staged: Path, planner: Planner, tmp_path: Path
) -> None:
    assert "computes" in planner("show", staged, "--op", "MatMul_2").out
    page = tmp_path / "plan.html"
    assert planner("show", staged, "--html", page).code == 0
    assert "4 micro-batches of 16 (1f1b)" in page.read_text()


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("mindspore", "s.ckpt"), ("mindspore", "s.json"), ("mindspore-apply", "a.py"),
        ("mindspore-groups", "g.bin"), ("mindspore-script", "s.py"), ("jax", "j.json"),
        ("torch", "t.json"), ("launch", "run"), ("msjob", "job.yaml"), ("table", "p.csv"),
        ("html", "p.html"),
    ],
)  # fmt: skip
def test_export_writes_stages(
    form: str, name: str, staged: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("export", staged, "--format", form, "-o", tmp_path / name)
    assert run.code == 0, run.err
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("form", "name", "words"),
    [
        ("jax", "j.py", "one mesh"), ("torch", "t.py", "one mesh"),
        ("parameter-server", "p", "as one batch"), ("megatron", "m.txt", "no attention"),
    ],
)  # fmt: skip
def test_what_a_target_cannot_say_of_stages_is_an_error(
    form: str, name: str, words: str, staged: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("export", staged, "--format", form, "-o", tmp_path / name)
    assert run.code == 2
    assert words in run.err
    assert "fix: " in run.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--batch", 8, "--global-batch", 8), "leave one of the two out"),
        (("--pipeline", 2), "add --batch N"),
        (("--micro-batch", 2), "add --batch N"),
        (("--global-batch", 8, "--pipeline", "many"), "a number of 1 or more"),
        (("--global-batch", 8, "--micro-batch", 0), "a number of 1 or more"),
        (("--global-batch", 0), "a whole number, 1 or more"),
        (("--global-batch", 8, "--micro-batch", 3), "--micro-batch 2"),
        (("--global-batch", 8, "--pipeline", 3), "--pipeline 2"),
        (("--global-batch", 8, "--phase", "infer"), "give --batch alone"),
        (
            ("--global-batch", 8, "--cost", "mindspore", "--pin", "MatMul *=((1,1),(1,1))@0.1"),
            "leave out the soft pins",
        ),
        (("--global-batch", 8, "--pin", "MatMul *=((3,1),(1,1))"), "fewer parts"),
    ],
)
def test_an_impossible_request_is_refused_with_a_way_out(
    options: tuple[object, ...], fix: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, "--devices", 4, *options)
    assert run.code == 2
    assert "  at:  --" in run.err
    assert fix in run.err.partition("fix: ")[2]


def test_wishes_and_other_costs_go_with_stages(
    staged: Path, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    asked = ("search", mlp, "--devices", 8, "--global-batch", 64, "--pipeline", 2,
             "--micro-batch", 16, "--interleave", 1)  # fmt: skip
    old = planner("show", staged, "--json").json
    pin = f"{json.loads(staged.read_text())['operators'][0]['name']}=((1,1),(1,2))@1e-12"
    folder = tmp_path / "wished"
    run = planner(*asked, "--keep-close-to", staged, "--max-changes", 0, "--pin", pin,
                  "-o", folder)  # fmt: skip
    assert run.code == 0
    assert "of 1 soft pins are kept" in run.out
    assert "0 operators are split otherwise than in the older plan" in run.out
    found = planner("show", folder / "plan.json", "--json").json
    assert found["step_time_s"] == pytest.approx(old["step_time_s"])
    explained = planner("explain", folder / "plan.json", "--why-not", pin[:-5] + "1e-9", "--json")
    assert explained.code == 0
    run = planner(*asked, "--cost", "mindspore", "--json")
    assert run.code == 0
    assert run.json["step_time_s"] >= old["step_time_s"] * (1 - 1e-9)
    run = planner(*asked, "--cost", "mindspore", "--pin", pin)
    assert (run.code, run.out) == (2, "")
    assert "weighed in seconds" in run.err
