"""What holds for every layout, element type and shape."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from executors.checkpoint.pairing import Request, needs
from executors.checkpoint.source import read_source
from ir.slicing import Grid, Slicing, box_dims, whole_slicing
from ir.transfers import traffic
from tests.executors.checkpoint.files import BFLOAT16, assert_same, read_ranks
from tests.executors.checkpoint.moves import cut, move, planned, saved, slicing

DTYPES = [np.dtype(d) for d in ("f4", "f2", "f8", "i8", "i4", "u1", "?")] + [BFLOAT16]
SIZES = [(), (2,), (4,), (2, 2), (2, 3), (3, 2, 2)]
FORMS = st.sampled_from(["safetensors", "ckpt"])


@st.composite
def grids(draw: st.DrawFn, rank: int, sizes: tuple[int, ...]) -> tuple[Grid, tuple[int, ...]]:
    """A grid of these axes for so many dimensions, and a divisor for each of these."""
    cuts: list[list[int]] = [[] for _ in range(rank)]
    for axis in draw(st.permutations(range(len(sizes)))):
        dim = draw(st.integers(-1, rank - 1))
        if dim >= 0:
            cuts[dim].append(axis)
    grid = Grid(sizes, tuple(tuple(axes) for axes in cuts))
    return grid, grid.counts


@st.composite
def moves(draw: st.DrawFn) -> tuple[dict[str, NDArray[Any]], Slicing, Slicing]:
    """Tensors of odd shapes and any types, with two layouts on different numbers of ranks."""
    first, second = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    whole, old, new = {}, {}, {}
    for index in range(draw(st.integers(1, 3))):
        rank = draw(st.integers(0, 3))
        one, counts = draw(grids(rank, first))
        two, others = draw(grids(rank, second))
        dims = tuple(
            math.lcm(a, b) * draw(st.integers(1, 5)) for a, b in zip(counts, others, strict=True)
        )
        dtype = draw(st.sampled_from(DTYPES))
        noise = np.random.default_rng(index).integers(0, 2, math.prod(dims) * 16, np.uint8)
        name = f"layers.{index}.weight"
        whole[name] = noise[: math.prod(dims) * dtype.itemsize].view(dtype).reshape(dims)
        old[name], new[name] = one, two
    return whole, slicing(old, "the old layout"), slicing(new, "the new layout")


@given(moves(), FORMS, FORMS, st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_there_and_back_is_the_same_and_between_lie_the_slices(
    given_move: tuple[dict[str, NDArray[Any]], Slicing, Slicing],
    form: str,
    other: str,
    tile_bytes: int,
) -> None:
    whole, old, new = given_move
    with tempfile.TemporaryDirectory(dir=_memory()) as text:
        root = Path(text)
        first = saved(root / "first", whole, old, f".{form}")
        move(first, old, Request(new), root / "second", other, tile_bytes)
        for found, wanted in zip(read_ranks(root / "second"), cut(whole, new), strict=True):
            assert_same(found, wanted)
        move(root / "second", new, Request(old), root / "third", form)
        for found, wanted in zip(read_ranks(root / "third"), cut(whole, old), strict=True):
            assert_same(found, wanted)


@given(moves(), FORMS, st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_what_lies_in_a_form_of_torch_is_the_same_afterwards(
    given_move: tuple[dict[str, NDArray[Any]], Slicing, Slicing], form: str, tile_bytes: int
) -> None:
    whole, old, new = given_move
    with tempfile.TemporaryDirectory(dir=_memory()) as text:
        root = Path(text)
        first = saved(root / "first", whole, old, f".{form}")
        move(first, old, Request(new), root / "second", "distcp", tile_bytes)
        held = sum(
            math.prod(box_dims(box)) * array.itemsize
            for name, array in whole.items()
            for box in read_source(root / "second").chunked[name].boxes
        )
        assert held == sum(array.nbytes for array in whole.values())
        move(root / "second", whole_slicing(), Request(old), root / "third", form)
        for found, wanted in zip(read_ranks(root / "third"), cut(whole, old), strict=True):
            assert_same(found, wanted)


@given(moves())
@settings(max_examples=60, deadline=None)
def test_a_rank_receives_what_it_needs_less_what_it_has(
    given_move: tuple[dict[str, NDArray[Any]], Slicing, Slicing],
) -> None:
    whole, old, new = given_move
    wanted_bytes = 0
    for name, array in whole.items():
        marks = np.arange(array.size).reshape(array.shape)
        held = [set(each[name].flat) for each in cut({name: marks}, old)]
        needed = [set(each[name].flat) for each in cut({name: marks}, new)]
        for rank, indices in enumerate(needed):
            own = held[rank] if rank < len(held) else set()
            wanted_bytes += len(indices - own) * array.itemsize
    with tempfile.TemporaryDirectory(dir=_memory()) as text:
        path = saved(Path(text) / "in", whole, old, ".safetensors")
        found = traffic(needs(planned(path, old, Request(new)).wanted))
    assert found.moved_bytes == wanted_bytes
    assert not found.lost


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        # Rows over 4 ranks to rows over 2: rank 0 lacks one quarter, rank 1 both of its quarters.
        (Grid((4,), ((0,), ())), Grid((2,), ((0,), ())), 3 / 4),
        # Back: rank 0 has its quarter, the other three lack theirs but what half 1 has of them.
        (Grid((2,), ((0,), ())), Grid((4,), ((0,), ())), 3 / 4),
        # Rows to columns over n ranks: each has 1/n of its new n-th.
        (Grid((4,), ((0,), ())), Grid((4,), ((), (0,))), 3 / 4),
        # n to whole: n - 1 slices come in.
        (Grid((4,), ((0,), ())), Grid((1,), ((), ())), 3 / 4),
        # A 2 x 2 square turned: ranks 1 and 2 change places.
        (Grid((2, 2), ((0,), (1,))), Grid((2, 2), ((1,), (0,))), 1 / 2),
        # 4 x 2 on 8 ranks to 2 x 2 on 4: ranks 0 and 1 have half of their quarter, 2 and 3 none.
        (Grid((4, 2), ((0,), (1,))), Grid((2, 2), ((0,), (1,))), 1 - 2 / 8),
        # Whole copies everywhere: nothing moves.
        (Grid((4,), ((), ())), Grid((2,), ((0,), ())), 0),
    ],
)
def test_bytes_moved_are_those_of_the_closed_form(
    folder: Path, old: Grid, new: Grid, share: float
) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    before, after = slicing({"w": old}), slicing({"w": new})
    path = saved(folder / "in", {"w": array}, before, ".safetensors")
    found = traffic(needs(planned(path, before, Request(after)).wanted))
    assert found.moved_bytes == share * array.nbytes


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
