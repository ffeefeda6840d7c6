"""`planner calibrate profile`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]
REAL = "tests/data/traces/ddp_gloo.json.gz"


def test_a_person_reads_classes_constants_and_the_heaviest_kernels(planner: Planner) -> None:
    run = planner("calibrate", "profile", REAL, "--cluster", "dgx-h100", "--steps", "2")
    assert run.code == 0
    assert "ddp_gloo.json.gz: torch.profiler, 2 steps" in run.out
    assert "95 % interval" in run.out
    assert "aten::gelu_backward" in run.out
    assert "messages that hide" in run.out


def test_what_is_written_is_a_machine_that_the_planner_takes(
    planner: Planner, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    run = planner("calibrate", "profile", REAL, "--cluster", "dgx-h100", "-o", str(mine))
    assert run.code == 0
    assert planner("topology", "check", str(mine)).code == 0
    facts = planner("calibrate", "profile", REAL, "--cluster", str(mine), "--json").json
    assert facts["status"] == "ok"
    assert len(facts["heaviest"]) == 10
    assert {"class", "measured_s", "planned_s"} == set(facts["classes"][0])


@pytest.mark.slow
def test_a_trace_of_another_job_is_refused_and_nothing_is_written(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    for devices, said in ((4, "it has 2 ranks, the plan 4 devices"), (2, "its products are")):
        out = tmp_path / str(devices)
        planner("search", mlp, "--devices", devices, "--target", "torch", "-o", out)
        words = ("--plan", out / "plan.json", "--steps", 50, "-o", mine)
        run = planner("calibrate", "profile", REAL, *words)
        assert run.code == 2
        assert f"the trace is of another job: {said}" in run.err
        assert not mine.exists()


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_half_a_trace_is_refused_by_name(planner: Planner, tmp_path: Path, share: float) -> None:
    half = tmp_path / "half.json.gz"
    content = Path(REAL).read_bytes()
    half.write_bytes(content[: int(share * len(content))])
    run = planner("calibrate", "profile", str(half), "-o", str(tmp_path / "mine.yaml"))
    assert run.code == 2
    assert "ends in the middle" in run.err
    assert "half.json.gz" in run.err
    assert not (tmp_path / "mine.yaml").exists()


def test_a_trace_without_shapes_tells_no_rate(planner: Planner, tmp_path: Path) -> None:
    table = tmp_path / "nsys.csv"
    table.write_text("Start (ns),Duration (ns),Name\n1,2000,gemm\n")
    assert planner("calibrate", "profile", str(table)).code == 0
    run = planner("calibrate", "profile", str(table), "-o", str(tmp_path / "mine.yaml"))
    assert run.code == 2
    assert "record_shapes" in run.err


def test_a_missing_file_and_a_folder_are_refused(planner: Planner, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        run = planner("calibrate", "profile", str(path))
        assert run.code == 2
        assert "cannot read the trace" in run.err


def test_a_table_of_steps_is_compared_with_the_step_of_a_plan(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    out, table = tmp_path / "plan", tmp_path / "step_trace_time.csv"
    planner("search", mlp, "--devices", 2, "-o", out)
    table.write_text("Step,Computing,Communication(Not Overlapped),Free\n1,70,20,10\n2,90,20,10\n")
    words = ("calibrate", "profile", table, "--plan", out / "plan.json")
    facts = planner(*words, "--json").json
    found = {each["class"]: each for each in facts["classes"]}
    assert set(found) == {"step", "computation", "exposed communication", "idle"}
    assert found["step"]["measured_s"] == pytest.approx(110e-6)
    parts = ("computation", "exposed communication", "idle")
    for key in ("measured_s", "planned_s"):
        assert sum(found[n][key] for n in parts) == pytest.approx(found["step"][key])
    run = planner(*words)
    assert run.code == 0
    assert "exposed communication" in run.out
