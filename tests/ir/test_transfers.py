"""Who sends what to whom."""

from __future__ import annotations

import pytest

from ir.slicing import Grid, Slices, sliced
from ir.transfers import Need, traffic

pytestmark = pytest.mark.fast

ROWS = sliced((4, 4), [Grid((4,), ((0,), ()))])


def test_what_a_device_has_is_kept_and_the_rest_comes_from_its_owner() -> None:
    found = traffic([Need(ROWS, ((0, 2), (0, 4)), (0, 3), 2.0)])
    assert found.messages == {(0, 3): 8, (1, 0): 8, (1, 3): 8}
    assert found.kept == {0: 8}
    assert found.moved_bytes == 24
    assert found.sources() == {0: (0, 1), 3: (0, 1)}


def test_the_nearest_copy_is_sent_and_among_equals_the_idle_one() -> None:
    copies = sliced((4,), [Grid((4,), ((),))])
    box = ((0, 4),)
    near = traffic([Need(copies, box, (9,), 1.0)], lambda one, other: abs(one - other))
    assert near.messages == {(3, 9): 4}
    even = traffic([Need(copies, box, (5, 6, 7, 8, 9), 1.0)])
    assert sorted(sender for sender, _ in even.messages) == [0, 0, 1, 2, 3]


def test_what_nobody_has_any_more_is_counted_for_who_needs_it() -> None:
    left = Slices(ROWS.dims, ROWS.boxes, ((0,), (1,), (), ()))
    found = traffic([Need(left, ((1, 4), (0, 4)), (0, 1), 1.0)])
    assert found.messages == {(1, 0): 4}
    assert found.lost == {0: 8, 1: 8}
    assert found.lost_bytes == 16


@pytest.mark.parametrize("device", [0, 1, 2, 3])
def test_slices_of_two_stages_that_overlap_are_not_counted_twice(device: int) -> None:
    tied = sliced((4, 4), [Grid((2,), ((0,), ())), Grid((2,), ((), (0,)), 2)])
    found = traffic([Need(tied, ((0, 4), (0, 4)), (device,), 1.0)])
    assert found.kept == {device: 8}
    assert found.moved_bytes == 8
    assert not found.lost
