"""What the table of measured steps of planned layouts says of its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.run_steps import (
    SEARCHED,
    Row,
    in_order,
    is_best,
    layouts,
    read_rows,
    report,
    spearman,
)

pytestmark = pytest.mark.fast


def rows(predicted: Sequence[float], measured: Sequence[float]) -> list[Row]:
    """Layouts of one model, the first of them the searched one."""
    names = [SEARCHED, *(f"layout {i}" for i in range(1, len(measured)))]
    return [
        Row("gpt", 2, name, name, p, m, m, m, (("step", p, m),), 0.0)
        for name, p, m in zip(names, predicted, measured, strict=True)
    ]


def test_ranks_agree_where_predictions_have_the_order_of_measurements() -> None:
    assert spearman(rows([1, 2, 3, 4], [2, 3, 5, 9])) == pytest.approx(1.0)
    assert spearman(rows([4, 3, 2, 1], [2, 3, 5, 9])) == pytest.approx(-1.0)
    assert in_order(rows([4, 3, 2, 1], [2, 3, 5, 9])) == (0, 6)


def test_layouts_that_hardly_differ_are_not_ranked() -> None:
    close = rows([3, 2, 1], [1.0, 1.05, 1.09])
    assert spearman(close) is None
    assert in_order(close) == (0, 0)


def test_a_searched_plan_may_be_slower_by_five_percent() -> None:
    assert is_best(rows([1, 2], [1.04, 1.0]))
    assert is_best(rows([1, 2], [1.06, 1.0])) is False
    assert is_best(rows([1, 2], [1.0, 1.2])[1:]) is None  # nothing was searched


def test_one_plan_of_two_names_counts_once() -> None:
    first, second = rows([1, 2], [2, 2])
    third = replace(first, layout="layout 1", same_as=SEARCHED)
    assert "| 2 | 2 | 25% |" in report([first, second, third])
    assert "layout 1, as searched" in report([first, second, third])


def test_rows_read_back(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    assert read_rows(path) == []
    written = rows([1, 2], [2, 2])
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in written))
    assert read_rows(path) == written


def test_four_processes_have_two_axes_too() -> None:
    assert len(layouts(4, 8)) == len(layouts(2, 8)) + 1
    assert all(asked.global_batch == 8 for asked in layouts(4, 8).values())
