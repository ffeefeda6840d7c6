"""The collectives that the planner prices between two layouts are those that MindSpore inserts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("all_to_all", [True, False])
def test_mindspore_moves_tensors_as_priced(
    redistributions: list[dict[str, Any]], all_to_all: bool, tmp_path: Path
) -> None:
    cases = [case for case in redistributions if case["all_to_all"] == all_to_all]
    assert sum(bool(case["collectives"]) for case in cases) > len(cases) / 2
    made = compiled(cases, all_to_all, tmp_path)
    for case, found in zip(cases, made, strict=True):
        assert normal(found) == normal(case["collectives"]), case


def normal(collectives: list[list[Any]]) -> list[list[Any]]:
    """Exchanges in a row in any order, since their order follows a hash; gathers in a row over
    groups that nest as one, since MindSpore joins some that stand in the first dimension.
    """
    out: list[list[Any]] = []
    for kind, group in groupby(collectives, key=lambda each: each[0]):
        run = list(group)
        out += sorted(run) if kind == "all_to_all" else _joined(run)
    return out


def _joined(gathers: list[list[Any]]) -> list[list[Any]]:
    """The smaller groups come first: those of the inner axes."""
    out: list[list[Any]] = []
    for kind, ranks, nbytes in gathers:
        last = out[-1][1] if out else []
        if last and ranks[1] == len(last) * last[1]:
            together = [outer + inner for outer in ranks for inner in last]
            out[-1] = [kind, together, nbytes]
        else:
            out.append([kind, ranks, nbytes])
    return out


def compiled(cases: list[dict[str, Any]], all_to_all: bool, folder: Path) -> list[list[list[Any]]]:
    (folder / "cases.json").write_text(json.dumps(cases))
    module = "tests.mindspore_package.compile_redistributions"
    done = subprocess.run(
        [sys.executable, "-m", module, "cases.json", str(int(all_to_all)), "found.json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[list[list[Any]]] = json.loads((folder / "found.json").read_text())
    return found


@pytest.fixture
def redistributions(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    folder: Path = request.config.getoption("--cases")
    cases: list[dict[str, Any]] = json.loads(
        folder.with_name(f"{folder.name}-redistributions.json").read_text()
    )
    return cases
