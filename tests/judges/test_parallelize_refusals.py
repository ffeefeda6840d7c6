"""Jobs whose ranks do not fit together: every rank is told the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ir.plan_file import plan_to_json
from tests.judges.schemes import DATA, SHARDED, plans
from tests.judges.test_parallelize import TRAINING, graph_of


@pytest.mark.parametrize(
    ("what", "ranks", "told"),
    [
        ("plan", 2, "ranks 0 and 1 have not the same plan"),
        ("version", 2, "ranks 0 and 1 have not the same version of torch: "),
        ("number", 1, "the plan is for 2 devices, the job has 1 ranks"),
    ],
)
def test_every_rank_is_told_what_does_not_fit(
    what: str, ranks: int, told: str, tmp_path: Path
) -> None:
    found = plans(graph_of("perceptron", tmp_path), 2, TRAINING, wanted=[DATA, SHARDED])
    (tmp_path / "plan.json").write_text(plan_to_json(found[DATA]))
    (tmp_path / "other.json").write_text(plan_to_json(found[SHARDED]))
    script = Path(__file__).parent / "refused_job.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", str(ranks), str(script), str(tmp_path), what],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in range(ranks):
        assert told in (tmp_path / f"said{rank}.txt").read_text()
