"""Predictions of runs of other sources, group by group."""

from __future__ import annotations

import pytest

from benchmarks.other_runs import groups

pytestmark = pytest.mark.fast

RUN = {"source": "github:A/b README.md and x.sh", "hardware": "NVIDIA H200", "dtype": "bf16"}


def prediction(name: str, error: str, high: str) -> dict[str, str]:
    """A row of `planner validate`: 10 s predicted."""
    times = {"predicted_step_time_s": "10", "predicted_low_s": "8", "predicted_high_s": high}
    return times | {"id": name, "predicted_fits": "yes", "relative_error": error}


def test_runs_of_one_document_and_machine_are_one_group() -> None:
    """Errors count by size, the bias by sign; a measurement beyond the interval is not inside, and
    a row without one counts nowhere.
    """
    runs = [RUN | {"id": name} for name in "abc"] + [RUN | {"id": "d", "dtype": "fp8"}]
    rows = [
        prediction("a", "0.25", "11"), prediction("b", "-0.2", "12"), prediction("c", "", "11"),
        prediction("d", "0.0", "11"),
    ]  # fmt: skip
    wide, narrow = groups(runs, rows)
    assert wide.line == "| A/b README.md, H200, 16 bits | 2 | 22.5 | +2.5 | +25.0 | 1 | 2 |"
    assert narrow.name == "A/b README.md, H200, 8 bits and fewer"
