"""Checkpoints that the planner moved: what the real MindSpore is asked to do as well.

Run by the planner's Python. Each case is a folder with the strategy files of two jobs, the
checkpoint of the first (`in`), and what `planner reshard` makes of it for the second (`out`) and
for one card (`whole`), with the ranks that it names for each new rank.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from cli.main import app
from exporters.mindspore.strategy import ParameterLayout, StrategyCheckpoint, StrategyItem, write
from tests.executors.checkpoint.files import write_ranks
from tests.exporters.mindspore_rules import resting_slices

Array = NDArray[Any]
Cut = tuple[tuple[int, ...], tuple[int, ...], int, int]
"""Device matrix, tensor map, step and size of the optimizer's share."""

SHAPES = {
    "w1": ((16, 24), np.dtype(np.float32)), "w2": ((32, 48), np.dtype(np.float16)),
    "w3": ((8, 4, 16), np.dtype(np.float32)), "b": ((32,), np.dtype(ml_dtypes.bfloat16)),
    "table": ((64, 8), np.dtype(np.float32)), "moments.w1": ((16, 24), np.dtype(np.float32)),
}  # fmt: skip
WHOLE_JOBS: dict[str, dict[str, Cut]] = {
    "2": {
        "w1": ((2,), (0, -1), 0, 0), "w2": ((2,), (-1, 0), 0, 0), "w3": ((2,), (-1, 0, -1), 0, 0),
        "b": ((2,), (-1,), 0, 0), "table": ((2,), (-1, -1), 1, 2),
    },
    "4": {
        "w1": ((4,), (-1, 0), 0, 0), "w2": ((4,), (0, -1), 0, 0), "w3": ((2, 2), (1, 0, -1), 0, 0),
        "b": ((4,), (0,), 0, 0), "table": ((2, 2), (0, -1), 2, 2),
    },
    "4other": {
        "w1": ((2, 2), (1, 0), 0, 0), "w2": ((2, 2), (0, 1), 0, 0), "w3": ((4,), (-1, -1, 0), 0, 0),
        "b": ((2, 2), (0,), 0, 0), "table": ((4,), (-1, -1), 1, 4),
    },
    "8": {
        "w1": ((4, 2), (0, 1), 0, 0), "w2": ((2, 4), (1, 0), 0, 0),
        "w3": ((2, 2, 2), (2, 1, 0), 0, 0), "b": ((2, 4), (0,), 0, 0),
        "table": ((2, 4), (0, -1), 4, 2),
    },
    "16": {
        "w1": ((4, 4), (1, 0), 0, 0), "w2": ((2, 8), (1, 0), 0, 0),
        "w3": ((2, 2, 4), (2, 1, 0), 0, 0), "b": ((4, 4), (1,), 0, 0),
        "table": ((8, 2), (0, -1), 2, 8),
    },
}  # fmt: skip
# Names begin with the pipeline stage, as merge_pipeline_strategys writes them.
STAGED_JOBS: dict[str, dict[str, Cut]] = {
    "2x2": {
        "0-w1": ((2,), (0, -1), 0, 0), "0-w2": ((2,), (-1, 0), 0, 0),
        "1-w3": ((2,), (-1, 0, -1), 0, 0), "1-table": ((2,), (0, -1), 0, 0),
    },
    "4x2": {
        "0-w1": ((2,), (-1, 0), 0, 0), "1-w2": ((2,), (-1, 0), 0, 0),
        "2-w3": ((2,), (0, -1, -1), 0, 0), "3-table": ((2,), (-1, 0), 0, 0),
    },
    "1x4": {
        "w1": ((2, 2), (0, 1), 0, 0), "w2": ((4,), (0, -1), 0, 0),
        "w3": ((2, 2), (1, -1, 0), 0, 0), "table": ((4,), (-1, 0), 0, 0),
    },
}  # fmt: skip
JOBS = WHOLE_JOBS | STAGED_JOBS
CASES = (
    ("4", "2"), ("2", "4"), ("8", "4other"), ("16", "8"),
    ("2x2", "4x2"), ("2x2", "1x4"), ("1x4", "2x2"),
)  # fmt: skip


def _strategy(cuts: Mapping[str, Cut]) -> StrategyCheckpoint:
    if "w1" in cuts and "b" in cuts:
        cuts = {**cuts, "moments.w1": cuts["w1"]}
    layouts = tuple(
        ParameterLayout(
            name, matrix, tensor_map, SHAPES[name.split("-")[-1]][0],
            opt_weight_shard_step=step, opt_weight_shard_size=size,
        )
        for name, (matrix, tensor_map, step, size) in cuts.items()
    )  # fmt: skip
    item = StrategyItem("MatMul_w1", 0, ((1, 1), (1, 1)))
    return StrategyCheckpoint(1, (item,), layouts)


def _cut(cuts: Mapping[str, Cut], form: str) -> list[dict[str, Array]]:
    """What each rank of a job keeps, by MindSpore's rules as the tests have them.

    MindSpore cannot read bfloat16 from safetensors, so those files have none.
    """
    draw = np.random.default_rng(3)
    strategy = _strategy(cuts)
    stages = [int(name.split("-")[0]) if "-" in name else 0 for name in cuts]
    ranks = math.prod(next(iter(cuts.values()))[0])
    out: list[dict[str, Array]] = [{} for _ in range(ranks * (max(stages) + 1))]
    whole = {n: draw.standard_normal(dims).astype(dtype) for n, (dims, dtype) in SHAPES.items()}
    for layout in strategy.layouts:
        stage, _, name = layout.name.rpartition("-")
        for rank, ranges in enumerate(resting_slices(layout)):
            part = whole[name][tuple(slice(first, end) for first, end in ranges)]
            out[int(stage or 0) * ranks + rank][name] = np.ascontiguousarray(part)
    for held in out:
        if form == "safetensors" and "b" in held:
            held["b"] = held["b"].astype(np.float16)
        held["global_step"] = np.array([7], np.int32)
    return out


def _reshard(*arguments: object) -> dict[str, Any]:
    given = ["reshard", *(str(each) for each in arguments), "--json"]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0, found.output
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def write_checkpoints(folder: Path) -> None:
    """One folder for each pair of jobs and form of file: `8-4other-ckpt`."""
    for first, second in CASES:
        forms = ("ckpt",) if "x" in first else ("ckpt", "safetensors")
        for form in forms:
            case = folder / f"{first}-{second}-{form}"
            source, target = case / "source.ckpt", case / "target.json"
            for name, job in (("source", first), ("target", second)):
                for suffix in ("ckpt", "json"):
                    write(case / f"{name}.{suffix}", _strategy(JOBS[job]))
            given = write_ranks(case / "in", _cut(JOBS[first], form), f".{form}")
            _reshard("--in", given, "--from", source, "--to", target, "--out", case / "out")
            _reshard("--in", given, "--from", source, "--single", "--out", case / "whole")
            plan = _reshard("--in", given, "--from", source, "--to", target, "--dry-run")
            (case / "rank_list.json").write_text(json.dumps(plan["rank_list"]))


if __name__ == "__main__":
    write_checkpoints(Path(sys.argv[1]))
