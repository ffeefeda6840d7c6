"""Intervals by block: what they hold of runs that they were not made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.training_intervals import BlockScores, held_shares, intervals


def scores(count: int, scale: float, seed: int = 0) -> BlockScores:
    """Normal scores of a block, ten rows to a model."""
    random = np.random.default_rng(seed)
    models = tuple(f"model {row // 10}" for row in range(count))
    return BlockScores(models, random.normal(0, scale, count), random.normal(0, scale, count))


@given(st.integers(0, 100))
def test_nine_of_ten_rows_of_a_large_block_are_held(seed: int) -> None:
    block = scores(400, 1.0, seed)
    low, high = intervals({"a": block})["a"]
    inside = (low <= block.all) & (block.all <= high)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.005)
    assert (low, high) == pytest.approx((-1.645, 1.645), abs=0.35)


def test_unseen_models_are_held_as_often() -> None:
    for share in held_shares({"a": scores(400, 1.0), "b": scores(400, 3.0, 1)})["b"]:
        assert share == pytest.approx(0.9, abs=0.04)


def test_an_interval_follows_the_scale_of_its_block() -> None:
    ends = intervals({"narrow": scores(200, 0.5), "wide": scores(200, 5.0)})
    assert ends["wide"][1] == pytest.approx(10 * ends["narrow"][1], rel=0.1)


@pytest.mark.parametrize("size", [0.4, 4.0])
def test_a_block_of_few_rows_takes_its_shape_from_the_others(size: float) -> None:
    """Four rows alike say where a block lies, not how far its tails reach."""
    few = BlockScores(("m",) * 4, np.full(4, size), np.full(4, size))
    low, high = intervals({"few": few, "many": scores(400, 1.0)})["few"]
    assert low < -0.3 * size
    assert high > 1.25 * size
    held = held_shares({"few": few, "many": scores(400, 1.0)})["few"]
    assert held == ((1.0, 1.0) if size < 1 else (0.0, 0.0))


def test_the_rows_of_a_model_have_no_part_in_the_interval_that_is_to_hold_them() -> None:
    """One model far off: with its own rows the interval would reach it."""
    far = BlockScores(
        (*("near",) * 20, *("far",) * 4),
        np.r_[np.linspace(-1, 1, 20), np.full(4, 30.0)],
        np.r_[np.linspace(-1, 1, 20), np.full(4, 30.0)],
    )
    blocks = {"a": far, "b": scores(400, 1.0)}
    assert intervals(blocks)["a"][1] == pytest.approx(30.0)
    assert held_shares(blocks)["a"][1] <= 20 / 24


def test_no_interval_is_empty() -> None:
    exact = BlockScores(("m",) * 50, np.zeros(50), np.zeros(50))
    assert intervals({"a": exact})["a"] == (-0.2, 0.2)
