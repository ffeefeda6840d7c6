"""MindSpore's own tools make the same of a checkpoint as `planner reshard` does, bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore.train import checkpoint_pb2

from executors.checkpoint import ckpt as declared
from executors.checkpoint.ckpt import laid_out_ckpt

Arrays = dict[str, Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`moved` is each folder that `write_checkpoints` made; `unstaged` is one without stages,
    `sliced` one whose slices are all in .ckpt and without stages.
    """
    cases: Path = metafunc.config.getoption("--cases")
    folders = sorted(cases.with_name(f"{cases.name}-checkpoints").iterdir())
    assert folders
    plain = [p for p in folders if "x" not in p.name.split("-")[0]]
    chosen = {
        "moved": folders,
        "unstaged": plain,
        "sliced": [p for p in plain if p.name.endswith("-ckpt")],
    }
    for name, found in chosen.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, found, ids=lambda p: p.name)


def saved(path: Path) -> Arrays:
    """Bits of every tensor, with its type and dims."""
    form = path.suffix[1:]
    found = ms.load_checkpoint(str(path), format=form)
    return {name: bits(value) for name, value in found.items()}


def bits(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(value.dtype), tuple(value.shape), bytes(value.get_bytes())


def file_of(rank: Path) -> Path:
    (found,) = [p for p in rank.iterdir() if p.suffix in {".ckpt", ".safetensors"}]
    return found


# Output always as .ckpt: into safetensors the package writes slices that are not consecutive in
# memory as if they were, so that every row after the first is wrong (MindSpore 2.10.0 with
# safetensors 0.8.0).
def test_transform_checkpoints_makes_the_same_slices(moved: Path, tmp_path: Path) -> None:
    ms.transform_checkpoints(
        str(moved / "in"), str(tmp_path / "out"), "t",
        str(moved / "source.ckpt"), str(moved / "target.ckpt"), output_format="ckpt",
    )  # fmt: skip
    ours = sorted((moved / "out").glob("rank_*"))
    assert len(ours) == len(list((tmp_path / "out").glob("rank_*")))
    for rank in ours:
        assert saved(file_of(rank)) == saved(file_of(tmp_path / "out" / rank.name)), rank.name


def test_transform_checkpoints_makes_the_same_whole(moved: Path, tmp_path: Path) -> None:
    ms.transform_checkpoints(
        str(moved / "in"), str(tmp_path / "out"), "t", str(moved / "source.json"), None,
        output_format="ckpt",
    )  # fmt: skip
    theirs = saved(file_of(tmp_path / "out" / "rank_0"))
    assert saved(file_of(moved / "whole")) == theirs


def test_no_more_ranks_are_named_than_mindspore_names(sliced: Path) -> None:
    strategies = str(sliced / "source.ckpt"), str(sliced / "target.ckpt")
    for rank, sources in json.loads((sliced / "rank_list.json").read_text()).items():
        assert len(sources) <= len(ms.rank_list_for_transform(int(rank), *strategies))


def test_merge_sliced_parameter_makes_the_same_whole(unstaged: Path) -> None:
    strategy = ms.build_searched_strategy(str(unstaged / "source.ckpt"))
    ranks = sorted((unstaged / "in").iterdir(), key=lambda p: int(p.name[5:]))
    held = [ms.load_checkpoint(str(file_of(r)), format=file_of(r).suffix[1:]) for r in ranks]
    whole = saved(file_of(unstaged / "whole"))
    for name in strategy:
        if strategy[name].opt_weight_shard_size or held[0][name].dtype == ms.bfloat16:
            continue  # it knows neither optimizer shares nor bfloat16
        parts = [ms.Parameter(ms.Tensor(each[name].asnumpy()), name=name) for each in held]
        merged = ms.merge_sliced_parameter(parts, strategy)
        assert bits(merged) == whole[name], name


def network(whole: Arrays, names: list[str]) -> ms.nn.Cell:
    """Parameters of these names, dims and types, full of zeros."""

    class Net(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            for name in names:
                zeros = np.zeros(whole[name].shape, whole[name].asnumpy().dtype)
                self.insert_param_to_cell(name.replace(".", "_"), ms.Parameter(zeros, name=name))

    return Net()


@pytest.mark.parametrize("part", ["whole", "out/rank_0"])
def test_load_distributed_checkpoint_loads_the_same(sliced: Path, part: str) -> None:
    """For one card, and for the first rank of the prediction's layout."""
    ranks = sorted((sliced / "in").iterdir(), key=lambda p: int(p.name[5:]))
    ours = ms.load_checkpoint(str(file_of(sliced / part)))
    source, target = (
        ms.build_searched_strategy(str(sliced / f"{name}.ckpt")) for name in ("source", "target")
    )
    names = [n for n in source if not source[n].opt_weight_shard_size]
    names = [n for n in names if ours[n].dtype != ms.bfloat16]
    names = [n for n in names if not target[n].opt_weight_shard_size]
    layout = {
        n: [list(target[n].dev_matrix[0].dim), list(target[n].tensor_map[0].dim), [], 0, True, ""]
        for n in names
    }
    net = network(ours, names)
    files = [str(file_of(rank)) for rank in ranks]
    predict = None if part == "whole" else layout
    ms.load_distributed_checkpoint(net, files, predict, str(sliced / "source.ckpt"))
    assert {p.name: bits(p) for p in net.get_parameters()} == {n: bits(ours[n]) for n in names}


def test_the_message_has_the_numbers_of_the_descriptor() -> None:
    value = checkpoint_pb2.Checkpoint.Value.DESCRIPTOR.fields_by_name
    tensor = checkpoint_pb2.TensorProto.DESCRIPTOR.fields_by_name
    root = checkpoint_pb2.Checkpoint.DESCRIPTOR.fields_by_name
    assert root["value"].number == declared.VALUE
    assert (value["tag"].number, value["tensor"].number, value["maptensor"].number) == (
        declared.TAG, declared.TENSOR, declared.MAP_TENSOR,
    )  # fmt: skip
    assert (tensor["dims"].number, tensor["tensor_type"].number) == (declared.DIMS, declared.TYPE)
    assert tensor["tensor_content"].number == declared.CONTENT


def test_a_file_has_the_very_bytes_that_mindspore_writes(tmp_path: Path) -> None:
    arrays: Arrays = {
        "a.weight": np.arange(24, dtype=np.float32).reshape(4, 6),
        "half": np.arange(5, dtype=np.float16),
        "step": np.array(3, np.int64),
        "flag": np.array([True, False]),
    }
    items = [{"name": n, "data": ms.Tensor(a)} for n, a in arrays.items()]
    ms.save_checkpoint(items, str(tmp_path / "theirs.ckpt"))
    tensors = [(n, a.dtype.name, a.shape) for n, a in arrays.items()]
    file, frames = laid_out_ckpt(tmp_path / "ours.ckpt", tensors)
    ours = bytearray(file.size)
    for offset, frame in frames:
        ours[offset : offset + len(frame)] = frame
    for name, array in arrays.items():
        (place,) = file.entries[name].segments
        ours[place.offset : place.offset + place.nbytes] = array.tobytes()
    assert bytes(ours) == (tmp_path / "theirs.ckpt").read_bytes()
