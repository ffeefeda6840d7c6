"""Constants fitted to a user's own cluster: what a few rows teach of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import pytest

from costmodel.training import own_cluster
from costmodel.training.dataset import Entry, read_entries
from costmodel.training.own_cluster import ALL_TIMES, refit
from costmodel.training.predict import Prediction, predict
from costmodel.training.table import RunTable
from tests.costmodel.training.test_rows import ROW

BLOCKS = {
    "mindspeed": {},
    "megatron": {"source": "NVIDIA/Megatron-LM", "hardware": "NVIDIA A100 80GB", "notes": ""},
    "tpu": {"source": "MaxText", "hardware": "TPU v5p", "notes": "", "model": "MaxText 13B"},
}
TRAINED = 5


def entries(block: str, times: float | Sequence[float]) -> tuple[Entry, ...]:
    """Nine layouts of a block with times that are so many times the predicted ones."""
    sizes = [(tp, micro) for tp in (8, 4, 2) for micro in (1, 2, 4)]
    layouts = [
        {"id": f"{tp}-{micro}", "tp": str(tp), "dp": str(16 // tp), "micro_batch": str(micro)}
        for tp, micro in sizes
    ]
    rows = [ROW | BLOCKS[block] | layout for layout in layouts]
    factors = [times] * len(rows) if isinstance(times, float) else times
    measured = [
        {**row, "measured_step_time_s": str(factor * found.step_s)}
        for row, found, factor in zip(rows, predictions(read_entries(rows)), factors, strict=True)
    ]
    return read_entries(measured)


def predictions(found: Sequence[Entry], *calibration: object) -> list[Prediction]:
    runs = [entry.read.run for entry in found if entry.read is not None]
    return list(predict(runs, [0] * len(runs), *calibration))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("block", "factor"), [("mindspeed", 0.8), ("mindspeed", 1.3), ("megatron", 0.8), ("tpu", 1.3)]
)
def test_a_cluster_that_is_faster_or_slower_throughout_is_learned(
    block: str, factor: float
) -> None:
    """Times of several blocks that differ by one factor and some noise: rows left out agree."""
    noise = [factor * math.exp(0.01 * math.sin(7 * row)) for row in range(9)]
    measured = entries(block, noise)
    calibration, (family,) = refit(measured[:TRAINED], "rows")
    found = next(item for item in family.constants if item.name == ALL_TIMES)
    assert found.shipped == 1.0
    assert found.fitted == pytest.approx(factor, rel=0.03)
    assert found.low <= found.fitted <= found.high
    rest = measured[TRAINED:]
    errors = [
        abs(each.step_s / (entry.step_s or 0.0) - 1)
        for each, entry in zip(predictions(rest, calibration), rest, strict=True)
    ]
    assert median(errors) < 0.03


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_moves_nothing(seed: int) -> None:
    """Rows that scatter by 3 % by chance teach nothing of other rows."""
    random = np.random.default_rng(seed)
    measured = entries("mindspeed", [float(x) for x in np.exp(random.normal(0.0, 0.03, 9))])
    _, (family,) = refit(measured, "rows")
    assert family.constants == ()
    assert family.after == family.before


def test_many_rows_are_left_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine rows in three parts: a row is predicted with constants fitted to six others."""
    monkeypatch.setattr(own_cluster, "_MOST_PARTS", 3)
    lines: list[str] = []
    fitted: list[int] = []
    exact = own_cluster._fitted

    def counted(table: RunTable, *others: Any) -> object:
        fitted.append(len(table.layers))
        return exact(table, *others)

    monkeypatch.setattr(own_cluster, "_fitted", counted)
    _, (family,) = refit(entries("mindspeed", 1.3), "rows", lines.append)
    assert set(fitted) == {6, 9}
    assert fitted.count(6) % 3 == 0
    assert family.after < 0.02 < family.before
    assert lines[0].startswith("9 rows: 1 constants")


def test_times_as_predicted_move_nothing() -> None:
    _, (family,) = refit(entries("megatron", 1.0)[:TRAINED], "rows")
    assert family.before == pytest.approx(0.0, abs=1e-6)
    assert family.constants == ()


def test_a_family_of_one_row_moves_nothing() -> None:
    """There is no other row to learn from."""
    one, others = entries("tpu", 1.3)[:1], entries("megatron", 1.3)[:TRAINED]
    _, found = refit((*one, *others), "rows")
    assert {family.rows: bool(family.constants) for family in found} == {1: False, 5: True}
