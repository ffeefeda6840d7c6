"""The steps that were measured on one GPU, as they are kept."""

from __future__ import annotations

import csv

import pytest

import data

pytestmark = pytest.mark.fast

ROWS = list(csv.DictReader(data.read_text("calibration", "gpu_steps.csv").splitlines()))
WAYS = {"none", "selective", "full"}


def test_every_step_says_its_machine_and_its_software() -> None:
    assert len(ROWS) == 80
    for row in ROWS:
        assert row["hardware"] == "NVIDIA H200"
        assert row["software"].startswith("torch 2.11.0")
        assert row["recompute"] in WAYS


def test_parts_of_a_step_make_the_step() -> None:
    for row in ROWS:
        low, middle, high = (float(row[k]) for k in ("step_10_s", "step_s", "step_90_s"))
        parts = sum(float(row[k]) for k in ("forward_s", "backward_s", "update_s"))
        assert low <= middle <= high
        assert low * 0.95 <= parts <= high * 1.05


def test_whole_blocks_computed_again_save_memory() -> None:
    peaks: dict[tuple[str, ...], dict[str, float]] = {}
    for row in ROWS:
        if row["compiled"] == "0":
            key = row["model"], row["batch"], row["dtype"]
            peaks.setdefault(key, {})[row["recompute"]] = float(row["peak_bytes"])
    complete = [each for each in peaks.values() if set(each) == WAYS]
    assert len(complete) > 20
    assert all(each["full"] <= each["selective"] <= each["none"] for each in complete)
