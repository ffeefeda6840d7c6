"""MindSpore's checkpoint tools read our strategy files and cut and merge as our plans say."""

from __future__ import annotations

import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]

ANY_FORM = pytest.mark.parametrize("form", ["strategy.ckpt", "strategy.json"])


def slices(case: Path, part: str) -> Arrays:
    """Parameters by name: `whole`, or as a rank keeps them."""
    with np.load(case / "slices.npz") as found:
        return {
            key.split("/", 1)[1]: found[key] for key in found.files if key.startswith(f"{part}/")
        }


def ranks(case: Path) -> range:
    return range(int(case.name.split("-")[1]))


def save(folder: Path, parameters: Arrays) -> None:
    folder.mkdir(parents=True)
    items = [{"name": name, "data": ms.Tensor(value)} for name, value in parameters.items()]
    ms.save_checkpoint(items, str(folder / "checkpoint.ckpt"))


def saved(folder: Path) -> Arrays:
    (file,) = folder.glob("*.ckpt")
    return {name: value.asnumpy() for name, value in ms.load_checkpoint(str(file)).items()}


def save_ranks(case: Path, folder: Path) -> None:
    for rank in ranks(case):
        save(folder / f"rank_{rank}", slices(case, str(rank)))


def assert_equal(found: Arrays, wanted: Arrays) -> None:
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].shape == value.shape, name
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@ANY_FORM
def test_the_strategy_is_read_as_it_was_written(case: Path, form: str) -> None:
    written = json.loads((case / "strategy.json").read_text())["parallel_layout_item"]
    found = ms.build_searched_strategy(str(case / form))
    assert set(found) == set(written) == set(slices(case, "whole"))
    for name, layout in found.items():
        (matrix,) = layout.dev_matrix
        (tensor_map,) = layout.tensor_map
        assert list(matrix.dim) == written[name]["dev_matrix"]
        assert list(tensor_map.dim) == written[name]["tensor_map"]
        assert layout.opt_weight_shard_size == written[name]["opt_weight_shard_size"]
        assert layout.opt_weight_shard_step == written[name]["opt_weight_shard_step"]


@ANY_FORM
def test_slices_of_the_plan_are_merged_to_the_whole(case: Path, form: str) -> None:
    strategy = ms.build_searched_strategy(str(case / form))
    kept = [slices(case, str(rank)) for rank in ranks(case)]
    for name, whole in slices(case, "whole").items():
        if strategy[name].opt_weight_shard_size:
            continue  # merge_sliced_parameter knows no optimizer shares; transform_checkpoints does
        parts = [ms.Parameter(ms.Tensor(each[name]), name=name) for each in kept]
        merged = ms.merge_sliced_parameter(parts, strategy)
        np.testing.assert_array_equal(merged.asnumpy(), whole, err_msg=name)


@ANY_FORM
def test_whole_parameters_are_cut_into_the_slices_of_the_plan(
    case: Path, form: str, tmp_path: Path
) -> None:
    save(tmp_path / "whole" / "rank_0", slices(case, "whole"))
    ms.transform_checkpoints(
        str(tmp_path / "whole"), str(tmp_path / "cut"), "cut", None, str(case / form)
    )
    for rank in ranks(case):
        assert_equal(saved(tmp_path / "cut" / f"rank_{rank}"), slices(case, str(rank)))


@ANY_FORM
def test_slices_of_the_plan_become_whole_again(case: Path, form: str, tmp_path: Path) -> None:
    save_ranks(case, tmp_path / "cut")
    ms.transform_checkpoints(
        str(tmp_path / "cut"), str(tmp_path / "whole"), "whole", str(case / form), None
    )
    assert_equal(saved(tmp_path / "whole" / "rank_0"), slices(case, "whole"))


@ANY_FORM
def test_slices_for_fewer_devices_are_those_of_the_other_plan(
    pair: tuple[Path, Path], form: str, tmp_path: Path
) -> None:
    source, target = pair
    save_ranks(source, tmp_path / "source")
    files = str(source / form), str(target / form)
    ms.transform_checkpoints(str(tmp_path / "source"), str(tmp_path / "target"), "t", *files)
    for rank in ranks(target):
        assert_equal(saved(tmp_path / "target" / f"rank_{rank}"), slices(target, str(rank)))


@ANY_FORM
def test_the_ranks_that_hold_what_a_new_rank_needs_are_found(
    pair: tuple[Path, Path], form: str
) -> None:
    source, target = pair
    for rank in ranks(target):
        wanted = ms.rank_list_for_transform(rank, str(source / form), str(target / form))
        assert wanted
        assert set(wanted) <= set(ranks(source))
