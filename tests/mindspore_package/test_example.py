"""The example for Ascend cards compiles as planned, forward, backward and update."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_example_is_split_as_planned(example: Path, tmp_path: Path) -> None:
    result = tmp_path / "found.json"
    module = "tests.mindspore_package.compile_example"
    done = subprocess.run(
        [sys.executable, "-m", module, str(example), "16", str(result)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not as planned" not in done.stdout
    found = {name.split("/")[-1]: cuts for name, cuts in json.loads(result.read_text()).items()}
    wanted = json.loads((example / "strategy.json").read_text())["parallel_strategy_item"]
    assert found["MatMul-op0"] == wanted["MatMul_up"]["parallel_strategy"]
    assert found["MatMul-op1"] == wanted["MatMul_down"]["parallel_strategy"]


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.config.getoption("--cases")
    return folder.with_name(f"{folder.name}-example")
