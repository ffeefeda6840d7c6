"""Tables brought together say what they said: checked against sums over all positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.problem import FloatArray
from planner.solvers.alignment import Table, align, merge, widened

pytestmark = pytest.mark.fast
SIZES = (3, 1, 2, 4)
EVERY = (0, 1, 2, 3)


def drawn(seed: int) -> list[tuple[tuple[int, ...], FloatArray]]:
    """Some tables, each over positions in any order."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(int(rng.integers(1, 5))):
        axes = tuple(rng.permutation(4)[: int(rng.integers(1, 4))].tolist())
        found.append((axes, rng.random([SIZES[axis] for axis in axes])))
    return found


def total(tables: list[Table]) -> FloatArray:
    return np.asarray(sum(widened(mine, own, EVERY) for mine, own in tables) + np.zeros(SIZES))


@given(st.integers(0, 9999))
def test_aligned_and_merged_tables_have_the_same_sum(seed: int) -> None:
    given_tables = drawn(seed)
    wanted = np.zeros(SIZES)
    for axes, array in given_tables:
        turned = array.transpose(np.argsort(axes))
        wanted += turned.reshape([SIZES[p] if p in axes else 1 for p in EVERY])
    aligned = [align(axes, array) for axes, array in given_tables]
    merged = merge(aligned)
    assert np.allclose(total(aligned), wanted)
    assert np.allclose(total(merged), wanted)
    kept = [set(positions) for positions, _ in merged]
    assert not any(a <= b for i, a in enumerate(kept) for j, b in enumerate(kept) if i != j)


@given(st.integers(0, 9999))
def test_positions_ascend_and_those_of_one_entry_go(seed: int) -> None:
    for axes, array in drawn(seed):
        positions, aligned = align(axes, array)
        assert list(positions) == sorted(p for p in axes if p == 0 or SIZES[p] > 1)
        assert aligned.shape == tuple(SIZES[p] for p in positions)
