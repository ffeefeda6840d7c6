"""The exported file loads the checkpoints of a training in the layout of a prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_rank_loads_its_part(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cases: Path = request.config.getoption("--cases")
    plan = cases.with_name(f"{cases.name}-scripts") / "inference"
    module, result = "tests.mindspore_package.run_inference", tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", module, str(plan), "8", str(result)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(result.read_text())
    assert found["missing"] == []
    assert len(found["equal"]) == 4
    assert all(found["equal"].values())
    assert found["cut"] >= 2
    counts = {each["num_shards"] for each in found["shards"]}
    assert counts == {2}
    # The dataset is repeated over the outermost devices.
    assert [each["shard_id"] for each in found["shards"]] == [0, 1] * 4
