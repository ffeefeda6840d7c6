"""Decisions of a training plan as options of `planner search`, and MindSpore's names for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]


def request_of(planner: Planner, model: Path, folder: Path, *options: object) -> dict[str, Any]:
    run = planner("search", model, "--devices", 4, "-o", folder, *options)
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads((folder / "plan.json").read_text())["request"]
    return found


WHOLE = ("--global-batch", 64, "--pipeline", 2, "--micro-batch", 8)


@pytest.mark.fast
def test_decisions_stand_in_the_plan_and_in_the_text(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("search", mlp, "--devices", 4, *WHOLE, "--zero", 1, "--interleave", 2,
                  "--recompute", "full", "-o", tmp_path / "plan")  # fmt: skip
    assert run.code == 0
    assert "4 pipeline stages (PP 2, VPP 2)" in run.out
    assert "ZeRO: of" in run.out
    found = json.loads((tmp_path / "plan" / "plan.json").read_text())
    asked = {key: found["request"][key] for key in ("zero", "interleave", "recompute")}
    assert asked == {"zero": "1", "interleave": "2", "recompute": "full"}
    assert found["pipeline"]["chunks"] == 2
    assert {tensor["zero"] for tensor in found["tensors"]} <= {0, 1}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (("--search-mode", "sharding_propagation"), ("--solver", "propagation")),
        (("--search-mode", "dynamic_programming"), ("--solver", "dynamic_programming")),
        (("--search-mode", "recursive_programming"), ("--solver", "recursive_programming")),
        (("--run-phase", 1), ("--phase", "infer")),
        (("--level", 0), ("--cost", "communication")),
        (("--level", 1), ("--cost", "memory")),
        (("--level", 2), ()),
        (("--global-batch", 64, "--pipeline-stages", 2), ("--global-batch", 64, "--pipeline", 2)),
        (
            ("--global-batch", 64, "--gradient-accumulation", 4),
            ("--global-batch", 64, "--micro-batch", 16),
        ),
        (
            ("--global-batch", 64, "--enable-parallel-optimizer"),
            ("--global-batch", 64, "--zero", 1),
        ),
    ],
)
def test_mindspore_s_names_mean_ours(
    theirs: tuple[object, ...], ours: tuple[object, ...], mlp: Path, planner: Planner,
    tmp_path: Path,
) -> None:  # fmt: skip
    first = request_of(planner, mlp, tmp_path / "theirs", *theirs)
    assert first == request_of(planner, mlp, tmp_path / "ours", *ours)


@pytest.mark.parametrize("cost", ["communication", "memory"])
def test_other_objectives_are_reached(
    cost: str, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    def measured(*options: object) -> tuple[float, float, float]:
        found = planner("search", mlp, "--devices", 8, "--batch", 64, "--json", *options).json
        sent = sum(s for cause, s in found["time_by_cause"].items() if " in " in cause)
        return found["step_time_s"], sent, found["peak_memory_bytes"]

    fast, other = measured(), measured("--cost", cost)
    place = {"communication": 1, "memory": 2}[cost]
    assert other[place] <= fast[place] * (1 + 1e-9)
    assert other[0] >= fast[0] * (1 - 1e-9)


def test_devices_are_used_fully_or_not_at_all(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    found = request_of(planner, mlp, folder, "--batch", 64, "--fully-use-devices")
    assert found["fully_use_devices"] is True
    for op in json.loads((folder / "plan.json").read_text())["operators"]:
        repeats = [factor < 0 for _, factor in op["split"]]
        assert all(repeats) or not any(repeats)
    assert "fully_use_devices" not in request_of(planner, mlp, tmp_path / "plain", "--batch", 64)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--zero", 1), "add --batch N"),
        (("--recompute", "full"), "add --batch N"),
        (("--interleave", 2), "add --batch N"),
        (("--global-batch", 8, "--zero", 4), "known: auto, 0, 1, 2, 3"),
        (("--global-batch", 8, "--interleave", "many"), "a number of 1 or more"),
        (("--global-batch", 8, "--gradient-accumulation", 3), "--gradient-accumulation 2"),
        (("--gradient-accumulation", 3), "add --batch N"),
        (("--level", 3), "from 0 to 2"),
        (("--run-phase", 2), "from 0 to 1"),
        (("--search-mode", "dynamic"), "dynamic_programming"),
        (("--solver", "ilp", "--search-mode", "dynamic_programming"), "leave --search-mode"),
        (("--sequence-parallel", "on"), "leave it out"),
        (("--context-parallel", 2), "leave it out"),
        (("--context-parallel", "all"), "auto, off or a number of 1 or more"),
        (("--context-parallel", "9" * 5000), "auto, off or a number of 1 or more"),
        (("--global-batch", 8, "--pipeline", "9" * 5000), "a number of 1 or more"),
        (("--offload", "on"), "add --batch N"),
        (("--ring-attention", "auto"), "add --batch N"),
        (("--global-batch", 8, "--offload", "some"), "known: auto, on, off"),
    ],
)
def test_an_impossible_decision_is_refused_with_a_way_out(
    options: tuple[object, ...], fix: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, "--devices", 4, *options)
    assert run.code == 2
    assert "  at:  --" in run.err
    assert fix in run.err
