"""Torch loads the distributed checkpoints that are written here, whole and on several ranks."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from executors.checkpoint.entries import CheckpointFile, Entry, Place, Segment, entry_bytes
from executors.checkpoint.moving import Move, carry_out
from executors.checkpoint.pairing import Request, wanted_tensors
from executors.checkpoint.source import Source
from executors.checkpoint.tensors import source_tensors
from executors.checkpoint.torch_distributed import DTYPES
from executors.checkpoint.torch_outputs import distributed_outputs, stored_once
from ir.slicing import Grid, Slicing, whole_slicing
from tests.executors.checkpoint.moves import MEMORY_BYTES, slicing

LAYOUTS = {
    "one file": None,
    "rows": Grid((4,), ((0,), ())),
    "rows that do not divide": Grid((5,), ((0,), ())),
    "columns, two copies": Grid((2, 2), ((), (0,))),
    "both, in the other order": Grid((2, 4), ((1,), (0,))),
    "two stages": (Grid((2,), ((0,), ())), Grid((2,), ((), (0,)), 2)),
}
DIMS = (24, 8)


def raw_source(folder: Path) -> tuple[Source, dict[str, bytes]]:
    """A tensor of each of torch's types, side by side in one file of nothing else."""
    entries: dict[str, Entry] = {}
    contents: dict[str, bytes] = {}
    position = 0
    for name in DTYPES:
        dtype = DTYPES[name]
        nbytes = entry_bytes(dtype, DIMS)
        noise = np.random.default_rng(len(entries)).integers(0, 2, nbytes, np.uint8)
        contents[name] = noise.tobytes()
        entries[name] = Entry(name, dtype, DIMS, (Segment(position, 0, nbytes),))
        position += nbytes
    path = folder / "raw"
    path.write_bytes(b"".join(contents.values()))
    file = CheckpointFile(path, "raw", position, entries)
    return Source(
        path, {0: {name: Place(file, entry) for name, entry in entries.items()}}
    ), contents


def written(folder: Path, layout: Slicing | None) -> tuple[Path, dict[str, bytes]]:
    source, contents = raw_source(folder)
    request = Request(layout)
    wanted = wanted_tensors(source_tensors(source, whole_slicing()), request)
    wanted = stored_once(wanted, request.ranks)
    todo = Move(source, wanted, distributed_outputs(wanted, request.ranks))
    carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=lambda done, total: None)
    return folder / "out", contents


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
@pytest.mark.parametrize("form", LAYOUTS)
def test_torch_loads_every_type_bit_by_bit(
    form: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    grid = LAYOUTS[form]
    layout = None
    if grid is not None:
        layout = replace(slicing(dict.fromkeys(DTYPES, grid)), dims=dict.fromkeys(DTYPES, DIMS))
    out, contents = written(tmp_path, layout)
    state = {name: torch.zeros(DIMS, dtype=getattr(torch, name)) for name in DTYPES}
    dcp.load(state, checkpoint_id=str(out), no_dist=True)
    for name, tensor in state.items():
        assert raw(tensor) == contents[name], name
    dcp_to_torch_save(str(out), str(tmp_path / "whole.pt"))
    whole = torch.load(tmp_path / "whole.pt")
    assert {name: raw(tensor) for name, tensor in whole.items()} == contents
    record_property("checks", f"{2 * len(contents)} tensors loaded by torch")


def raw(tensor: torch.Tensor) -> bytes:
    found: bytes = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    return found


def test_torch_loads_it_on_other_ranks(tmp_path: Path) -> None:
    out, contents = written(tmp_path, slicing(dict.fromkeys(DTYPES, Grid((4,), ((0,), ())))))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(loaded_on_two, (port, str(out), contents["float32"]), nprocs=2)


def loaded_on_two(rank: int, port: int, folder: str, content: bytes) -> None:
    """Each of two processes loads half of the columns."""
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state: dict[str, Any] = {"float32": distribute_tensor(torch.zeros(DIMS), mesh, [Shard(1)])}
    dcp.load(state, checkpoint_id=folder)
    found: DTensor = state["float32"]
    wanted = torch.frombuffer(bytearray(content), dtype=torch.float32).reshape(DIMS)
    assert raw(found.to_local()) == raw(wanted.chunk(2, 1)[rank])
    dist.destroy_process_group()
