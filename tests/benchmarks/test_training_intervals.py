"""Intervals by block: what they hold of runs that they were not made from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.training_crossvalidation import WAYS
from benchmarks.training_intervals import (
    COVERAGE,
    BlockScores,
    held_shares,
    intervals,
)

pytestmark = pytest.mark.fast

LEFT, RIGHT = -1.645, 1.645
"""Between which 90 % of a normal distribution lie."""


def scores(count: int, scale: float, seed: int = 0, known: float = 0.0) -> BlockScores:
    """Normal scores of a block, ten rows to a model; of known runs so much wider or narrower."""
    random = np.random.default_rng(seed)
    groups = np.repeat([[f"group {row // 10}"] for row in range(count)], len(WAYS), axis=1)
    values = random.normal(0, scale, (count, len(WAYS)))
    alike = np.zeros_like(values)
    if known:
        alike[: count // 2] = 1.0
        values[: count // 2] *= known
    return BlockScores(groups, values, alike, np.full_like(values, 0.1))


@given(st.integers(0, 100))
def test_so_many_rows_of_a_large_block_are_held(seed: int) -> None:
    block = scores(400, 1.0, seed)
    low, high = intervals({"a": block})["a"].new
    seen = block.scores[:, WAYS.index("sources")]
    assert np.mean((low <= seen) & (seen <= high)) == pytest.approx(COVERAGE, abs=0.01)
    assert (low, high) == pytest.approx((LEFT, RIGHT), abs=0.45)


def test_unseen_models_are_held_as_often() -> None:
    for share in held_shares({"a": scores(400, 1.0), "b": scores(400, 3.0, 1)})["b"].shares:
        assert share == pytest.approx(COVERAGE, abs=0.06)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_known_and_new_runs_are_held_alike_however_their_scores_differ(factor: float) -> None:
    block = scores(400, 1.0, known=factor)
    ends = intervals({"a": block})["a"]
    assert ends.known[1] == pytest.approx(factor * ends.new[1], rel=0.25)
    for share in held_shares({"a": block})["a"].shares:
        assert share == pytest.approx(COVERAGE, abs=0.04)


def test_a_class_without_rows_takes_those_of_its_block() -> None:
    ends = intervals({"a": scores(100, 1.0), "b": scores(100, 9.0, 1)})["a"]
    assert ends.known == pytest.approx((LEFT, RIGHT), abs=0.9)


def test_an_interval_follows_the_scale_of_its_block() -> None:
    ends = intervals({"narrow": scores(200, 0.5), "wide": scores(200, 5.0)})
    assert ends["wide"].new[1] == pytest.approx(10 * ends["narrow"].new[1], rel=0.1)


def alike(models: tuple[str, ...], values: np.ndarray) -> BlockScores:
    """Rows whose scores are the same whatever is left out."""
    each = np.repeat(values[:, None], len(WAYS), axis=1)
    groups = np.repeat(np.array(models)[:, None], len(WAYS), axis=1)
    return BlockScores(groups, each, np.zeros_like(each), np.full_like(each, 0.1))


@pytest.mark.parametrize("size", [0.4, 4.0])
def test_a_block_of_few_rows_takes_its_shape_from_the_others(size: float) -> None:
    """Four rows alike say where a block lies, not how far its tails reach."""
    few = alike(("m",) * 4, np.full(4, size))
    low, high = intervals({"few": few, "many": scores(400, 1.0)})["few"].new
    assert low < -0.3 * size
    assert high > 1.1 * size
    held = held_shares({"few": few, "many": scores(400, 1.0)})["few"]
    assert held.shares.tolist() == [float(size < 1)] * len(WAYS)


def test_the_rows_of_a_model_have_no_part_in_the_interval_that_is_to_hold_them() -> None:
    """One model far off: with its own rows the interval would reach it."""
    values = np.r_[np.linspace(-1, 1, 20), np.full(4, 30.0)]
    blocks = {"a": alike((*("near",) * 20, *("far",) * 4), values), "b": scores(400, 1.0)}
    assert intervals(blocks)["a"].new[1] == pytest.approx(30.0)
    assert held_shares(blocks)["a"].shares.max() <= 20 / 24


def test_no_interval_is_empty() -> None:
    ends = intervals({"a": alike(("m",) * 50, np.zeros(50))})["a"]
    assert ends.known == ends.new == (-0.2, 0.2)


def test_intervals_are_of_sources_that_were_left_out() -> None:
    """Widths and machines move no end, models that of runs like none that was measured alone."""
    block = scores(100, 1.0)
    other = block.scores.copy()
    other[:, [WAYS.index("widths"), WAYS.index("machines")]] *= 9.0
    changed = replace(block, scores=other)
    assert intervals({"a": block}) == intervals({"a": changed})
    other[:, WAYS.index("models")] *= 9.0
    ends, far = (intervals({"a": each})["a"] for each in (block, replace(block, scores=other)))
    assert far.known == ends.known
    assert far.new[1] > 1.5 * ends.new[1]
    assert held_shares({"a": block})["a"].width == pytest.approx(
        float(np.exp(0.1 * (RIGHT - LEFT))), rel=0.1
    )
