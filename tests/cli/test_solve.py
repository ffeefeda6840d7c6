"""`planner solve`: an instance in, a solution out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.requests.instances import read_instance
from tests.planner.requests.test_instances import EXAMPLE

Planner = Callable[..., Any]


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    path = tmp_path / "example.json"
    path.write_text(json.dumps(EXAMPLE))
    return path


def test_an_instance_is_solved_and_written(
    instance: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "solution.json"
    run = planner("solve", instance, "--effort", 1, "--json", "-o", target)
    assert run.code == 0, run.err
    found = json.loads(target.read_text())
    net = read_instance(instance)
    assert net.is_feasible(found["solution"])
    assert net.evaluate(found["solution"]) == found["cost"] == run.json["cost"]
    assert found["bound"] == found["cost"]
    assert run.json["status"] == "optimal"
    assert run.json["gap"] == 0
    assert run.json["feasible"] is True
    assert run.json["peak"] <= run.json["limit"] == 40
    assert [cost for _, cost, _ in run.json["trace"]][-1] == found["cost"]


def test_the_answer_is_told_in_words(instance: Path, planner: Planner) -> None:
    run = planner("solve", instance, "--time-limit", 10)
    assert run.code == 0
    assert "optimal" in run.out
    assert "of 40 at its peak" in run.out


@pytest.mark.fast
def test_the_same_effort_writes_the_same_bytes(
    instance: Path, planner: Planner, tmp_path: Path
) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for threads, path in enumerate(files, 1):
        planner("solve", instance, "--effort", 1, "--threads", threads, "-o", path)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_instance_without_an_answer_is_said_to_have_none(
    planner: Planner, tmp_path: Path
) -> None:
    record = json.loads(json.dumps(EXAMPLE))
    record["problem"]["usage_limit"] = 5
    path = tmp_path / "tight.json"
    path.write_text(json.dumps(record))
    run = planner("solve", path, "--effort", 1, "-o", tmp_path / "none.json")
    assert run.code == 1
    assert "no choice fits" in run.out
    assert not (tmp_path / "none.json").exists()
    assert planner("solve", path, "--effort", 1, "--json").json["status"] == "infeasible"


@pytest.mark.parametrize(
    "options", [("--time-limit", 0), ("--effort", 0), ("--threads", 0), ("--time-limit", "x")]
)
def test_options_that_cannot_be_are_refused(
    instance: Path, planner: Planner, options: tuple[str, object]
) -> None:
    assert planner("solve", instance, *options).code == 2


def test_a_malformed_instance_is_refused_with_node_and_field(
    planner: Planner, tmp_path: Path
) -> None:
    record = json.loads(json.dumps(EXAMPLE))
    record["problem"]["nodes"]["usages"][1][0] = -1
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(record))
    run = planner("solve", path, "--effort", 1)
    assert run.code == 2
    assert "node 1 has a negative usage" in run.err
    assert "problem.nodes.usages[1]" in run.err
