"""The JSON form of a strategy file says the same as the other one, where it can be known."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.expanded import Fitted, fitted
from executors.checkpoint.pairing import Request
from exporters.mindspore.slicing import strategy_slicing
from exporters.mindspore.strategy import ParameterLayout, StrategyCheckpoint
from exporters.mindspore.strategy_json import from_json, to_json
from exporters.mindspore.strategy_protobuf import from_protobuf, to_protobuf
from ir.slicing import Slicing, box_dims, whole_slicing
from tests.executors.checkpoint.files import assert_same, read_ranks
from tests.executors.checkpoint.moves import cut, move, saved


@st.composite
def layouts(draw: st.DrawFn) -> ParameterLayout:
    """Dimensions cut by several axes, perhaps shared among the copies."""
    sizes: list[int] = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
    rank = draw(st.integers(1, 3))
    cuts: list[list[int]] = [[] for _ in range(rank)]
    copies = 1
    for axis in draw(st.permutations(range(len(sizes)))):
        dim = draw(st.integers(-1, rank - 1))
        if dim >= 0:
            cuts[dim].append(len(sizes) - 1 - axis)
        else:
            copies *= sizes[axis]
    share = -1 if copies > 1 and draw(st.booleans()) else 0
    shape = tuple(
        math.prod(sizes[-1 - axis] for axis in axes)
        * draw(st.integers(1, 3))
        * (copies if index == 0 else 1)
        for index, axes in enumerate(cuts)
    )
    return ParameterLayout(
        "w",
        tuple(sizes),
        tuple(tuple(axes) or (-1,) for axes in cuts),
        shape,
        opt_weight_shard_step=-share,
        opt_weight_shard_size=share,
    )


def both_forms(layout: ParameterLayout) -> tuple[Slicing, Slicing]:
    """As the JSON form has it, and as the other one has it."""
    checkpoint = StrategyCheckpoint(1, (), (layout,))
    other = from_protobuf(to_protobuf(checkpoint))
    return strategy_slicing(from_json(to_json(checkpoint))), strategy_slicing(other)


@given(layouts(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_both_forms_say_the_same_of_every_rank(layout: ParameterLayout, slices: bool) -> None:
    expanded, plain = both_forms(layout)
    dims = layout.tensor_shape
    assert dims is not None
    (wanted,) = plain.grids["w"]
    given_dims = box_dims(wanted.box(0, dims)) if slices else dims
    with contextlib.suppress(AmbiguousError):
        whole, (found,) = said(expanded, given_dims, slices=slices)
        assert whole == dims
        assert [found.box(r, dims) for r in found.ranks] == [
            wanted.box(r, dims) for r in wanted.ranks
        ]


class AmbiguousError(Exception):
    """Dimensions may belong together in more than one way."""


def said(slicing: Slicing, dims: tuple[int, ...], *, slices: bool) -> Fitted:
    try:
        return fitted(slicing, "w", dims, slices=slices)
    except CheckpointError as error:
        raise AmbiguousError from error


def test_slices_are_merged_and_cut_by_it(folder: Path) -> None:
    expanded, plain = both_forms(ParameterLayout("w", (2, 2, 3), ((2,), (1, 0)), (4, 18)))
    whole = {"w": np.arange(72, dtype=np.int32).reshape(4, 18)}
    source = saved(folder / "in", whole, plain, ".safetensors")
    move(source, expanded, Request(None), folder / "merged")
    (merged,) = read_ranks(folder / "merged")
    assert_same(merged, whole)
    move(folder / "merged", whole_slicing(), Request(expanded), folder / "cut")
    for found, wanted in zip(read_ranks(folder / "cut"), cut(whole, plain), strict=True):
        assert_same(found, wanted)


def test_the_dims_of_a_slice_say_which_belong_together() -> None:
    layout = ParameterLayout("w", (8, 2, 4), ((2,), (1, 0)), (512, 1024))
    expanded, plain = both_forms(layout)
    assert expanded.dims["w"] == (512, 2, 512)
    assert fitted(expanded, "w", (64, 128), slices=True) == ((512, 1024), plain.grids["w"])
    assert fitted(expanded, "w", (512, 1024), slices=False) == ((512, 1024), plain.grids["w"])


def test_what_may_belong_together_in_two_ways_is_an_error() -> None:
    layout = ParameterLayout("w", (2, 2, 2), ((2, 1), (0,)), (4, 6))
    expanded, _ = both_forms(layout)
    with pytest.raises(CheckpointError, match="belong together is not to be seen"):
        fitted(expanded, "w", (1, 3), slices=True)
    assert fitted(expanded, "w", (4, 6), slices=False)[0] == (4, 6)


def test_dims_of_another_model_are_left_to_the_check_of_dims() -> None:
    expanded, _ = both_forms(ParameterLayout("w", (2, 2), ((1, 0),), (8,)))
    assert fitted(expanded, "w", (7,), slices=True) == (expanded.dims["w"], expanded.grids["w"])
