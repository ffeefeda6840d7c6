"""Interpolation between measured runs, and the table of what formulas miss."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from benchmarks.calibrate import neighbours_text
from benchmarks.training_noise import interpolated
from costmodel.training.constants import StepConstants
from costmodel.training.crossvalidation import FamilyFit
from costmodel.training.dataset import read_entries
from costmodel.training.families import families
from costmodel.training.neighbours import COLUMNS, LARGEST
from tests.costmodel.training.runs import GPT, run

pytestmark = pytest.mark.fast

ROW = {
    "source": "vTrain", "hardware": "NVIDIA A100", "devices": "8", "model": "GPT", "hidden": "1024",
    "layers": "24", "heads": "16", "seq_len": "1024", "global_batch": "64", "tp": "8", "dp": "1",
}  # fmt: skip


def test_runs_on_a_straight_line_are_found_and_others_are_off() -> None:
    """A power law is a straight line of logarithms; the ends of a line have one neighbour only."""
    times = {1: 8.0, 2: 4.0, 4: 2.0, 8: 2.0}
    rows = [
        ROW | {"id": str(size), "micro_batch": str(size), "measured_step_time_s": str(time)}
        for size, time in times.items()
    ]
    (errors,) = interpolated(read_entries(rows)).values()
    assert errors.tolist() == pytest.approx([0.0, 2**0.5 - 1.0])


def test_repeats_become_one_line_with_the_mean_of_what_was_missed() -> None:
    runs = (run(GPT), run(GPT), run(GPT, tp=2))
    times = np.array([1.1, 1.3, 9.0])
    ones = np.ones(3)
    family = families()["megatron-ampere"]
    fitted = FamilyFit(family, StepConstants(), runs, times, *(ones,) * 9)
    found = list(csv.DictReader(io.StringIO(neighbours_text([fitted]))))
    assert [row["runs"] for row in found] == ["2", "1"]
    mean = (np.log(1.1) + LARGEST) / 2
    assert float(found[0]["missed"]) == pytest.approx(mean, abs=1e-4)
    assert float(found[1]["missed"]) == LARGEST
    assert [float(found[1][name]) for name in COLUMNS][6] == 2
