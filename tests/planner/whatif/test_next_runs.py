"""Runs to measure next: worth what draws say, and written as rows that read as the same runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.training.neighbours import NOISE, covariance
from costmodel.training.predict import Prediction, predict
from costmodel.training.records import TrainingRun
from costmodel.training.rows import read_row
from costmodel.training.run_rows import row_of
from costmodel.training.table import RunTable
from importers.sizes import configuration
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.errors import UserError
from planner.requests.options.simulations import LayoutOptions, RankingOptions
from planner.whatif.layout_ranking import ranked
from planner.whatif.next_runs import next_runs
from tests.cli.conftest import planner

__all__ = ["planner"]

pytestmark = pytest.mark.fast

LLAMA = "llama2-7b"
LAYOUTS = ("tp=2,dp=8,sp", "tp=4,dp=4,sp", "tp=8,dp=2,sp", "pp=4,dp=4", "tp=2,pp=2,dp=4,sp")


def _run(layout: str, model: str = LLAMA, cluster: str = "h100", **more: str) -> TrainingRun:
    asked = LayoutOptions(layout=f"{layout},batch=64", cluster=cluster, **more)
    return run_of_layout(asked, configuration(model), model)


def _found(runs: list[TrainingRun], steps: list[float], wide: list[float]) -> list[Prediction]:
    """Predictions with these middles, and intervals of these widths (logarithms)."""
    return [
        replace(each, step_s=s, low_s=s * np.exp(-w / 2), high_s=s * np.exp(w / 2), unlike="")
        for each, s, w in zip(predict(runs), steps, wide, strict=True)
    ]


def test_a_run_is_worth_what_drawn_measurements_say() -> None:
    runs = [_run(layout) for layout in LAYOUTS]
    steps, wide = [1.0, 1.02, 1.05, 1.1, 1.03], [0.3, 0.4, 0.2, 0.5, 0.3]
    (first,) = next_runs(runs, _found(runs, steps, wide), 1)
    like = covariance(RunTable.of(runs), np.array([run.machine for run in runs]))
    spread = np.array(wide) / (2 * 1.645) / np.sqrt(np.diag(like))
    whole = like * spread[:, None] * spread[None, :]
    random = np.random.default_rng(1)
    true = random.multivariate_normal(np.log(steps), whole, 40_000)
    noise = random.normal(0.0, NOISE, len(true))
    worth = []
    for number in range(len(runs)):
        gain = whole[number] / (whole[number, number] + NOISE**2)
        off = true[:, number] + noise - np.log(steps[number])
        then = (np.log(steps) + off[:, None] * gain).argmin(axis=1)
        worth.append(true[:, 0].mean() - true[np.arange(len(true)), then].mean())
    assert first.number == int(np.argmax(worth))
    assert first.saves == pytest.approx(max(worth), rel=0.1)


def test_what_cannot_win_is_not_measured_and_what_is_known_neither() -> None:
    runs = [_run(layout) for layout in LAYOUTS]
    chosen = next_runs(runs, _found(runs, [1.0, 1.01, 9.0, 9.0, 9.0], [0.3, 0.3, 0.1, 0.1, 0.1]), 5)
    assert {each.number for each in chosen[:2]} == {0, 1}
    assert all(each.saves < 0.5 * chosen[0].saves for each in chosen[2:])
    assert len({each.number for each in chosen}) == 5, "no run is proposed twice"
    certain = next_runs(runs, _found(runs, [1.0, 1.01, 1.02, 1.03, 1.04], [1e-9] * 5), 1)
    assert certain[0].saves < 1e-9
    assert next_runs(runs[:1], _found(runs[:1], [1.0], [0.3]), 5) == ()


@pytest.mark.parametrize(
    ("model", "cluster", "layout"),
    [
        (LLAMA, "h100", "tp=2,pp=2,vpp=4,dp=4,sp,zero=1"),
        (LLAMA, "a100-80g", "pp=4,dp=4,recompute=full,recompute-share=0.5"),
        ("mixtral-8x7b", "b200", "dp=16,ep=8,zero=1"),
        ("deepseek-v3", "atlas-800t-a2", "tp=4,dp=4,ep=4,sp,mtp=0"),
        ("bert-large", "h100", "dp=16,zero=3"),
    ],
)
def test_a_row_reads_as_the_same_run(model: str, cluster: str, layout: str) -> None:
    run = _run(layout, model, cluster)
    read = read_row(row_of(run))
    assert read.run.layout == run.layout
    assert (read.run.profile, read.run.machine) == (run.profile, run.machine)
    assert (read.assumed, read.unread) == ((), ())
    times = [each.step_s for each in predict([run, read.run])]
    assert times[1] == pytest.approx(times[0], rel=1e-9)


@pytest.mark.parametrize("profile", ["fsdp", "torchtitan", "megatron", "megatron-core", "pytorch"])
def test_the_name_of_a_profile_is_that_profile_on_every_chip(profile: str) -> None:
    for cluster in ("a100-80g", "h100"):
        run = _run("dp=16,zero=3", cluster=cluster, profile=profile)
        read = read_row(row_of(run))
        assert read.run.profile == profile
        assert "software" not in read.assumed


def test_the_command_writes_rows_that_validate_takes(
    planner: Callable[..., Any], tmp_path: Path
) -> None:
    call = ("layouts", LLAMA, "--devices", "16", "--batch", "64", "--cluster", "h100")
    told = planner(*call, "--next-runs", "3", "--json").json["next_runs"]
    assert len(told) == 3
    assert told[0]["saves"] >= told[-1]["saves"] > 0
    out = planner(*call, "--next-runs", "3").out
    table = out[out.index("id,hardware") :]
    (tmp_path / "rows.csv").write_text(table)
    rows = list(csv.DictReader(table.splitlines()))
    assert rows == [each["row"] for each in told]
    found = json.loads(planner("validate", tmp_path / "rows.csv", "--json").out)
    assert found["rows"] == 3
    assert "skipped" not in found or not found["skipped"]


def test_numbers_that_cannot_be_are_refused() -> None:
    asked = RankingOptions(devices=8, batch=64, cluster="h100", next_runs=1000)
    with pytest.raises(UserError, match="from 0 to 100"):
        ranked(asked, configuration(LLAMA), LLAMA)
