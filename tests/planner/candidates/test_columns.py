"""Columns of candidates: what is added to them keeps the order and the decisions before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.columns import Columns


@pytest.mark.parametrize("count", [1, 4])
def test_candidates_that_compute_again_stand_behind_the_others_in_their_order(count: int) -> None:
    both = Columns.of(count).with_recompute()
    assert both.kept.tolist() == list(range(count))
    assert both.assignment[both.recomputing].tolist() == both.assignment[both.kept].tolist()
    for candidate in range(2 * count):
        assert both.keeping(candidate) == candidate % count
        assert both.alike(candidate).tolist() == [candidate % count, candidate % count + count]


def test_state_on_the_host_has_a_candidate_with_the_same_state_on_the_device() -> None:
    plain = replace(Columns.of(3), assignment=np.array([0, 0, 1]), zero=np.array([0, 2, 0]))
    both = plain.with_host(always=False)
    assert [both.on_device(candidate) for candidate in range(6)] == [0, 1, 2] * 2
    always = plain.with_host(always=True)
    assert always.host.all()
    assert always.on_device(0) is None


def test_what_is_left_keeps_all_its_decisions() -> None:
    every = Columns.of(5).with_recompute()
    keep = np.array([1, 3, 6, 8])
    less = every.take(keep)
    assert less.assignment.tolist() == every.assignment[keep].tolist()
    assert less.recompute.tolist() == [False, False, True, True]
    assert less.having(np.arange(5) == 3).tolist() == [1, 3]
    assert less.keeping(3) == 1
