"""Which part of a tensor each rank keeps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ir.layout import Layout
from ir.slicing import (
    Grid,
    chosen_slices,
    common_box,
    part_of,
    replicated_slices,
    sliced,
    whole_slicing,
)


def test_the_first_axis_of_a_dimension_is_the_outer_one() -> None:
    grid = Grid((2, 3), ((1, 0),))
    boxes = [grid.box(rank, (12,)) for rank in grid.ranks]
    assert boxes == [((0, 2),), ((4, 6),), ((8, 10),), ((2, 4),), ((6, 8),), ((10, 12),)]


def test_a_stage_has_its_own_ranks() -> None:
    grid = Grid((2,), ((0,), ()), 6)
    assert list(grid.ranks) == [6, 7]
    assert grid.box(7, (4, 5)) == ((2, 4), (0, 5))


@given(
    size=st.integers(1, 40),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
)
def test_slices_tile_a_tensor_that_does_not_divide(size: int, sizes: tuple[int, ...]) -> None:
    grid = Grid(sizes, (tuple(range(len(sizes))),))
    counts = np.zeros(size, int)
    for rank in grid.ranks:
        ((first, end),) = grid.box(rank, (size,))
        counts[first:end] += 1
        longest = Layout((tuple(range(len(sizes))),)).local_dims((size,), sizes)
        assert end - first <= longest[0]
    assert (counts == 1).all()


def test_equal_slices_are_one_with_all_their_ranks() -> None:
    found = sliced((4, 4), [Grid((2, 2), ((1,), ())), Grid((2,), ((0,), ()), 4)])
    assert found.boxes == (((0, 2), (0, 4)), ((2, 4), (0, 4)))
    assert found.ranks == ((0, 2, 4), (1, 3, 5))


def test_what_overlaps_a_box_is_found_with_what_is_shared() -> None:
    found = sliced((4, 6), [Grid((2, 3), ((0,), (1,)))])
    shared = dict(found.overlapping(((1, 3), (0, 3))))
    assert shared == {
        0: ((1, 2), (0, 2)), 1: ((1, 2), (2, 3)), 3: ((2, 3), (0, 2)), 4: ((2, 3), (2, 3)),
    }  # fmt: skip


def test_a_scalar_is_one_slice() -> None:
    found = replicated_slices((), (0, 1))
    assert list(found.overlapping(())) == [(0, ())]
    assert sliced((), [Grid((2,), ())]).ranks == ((0, 1),)


def test_ranks_are_chosen_repeated_and_dropped() -> None:
    found = chosen_slices(sliced((4,), [Grid((4,), ((0,),))]), (3, 1, 3))
    assert found.boxes == (((1, 2),), ((3, 4),))
    assert found.ranks == ((1,), (0, 2))


def test_boxes_that_touch_share_nothing() -> None:
    assert common_box(((0, 2),), ((2, 3),)) is None
    assert common_box((), ()) == ()


def test_a_part_of_an_array_is_a_view() -> None:
    array = np.arange(12).reshape(3, 4)
    part = part_of(array, ((11, 12), (2, 4)), ((10, 13), (0, 4)))
    assert part.tolist() == [[6, 7]]
    assert part.base is not None
    assert part_of(np.array(3), (), ()).shape == ()
    assert whole_slicing().ranks == 1
