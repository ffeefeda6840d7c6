"""Numbers of the constants of a network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from importers.transformers.fillings import (
    causal_mask,
    counted,
    distance_buckets,
    filled,
    rotary,
    waves,
)

pytestmark = pytest.mark.fast


def test_numbers_and_positions() -> None:
    assert filled(2.5)((2, 1)).tolist() == [[2.5], [2.5]]
    assert counted((1, 3)).tolist() == [[0, 1, 2]]
    assert counted(()).tolist() == 0


def test_a_row_sees_the_keys_up_to_itself() -> None:
    mask = causal_mask((1, 2, 3, 3))
    assert mask.shape == (1, 2, 3, 3)
    assert np.array_equal(mask[0, 1] == 0, np.tri(3, dtype=bool))
    assert np.isfinite(mask).all()


def test_cosine_and_sine_are_of_one_angle() -> None:
    cosine, sine = rotary(np.cos, 2)((1, 1, 4, 6)), rotary(np.sin, 2)((1, 1, 4, 6))
    assert cosine**2 + sine**2 == pytest.approx(np.ones((1, 1, 4, 6)))
    assert sine[0, 0, 3, 0] == pytest.approx(math.sin(3))
    assert np.array_equal(sine[..., :3], sine[..., 3:])
    assert waves((1, 2, 4))[0, 1].tolist() == pytest.approx(
        [math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)]
    )


def bucket(distance: int, causal: bool) -> int:
    """T5's bucket for a key so far from the row: its published formula, number by number."""
    buckets, start = 32, 0
    if not causal:
        buckets //= 2
        start = buckets if distance > 0 else 0
    away = max(-distance, 0) if causal else abs(distance)
    exact = buckets // 2
    if away < exact:
        return start + away
    steps = math.log(away / exact) / math.log(128 / exact) * (buckets - exact)
    return start + min(exact + int(steps), buckets - 1)


@pytest.mark.parametrize("causal", [True, False])
def test_distances_fall_into_the_buckets_of_t5(causal: bool) -> None:
    found = distance_buckets(32, causal=causal)((300, 300))
    wanted = [[bucket(k - r, causal) for k in range(300)] for r in range(0, 300, 37)]
    assert found[::37].tolist() == wanted
    assert found.max() < 32


@pytest.mark.parametrize("buckets", [1, 2, 3, 7])
def test_few_buckets_are_enough(buckets: int) -> None:
    for causal in (True, False):
        found = distance_buckets(buckets, causal=causal)((9, 9))
        assert 0 <= found.min() <= found.max() < buckets
