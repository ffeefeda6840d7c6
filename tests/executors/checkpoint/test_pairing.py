"""Names, parts, turned matrices, states, ties and types on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.pairing import Rename, Request
from ir.slicing import Grid, whole_slicing
from tests.executors.checkpoint.files import BFLOAT16, assert_same, read_ranks
from tests.executors.checkpoint.moves import cut, move, saved, slicing

pytestmark = pytest.mark.fast

Arrays = dict[str, NDArray[Any]]
ROWS, COLUMNS = Grid((2,), ((0,), ())), Grid((2,), ((), (0,)))
DRAW = np.random.default_rng(4)
W: NDArray[Any] = DRAW.standard_normal((6, 12), dtype=np.float32)
V: NDArray[Any] = DRAW.standard_normal((6, 12), dtype=np.float32)


def check(root: Path, request: Request, given: tuple[Arrays, Any], wanted: Arrays) -> None:
    """Moves, and holds every rank's slices against those of the wanted arrays."""
    whole, layout = given
    path = saved(root / "in", whole, layout, ".safetensors")
    move(path, layout, request, root / "out", tile_bytes=100)
    target = request.target or whole_slicing()
    for found, slices in zip(read_ranks(root / "out"), cut(wanted, target), strict=True):
        assert_same(found, slices)


def test_a_renamed_parameter_takes_its_states_with_it(folder: Path) -> None:
    given = {"a.w": W, "moment1.a.w": V, "a.w.exp_avg": V + 1, "b.w": V}
    wanted = {"x.w": W, "moment1.x.w": V, "x.w.exp_avg": V + 1, "b.w": V}
    old = slicing({"a.w": ROWS, "b.w": ROWS})
    target = slicing({"x.w": COLUMNS, "b.w": ROWS})
    path = saved(folder / "in", given, _with_states(old, given), ".safetensors")
    move(path, old, Request(target, renames=(Rename(("a.w",), ("x.w",)),)), folder / "out")
    layout = _with_states(target, wanted)
    for found, slices in zip(read_ranks(folder / "out"), cut(wanted, layout), strict=True):
        assert_same(found, slices)


def _with_states(layout: Any, names: Arrays) -> Any:
    grids = dict(layout.grids)
    for name in names:
        for parameter in layout.grids:
            if parameter in name:
                grids[name] = layout.grids[parameter]
    return slicing(grids)


def test_states_of_a_whole_checkpoint_are_sliced_as_their_parameters(folder: Path) -> None:
    given = {"w": W, "m.w": V, "w.rms": DRAW.standard_normal(6), "step": np.array(3)}
    path = saved(folder / "in", given, whole_slicing(), ".safetensors")
    move(path, whole_slicing(), Request(slicing({"w": COLUMNS})), folder / "out")
    layout = slicing({"w": COLUMNS, "m.w": COLUMNS})
    for found, slices in zip(read_ranks(folder / "out"), cut(given, layout), strict=True):
        assert_same(found, slices)


def test_a_turned_matrix_is_turned_slice_by_slice(folder: Path) -> None:
    request = Request(slicing({"x": COLUMNS}), renames=(Rename(("w",), ("x",), transpose=True),))
    check(folder, request, ({"w": W}, slicing({"w": Grid((3,), ((0,), ()))})), {"x": W.T.copy()})


def test_one_parameter_becomes_parts(folder: Path) -> None:
    rename = Rename(("qkv",), ("q", "k", "v"))
    target = slicing({"q": ROWS, "k": COLUMNS, "v": COLUMNS})
    parts = {n: np.ascontiguousarray(W[:, 4 * i : 4 * i + 4]) for i, n in enumerate("qkv")}
    layout = slicing({"qkv": Grid((2,), ((), (0,)))})
    check(folder, Request(target, renames=(rename,)), ({"qkv": W}, layout), parts)


def test_parts_become_one_parameter_and_are_turned(folder: Path) -> None:
    rename = Rename(("q", "k"), ("qk",), transpose=True, axis=0)
    target = slicing({"qk": COLUMNS})
    whole = {"q": W, "k": V}
    layout = slicing({"q": ROWS, "k": COLUMNS})
    wanted = {"qk": np.ascontiguousarray(np.concatenate([W, V], axis=0).T)}
    check(folder, Request(target, renames=(rename,)), (whole, layout), wanted)


def test_there_and_back_through_parts_is_the_same(folder: Path) -> None:
    path = saved(folder / "in", {"qkv": W}, whole_slicing(), ".safetensors")
    forth = Request(renames=(Rename(("qkv",), ("q", "k", "v"), transpose=True),))
    back = Request(renames=(Rename(("q", "k", "v"), ("qkv",), transpose=True, axis=0),))
    move(path, whole_slicing(), forth, folder / "parts")
    move(folder / "parts", whole_slicing(), back, folder / "out")
    (found,) = read_ranks(folder / "out")
    assert_same(found, {"qkv": W})


def test_a_tied_parameter_is_written_where_the_layout_wants_it(folder: Path) -> None:
    target = slicing({"embed": ROWS, "head": COLUMNS})
    request = Request(target, ties={"head": "embed"})
    check(folder, request, ({"embed": W}, slicing({"embed": ROWS})), {"embed": W, "head": W})


def test_without_a_tie_the_missing_tensor_is_named(folder: Path) -> None:
    target = slicing({"embed": ROWS, "head": COLUMNS})
    with pytest.raises(CheckpointError, match="the source has no 'head'"):
        check(folder, Request(target), ({"embed": W}, slicing({"embed": ROWS})), {})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_parameters_get_another_type_and_states_keep_theirs(folder: Path, dtype: str) -> None:
    given = {"w": W, "m.w": V, "ids": np.arange(4), "step": np.array(2.0)}
    target = slicing({"w": COLUMNS})
    path = saved(folder / "in", given, whole_slicing(), ".ckpt")
    move(path, whole_slicing(), Request(target, dtype=dtype), folder / "out")
    new = W.astype(BFLOAT16 if dtype == "bfloat16" else dtype)
    layout = slicing({"w": COLUMNS, "m.w": COLUMNS})
    for found, slices in zip(
        read_ranks(folder / "out"), cut(given | {"w": new}, layout), strict=True
    ):
        assert_same(found, slices)


def test_weights_alone(folder: Path) -> None:
    given = {"w": W, "m.w": V, "step": np.array(2)}
    old = slicing({"w": ROWS, "m.w": ROWS})
    path = saved(folder / "in", given, old, ".safetensors")
    target = slicing({"w": COLUMNS})
    move(path, slicing({"w": ROWS}), Request(target, weights_only=True), folder / "out")
    for found, slices in zip(read_ranks(folder / "out"), cut({"w": W}, target), strict=True):
        assert_same(found, slices)


def test_a_list_of_ranks_repeats_and_drops_copies(folder: Path) -> None:
    old = slicing({"w": Grid((2, 2), ((1,), ()))})
    given = {"w": W, "step": np.array(5)}
    path = saved(folder / "in", given, old, ".safetensors")
    move(path, old, Request(like=(2, 3)), folder / "one")
    move(folder / "one", slicing({"w": ROWS}), Request(like=(0, 1, 0, 1)), folder / "two")
    slices = cut(given, old)
    for found, wanted in zip(read_ranks(folder / "one"), slices[2:], strict=True):
        assert_same(found, wanted)
    for found, wanted in zip(read_ranks(folder / "two"), slices, strict=True):
        assert_same(found, wanted)


def test_experts_over_ranks_become_experts_over_fewer(folder: Path) -> None:
    experts = DRAW.standard_normal((8, 6, 4)).astype(np.float32)
    old = slicing({"experts": Grid((4, 2), ((0,), (1,), ()))})
    target = slicing({"experts": Grid((2, 2), ((0,), (), (1,)))})
    check(folder, Request(target), ({"experts": experts}, old), {"experts": experts})


@pytest.mark.parametrize(("size", "ranks"), [(7, 4), (5, 4), (9, 2), (1, 3)])
def test_slices_that_do_not_divide_are_the_last_ones_short(
    folder: Path, size: int, ranks: int
) -> None:
    array = DRAW.standard_normal((size, 3)).astype(np.float32)
    grid = Grid((ranks,), ((0,), ()))
    uneven = replace(slicing({"w": grid}), dims={"w": array.shape})
    path = saved(folder / "in", {"w": array}, whole_slicing(), ".safetensors")
    move(path, whole_slicing(), Request(uneven), folder / "cut")
    length = -(-size // ranks)
    for rank, found in enumerate(read_ranks(folder / "cut")):
        assert_same(found, {"w": array[rank * length : (rank + 1) * length]})
    move(folder / "cut", uneven, Request(), folder / "out", "ckpt")
    (again,) = read_ranks(folder / "out")
    assert_same(again, {"w": array})
    with pytest.raises(CheckpointError, match=f"of size {size} does not split {ranks} ways"):
        move(path, whole_slicing(), Request(slicing({"w": grid})), folder / "even")


def test_experts_apart_become_a_stack_over_ranks(folder: Path) -> None:
    apart = {f"e.{i}": DRAW.standard_normal((6, 4)).astype(np.float32) for i in range(4)}
    names = tuple(apart)
    old = slicing({name: Grid((2, 2), ((1,), ())) for name in names})
    target = slicing({"e": Grid((2, 3), ((0,), (1,), ()))})
    stack = np.stack([apart[name] for name in names])
    rename = Rename(names, ("e",), stack=True)
    check(folder, Request(target, renames=(rename,)), (apart, old), {"e": stack})
    back = Request(old, renames=(Rename(("e",), names, stack=True),))
    move(folder / "out", target, back, folder / "back", tile_bytes=64)
    for found, wanted in zip(read_ranks(folder / "back"), cut(apart, old), strict=True):
        assert_same(found, wanted)


def test_a_stack_is_turned_expert_by_expert(folder: Path) -> None:
    apart = {f"e.{i}": DRAW.standard_normal((6, 4)).astype(np.float32) for i in range(3)}
    rename = Rename(tuple(apart), ("e",), transpose=True, stack=True)
    stack = np.stack([np.ascontiguousarray(array.T) for array in apart.values()])
    target = slicing({"e": Grid((2,), ((), (0,), ()))})
    check(folder, Request(target, renames=(rename,)), (apart, whole_slicing()), {"e": stack})


def test_two_pipeline_stages_become_four(folder: Path) -> None:
    """Stages of two ranks become stages of one; the tied table is kept by the first and last."""
    given = {f"layers.{i}.w": DRAW.standard_normal((4, 6)).astype(np.float32) for i in range(4)}
    given["table"] = W
    old = slicing(
        {f"layers.{i}.w": Grid((2,), ((0,), ()), 2 * (i // 2)) for i in range(4)}
        | {"table": [ROWS, Grid((2,), ((), (0,)), 2)]}
    )
    new = slicing(
        {f"layers.{i}.w": Grid((1,), ((), ()), i) for i in range(4)}
        | {"table": [Grid((1,), ((), ())), Grid((1,), ((), ()), 3)]}
    )
    check(folder, Request(new), (given, old), given)
