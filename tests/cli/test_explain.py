"""`planner explain`, and the options of `search` and `import-strategy` about other ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app

Planner = Callable[..., Any]


@pytest.fixture(scope="module")
def plan(mlp: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    asked = ["search", str(mlp), "--devices", "8", "-o", str(folder)]
    assert CliRunner().invoke(app, asked, prog_name="planner").exit_code == 0
    return folder / "plan.json"


@pytest.mark.fast
def test_the_summary_has_what_costs_what_limits_and_what_is_next(
    plan: Path, planner: Planner
) -> None:
    run = planner("explain", plan)
    assert run.code == 0
    assert run.out.startswith("A step takes ")
    for heading in ("Heaviest operators", "Memory at the peak", "Closest rivals", "Links twice"):
        assert f"\n{heading}" in run.out
    assert max(map(len, run.out.splitlines())) <= 100
    record = planner("explain", plan, "--json").json
    assert record["status"] == "ok"
    assert record["step_time_s"] == json.loads(plan.read_text())["estimate"]["step_time_s"]
    tiers = json.loads(plan.read_text())["cluster"]["tiers"]
    names = [tier["name"] for tier in tiers if tier["size"] > 1]
    assert [each["tier"] for each in record["links"]] == names


def test_an_operator_is_explained_by_candidates_and_neighbours(
    plan: Path, planner: Planner
) -> None:
    name = json.loads(plan.read_text())["operators"][0]["name"]
    run = planner("explain", plan, "--op", name, "--rivals", 2)
    assert run.code == 0
    assert name in run.out
    assert "not chosen: " in run.out
    record = planner("explain", plan, "--op", name, "--rivals", 2, "--json").json
    assert len(record["rivals"]) == 2
    assert record["chosen"]["is_chosen"]
    cuts = record["rivals"][0]["cuts"]
    asked = planner("explain", plan, "--op", name, "--cuts", cuts, "--json").json
    assert [each["cuts"] for each in asked["rivals"]] == [cuts]
    assert asked["rivals"][0]["delta_s"] == pytest.approx(record["rivals"][0]["delta_s"])


def test_a_parameter_is_explained_by_its_layouts(plan: Path, planner: Planner) -> None:
    record = planner("explain", plan, "--tensor", "up", "--json").json
    assert (record["kind"], record["name"]) == ("parameter", "up")
    assert record["chosen"]["outputs"]


def test_why_not_says_the_same_beside_a_search_and_on_its_plan(
    mlp: Path, plan: Path, planner: Planner
) -> None:
    there = planner("explain", plan, "--why-not", "dp=8", "--json").json["why_not"]
    here = planner("search", mlp, "--devices", 8, "--why-not", "dp=8", "--json").json["why_not"]
    assert there == here
    run = planner("explain", plan, "--why-not", "dp=8")
    assert "Why not dp=8: it is " in run.out


def test_sensitivity_is_a_table_and_a_record(plan: Path, planner: Planner) -> None:
    assert "The plan stays the best" in planner("explain", plan, "--sensitivity").out
    record = planner("explain", plan, "--sensitivity", "--json").json
    assert [each["quantity"] for each in record["ranges"]][-1] == "memory"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--op", "nobody"), "no operator 'nobody'"),
        (("--tensor", "nobody"), "'nobody'"),
        (("--op", "a", "--tensor", "b"), "one question"),
        (("--rivals", "99"), "0 to 20"),
        (("--cuts", "((1,1),)"), "which operator"),
        (("--why-not", "xp=2"), "no degree 'xp'"),
        (("--why-not", "tp=0"), "no degree"),
    ],
)
def test_a_wrong_question_is_status_2(
    plan: Path, planner: Planner, arguments: tuple[str, ...], fault: str
) -> None:
    run = planner("explain", plan, *arguments)
    assert (run.code, run.out) == (2, "")
    assert fault in run.err
    assert "fix:" in run.err


def test_a_search_stays_close_to_an_older_plan(
    mlp: Path, plan: Path, planner: Planner, tmp_path: Path
) -> None:
    other = planner("import-strategy", "tp=1,dp=8", mlp, "--target", "mindspore",
                    "--devices", 8, "-o", tmp_path / "old.json")  # fmt: skip
    assert other.code == 0
    close = ("--keep-close-to", tmp_path / "old.json", "--max-changes")
    times = [
        planner("search", mlp, "--devices", 8, *close, most, "--json").json["step_time_s"]
        for most in (0, 9)
    ]
    assert times[0] >= times[1]
    assert times[1] == json.loads(plan.read_text())["estimate"]["step_time_s"]
    run = planner("search", mlp, "--devices", 8, "--keep-close-to", plan)
    assert (run.code, "go together" in run.err) == (2, True)
    run = planner("search", mlp, "--devices", 8, "--keep-close-to", "none.json")
    assert (run.code, "cannot read" in run.err) == (2, True)


@pytest.mark.fast
def test_a_pin_may_have_a_price(mlp: Path, plan: Path, planner: Planner) -> None:
    name = json.loads(plan.read_text())["operators"][0]["name"]
    run = planner("search", mlp, "--devices", 8, "--pin", f"{name}=((1,8),(8,1))@1e-9", "--json")
    assert run.json["step_time_s"] == json.loads(plan.read_text())["estimate"]["step_time_s"]
    run = planner("search", mlp, "--devices", 8, "--pin", f"{name}=((1,8),(8,1))@cheap")
    assert (run.code, "no price" in run.err) == (2, True)


def test_plans_of_other_tools_become_plans(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    file = tmp_path / "placements.json"
    file.write_text(json.dumps({"up": ["Replicate()"], "down": ["Shard(0)"]}))
    for given in ("tp=8", file):
        target = tmp_path / "theirs.json"
        run = planner("import-strategy", given, mlp, "--devices", 8, "-o", target)
        assert run.code == 0
        assert f"laid out as {Path(str(given)).name} says" in target.read_text()
        assert planner("diff", target, target).code == 0


def test_a_wrong_restriction_is_told_before_the_search(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 8, "--why-not", "pp=2")
    assert (run.code, run.out) == (2, "")
    assert "mesh" not in run.err
    assert "--pipeline auto" in run.err


def test_nothing_fits_names_changes_that_were_tried(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 2, "--memory", "1MiB", "--json")
    assert run.code == 1
    fixes = run.json["explanation"]["fixes"]
    assert run.json["remedies"] == [fix["text"] for fix in fixes]
    memory = next(fix["change"] for fix in fixes if fix["kind"] == "memory")
    again = planner("search", mlp, "--devices", 2, *memory.split(), "--json")
    assert again.json["status"] == "ok"


def test_a_plan_with_stages_is_explained(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    asked = ["--devices", 8, "--global-batch", 64, "--pipeline", 2, "--micro-batch", 16]
    assert planner("search", mlp, *asked, "-o", tmp_path).code == 0
    plan = tmp_path / "plan.json"
    run = planner("explain", plan)
    assert run.code == 0, run.err
    assert "\nStages, in a step" in run.out
    assert "is the slowest, " in run.out
    assert max(map(len, run.out.splitlines())) <= 100
    record = planner("explain", plan, "--json").json
    operator = json.loads(plan.read_text())["operators"][-1]
    assert [stage["stage"] for stage in record["stages"]][-1] == operator["stage"]
    run = planner("explain", plan, "--op", operator["name"])
    assert (run.code, f"in stage {operator['stage']} of " in run.out) == (0, True)
    run = planner("explain", plan, "--why-not", "mb=8", "--why-not", "tp=4", "--json")
    assert [each["verdict"] in {"slower", "equal", "faster"} for each in run.json["why_not"]] == [
        True, True,
    ]  # fmt: skip
    run = planner("explain", plan, "--op", "nothing_like_it")
    assert (run.code, "the plan has no operator" in run.err) == (2, True)
