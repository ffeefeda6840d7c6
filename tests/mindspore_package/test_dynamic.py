"""MindSpore compiles the perceptron with dynamic rows as planned, and refuses what we refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def compiled(request: pytest.FixtureRequest, folder: Path, divisor: int) -> Any:
    cases: Path = request.config.getoption("--cases")
    plan = cases.with_name(f"{cases.name}-scripts") / "dynamic"
    module, result = "tests.mindspore_package.compile_dynamic", folder / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", module, str(plan), str(divisor), str(result)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())


def test_the_tutorial_is_compiled_as_planned(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    found = compiled(request, tmp_path, 0)
    assert (found["missing"], found["said"]) == ([], "")
    made = [cuts for name, cuts in found["strategies"].items() if "MatMul" in name]
    assert [[2, 4], [4, 1]] in made
    assert [[1, 8], [8, 1]] in made


def test_rows_that_do_not_split_are_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Rows that four divides are not cut in eight, as relu2 is."""
    assert "ReLU" in compiled(request, tmp_path, 4)["said"]
