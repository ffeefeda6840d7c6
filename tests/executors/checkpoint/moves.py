"""Moves of checkpoints made from arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from executors.checkpoint import moving
from executors.checkpoint.copying import MOST_TILE_BYTES
from executors.checkpoint.moving import Move, Outcome, carry_out
from executors.checkpoint.outputs import planned_outputs
from executors.checkpoint.pairing import Request, wanted_tensors
from executors.checkpoint.source import read_source
from executors.checkpoint.tensors import source_tensors
from executors.checkpoint.torch_outputs import distributed_outputs, stored_once
from ir.slicing import Grid, Slicing
from tests.executors.checkpoint.files import Arrays, write_ranks

MEMORY_BYTES = 2**36
"""No limit: what earlier tests of this process left behind counts too."""


def slicing(grids: Mapping[str, Grid | Sequence[Grid]], origin: str = "the layout") -> Slicing:
    listed = {n: (g,) if isinstance(g, Grid) else tuple(g) for n, g in grids.items()}
    ranks = max(grid.ranks.stop for each in listed.values() for grid in each)
    return Slicing(origin, ranks, listed)


def ranges(grid: Grid, rank: int, dims: Sequence[int]) -> tuple[slice, ...]:
    """What a rank keeps, counted out place by place; nothing of `ir.slicing` has a part in it."""
    places = list(itertools.product(*(range(size) for size in grid.sizes)))
    place = places[rank - grid.first_rank]
    out = []
    for size, axes in zip(dims, grid.dims, strict=True):
        indices = list(range(size))
        for axis in axes:
            count = grid.sizes[axis]
            step = -(-len(indices) // count) if len(axes) == 1 else len(indices) // count
            indices = indices[place[axis] * step : (place[axis] + 1) * step]
        out.append(slice(indices[0], indices[-1] + 1) if indices else slice(0, 0))
    return tuple(out)


def cut(whole: Mapping[str, NDArray[Any]], layout: Slicing) -> list[Arrays]:
    """The slices of every rank; what no layout names is on all of them."""
    out: list[Arrays] = [{} for _ in range(layout.ranks)]
    for name, array in whole.items():
        grids = layout.grids.get(name)
        for rank in range(layout.ranks):
            if grids is None:
                out[rank][name] = array
            for grid in grids or ():
                if rank in grid.ranks:
                    part = array[ranges(grid, rank, array.shape)]
                    out[rank][name] = np.ascontiguousarray(part).reshape(part.shape)
    return out


def planned(
    path: Path, layout: Slicing, request: Request, form: str = "", name: str = "checkpoint"
) -> Move:
    source = read_source(path)
    wanted = wanted_tensors(source_tensors(source, layout), request)
    first = source.files[0]
    if form == "distcp":
        wanted = stored_once(wanted, request.ranks)
        return Move(source, wanted, distributed_outputs(wanted, request.ranks))
    outputs = planned_outputs(wanted, request.ranks, form or first.form, first.metadata, name)
    return Move(source, wanted, outputs)


def move(
    path: Path,
    layout: Slicing,
    request: Request,
    out: Path,
    form: str = "",
    tile_bytes: int = MOST_TILE_BYTES,
) -> Outcome:
    todo = planned(path, layout, request, form)
    with patch.object(moving, "MOST_TILE_BYTES", tile_bytes):
        return carry_out(todo, out, memory_bytes=MEMORY_BYTES, report=lambda done, total: None)


def saved(folder: Path, whole: Mapping[str, NDArray[Any]], layout: Slicing, suffix: str) -> Path:
    return write_ranks(folder, cut(whole, layout), suffix)
