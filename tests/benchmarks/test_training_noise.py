"""Interpolation between measured runs, and the table of what formulas miss."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.calibrate import neighbours_text
from benchmarks.training_crossvalidation import WAYS, FamilyFit, FamilyRows, LeftOut
from benchmarks.training_noise import interpolated
from costmodel.training.constants import StepConstants
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
    runs = (*(run(GPT),) * 10, *(run(GPT),) * 10, run(GPT, tp=2))
    times = np.array([1.1] * 10 + [1.3] * 10 + [9.0])
    ones = np.ones(21)
    family = families()["megatron-ampere"]
    rows = FamilyRows(runs, times, ("a",) * 21)
    left = LeftOut(2 * times, times, ones, ones)
    constants = StepConstants()
    ways = dict.fromkeys(WAYS, left)
    fitted = FamilyFit(family, constants, rows, ones, ways, {}, constants, ones)
    found = list(csv.DictReader(io.StringIO(neighbours_text([fitted]))))
    assert [row["runs"] for row in found] == ["20", "1"]
    mean = (np.log(1.1) + LARGEST) / 2
    assert float(found[0]["missed"]) == pytest.approx(mean, abs=1e-4)
    assert float(found[1]["missed"]) == LARGEST
    assert [float(found[1][name]) for name in COLUMNS][6] == 2
    useless = replace(fitted, left_out=dict.fromkeys(WAYS, LeftOut(times, 2 * times, ones, ones)))
    assert len(neighbours_text([useless]).splitlines()) == 1
