"""Layouts: their shards tile the tensor, and what is no layout is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.layout import Layout, LayoutError, check_layout, replicated

pytestmark = pytest.mark.fast

SIZES = (2, 3, 4)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, tuple[int, ...]]:
    """A layout on a mesh of 2 x 3 x 4, and dims that it splits."""
    axes = draw(st.permutations(range(len(SIZES))))
    rank = draw(st.integers(1, 3))
    dims: list[list[int]] = [[] for _ in range(rank)]
    partial: list[int] = []
    for axis in axes:
        place = draw(st.integers(-2, rank - 1))
        if place >= 0:
            dims[place].append(axis)
        elif place == -2:
            partial.append(axis)
    layout = Layout(tuple(map(tuple, dims)), tuple(sorted(partial)))
    sizes = tuple(
        n * draw(st.integers(1, 3)) + draw(st.sampled_from([0, 0, 1])) for n in layout.shards(SIZES)
    )
    return layout, sizes


def shard_of(layout: Layout, dims: tuple[int, ...], place: tuple[int, ...]) -> tuple[slice, ...]:
    """The slice that the device at a place of the mesh has: the outermost axis varies slowest."""
    out: list[slice] = []
    for dim, axes, local in zip(dims, layout.dims, layout.local_dims(dims, SIZES), strict=True):
        index = 0
        for axis in axes:
            index = index * SIZES[axis] + place[axis]
        out.append(slice(min(dim, index * local), min(dim, (index + 1) * local)))
    return tuple(out)


@given(layouts())
def test_the_shards_tile_the_tensor(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, dims = case
    check_layout(layout, dims, SIZES)
    count = np.zeros(dims, int)
    for place in itertools.product(*map(range, SIZES)):
        count[shard_of(layout, dims, place)] += 1
    copies = math.prod(SIZES) // math.prod(layout.shards(SIZES))
    assert (count == copies).all()


@given(layouts())
def test_no_shard_is_larger_than_the_local_dims(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, dims = case
    local = layout.local_dims(dims, SIZES)
    assert all(
        size * n >= dim for size, n, dim in zip(local, layout.shards(SIZES), dims, strict=True)
    )
    assert all(
        (size - 1) * n < dim for size, n, dim in zip(local, layout.shards(SIZES), dims, strict=True)
    )


def test_a_replicated_tensor_is_whole() -> None:
    assert replicated(2).local_dims((4, 6), SIZES) == (4, 6)
    assert replicated(0).dims == ()


def test_a_layout_reads_as_people_write_it() -> None:
    layout = Layout(((0, 2), ()), (1,))
    assert str(layout) == "[0*2, -] +1"
    assert layout.named(("server", "ring", "card")) == "[server*card, -] +ring"


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (Layout(((0,),)), "1 dimensions"),
        (Layout(((0,), (0,))), "twice"),
        (Layout(((0, 0), ())), "twice"),
        (Layout(((0,), ()), (0,)), "twice"),
        (Layout(((3,), ())), "does not have"),
        (Layout(((-1,), ())), "does not have"),
        (Layout(((), ()), (9,)), "does not have"),
        (Layout(((1, 2), ())), "does not split 12 ways"),
    ],
)
def test_what_is_no_layout_of_the_tensor_is_refused(layout: Layout, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        check_layout(layout, (4, 6), SIZES)


def test_pieces_in_the_midst_of_a_redistribution_are_no_axis() -> None:
    layout = Layout(((-2, 0), ()))
    assert layout.split_axes == (0,)
    assert layout.shards((4,)) == (4, 1)
    assert layout.named(("card",)) == "[/2*card, -]"
