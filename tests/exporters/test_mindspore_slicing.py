"""Slices of MindSpore's layouts, held against its rules as the tests write them down."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.mindspore.slicing import strategy_slicing
from exporters.mindspore.strategy import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyFileError,
    StrategyItem,
)
from tests.exporters.mindspore_rules import resting_slices

ITEM = StrategyItem("MatMul_w", 0, ((1, 1), (1, 1)))


def file(*layouts: ParameterLayout) -> StrategyCheckpoint:
    return StrategyCheckpoint(1, (ITEM,), layouts)


@st.composite
def layouts(draw: st.DrawFn) -> ParameterLayout:
    drawn: list[int] = draw(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3))
    matrix = tuple(drawn)
    rank = draw(st.integers(1, 3))
    axes = draw(st.permutations(range(len(matrix))))
    cuts = [draw(st.sampled_from([axis, -1])) for axis in axes[:rank]]
    tensor_map = tuple(cuts + [-1] * (rank - len(cuts)))
    size = step = 0
    repeated = [a for a in range(len(matrix)) if len(matrix) - 1 - a not in tensor_map]
    is_shared: bool = draw(st.booleans())
    if repeated and is_shared:
        step = math.prod(matrix[repeated[-1] + 1 :])
        size = math.prod(matrix[a] for a in repeated[draw(st.integers(0, len(repeated) - 1)) :])
    shape = tuple(
        draw(st.integers(1, 2)) * (size or 1 if i == 0 else 1)
        * (1 if axis == -1 else matrix[len(matrix) - 1 - axis])
        for i, axis in enumerate(tensor_map)
    )  # fmt: skip
    return ParameterLayout(
        "w", matrix, tensor_map, shape, opt_weight_shard_step=step, opt_weight_shard_size=size
    )


@given(layouts())
def test_slices_are_those_of_mindspores_rules(layout: ParameterLayout) -> None:
    slicing = strategy_slicing(file(layout))
    (grid,) = slicing.grids["w"]
    assert layout.tensor_shape is not None
    found = [grid.box(rank, layout.tensor_shape) for rank in grid.ranks]
    assert found == resting_slices(layout)
    assert slicing.ranks == math.prod(layout.device_matrix)


def test_a_part_of_an_axis_is_shared_by_the_inner_ranks() -> None:
    layout = ParameterLayout(
        "w", (8, 2), (0, -1), (16, 4), opt_weight_shard_step=2, opt_weight_shard_size=4
    )
    (grid,) = strategy_slicing(file(layout)).grids["w"]
    assert (grid.sizes, grid.dims) == ((2, 4, 2), ((2, 1), ()))
    every = ParameterLayout(
        "w", (8, 2), (0, -1), (16, 4), opt_weight_shard_step=2, opt_weight_shard_size=-1
    )
    (grid,) = strategy_slicing(file(every)).grids["w"]
    assert (grid.sizes, grid.dims) == ((8, 2), ((1, 0), ()))


def test_several_axes_of_one_dimension_are_outermost_first() -> None:
    layout = ParameterLayout("w", (8, 2, 4), ((2,), (1, 0)), (512, 1024))
    (grid,) = strategy_slicing(file(layout)).grids["w"]
    assert grid.dims == ((0,), (1, 2))


def test_stages_have_ranks_of_their_own() -> None:
    slicing = strategy_slicing(
        file(
            ParameterLayout("0-a", (2,), (0,), (4,)),
            ParameterLayout("1-b", (2,), (0,), (4,)),
            ParameterLayout("1-a", (2,), (-1,), (4,)),
        )
    )
    assert slicing.ranks == 4
    assert [grid.first_rank for grid in slicing.grids["a"]] == [0, 2]
    assert [list(grid.ranks) for grid in slicing.grids["b"]] == [[2, 3]]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((), "holds no layouts"),
        ((ParameterLayout("1-a", (2,), (0,), (4,)),), "the stages of the strategy file are 1"),
        (
            (ParameterLayout("a", (2,), (0,)), ParameterLayout("b", (4,), (0,))),
            "'a' lies on 2 ranks, 'b' on 4",
        ),
        ((ParameterLayout("a", (2**21,), (0,)),), "layouts over 2097152 ranks"),
        ((ParameterLayout("a", (2,), (0,), field=3),), "cut by fields or by hand"),
        (
            (ParameterLayout("a", (2,), (0,), (4,), 0, 1, 2),),
            "the optimizer's share of 2 does not fit",
        ),
        (
            (ParameterLayout("a", (6, 2), (0,), (24,), 0, 2, 4),),
            "the optimizer's share of 4 does not fit",
        ),
    ],
)
def test_what_no_files_can_have_is_refused(
    found: tuple[ParameterLayout, ...], message: str
) -> None:
    with pytest.raises(StrategyFileError, match="at:") as caught:
        strategy_slicing(file(*found))
    assert message in str(caught.value)
