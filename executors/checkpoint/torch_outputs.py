"""Torch's distributed checkpoints as new files: `.metadata` and `__0_0.distcp`, ...

Each part of a tensor is written once, as torch does: by the one of its ranks that has least to
write. Whoever loads the checkpoint finds it, on any number of ranks and with any layout.

Source: PyTorch 2.13, `torch/distributed/checkpoint/metadata.py`, `filesystem.py`, `planner.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from executors.checkpoint.entries import CheckpointFile, Entry, Segment, entry_bytes
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.outputs import Output
from executors.checkpoint.pairing import Wanted
from executors.checkpoint.pickles import Called, Global, Made, Stored, Value, pickled
from executors.checkpoint.torch_archive import archive_of
from executors.checkpoint.torch_distributed import DTYPES, METADATA, STORAGES
from ir.slicing import Box, Slices, box_dims, common_box

_NAMES = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})
_CHECKPOINT = "torch.distributed.checkpoint"


def stored_once(wanted: Sequence[Wanted], ranks: int) -> tuple[Wanted, ...]:
    """The same tensors, each part with the one rank that writes it; parts of no element left out.

    Where stages keep a tensor in different parts, those of the first one are written.

    Args:
        wanted: all tensors.
        ranks: of the new checkpoint.

    Raises:
        CheckpointError: a part of a tensor is on no rank.
    """
    load = [0] * ranks
    return tuple(replace(each, slices=_disjoint(each, load)) for each in wanted)


def _disjoint(wanted: Wanted, load: list[int]) -> Slices:
    """Parts that tile a tensor, each with the rank that has least to write so far."""
    dims = wanted.slices.dims
    total = math.prod(dims)
    overlap = sum(math.prod(box_dims(box)) for box in wanted.slices.boxes) > total
    boxes: list[Box] = []
    owners: list[tuple[int, ...]] = []
    for box, held in zip(wanted.slices.boxes, wanted.slices.ranks, strict=True):
        nbytes = entry_bytes(wanted.dtype, box_dims(box))
        is_first = not boxes and not total
        known = overlap and any(common_box(box, other) for other in boxes)
        if is_first or (nbytes and not known):
            rank = min(held, key=lambda rank: (load[rank], rank))
            load[rank] += nbytes
            boxes.append(box)
            owners.append((rank,))
    if sum(math.prod(box_dims(box)) for box in boxes) != total:
        what = f"a part of {wanted.name!r} would be on no rank"
        fix = "torch's checkpoints hold all of a tensor: name ranks that keep every part"
        raise CheckpointError(what, "--like", fix)
    return Slices(dims, tuple(boxes), tuple(owners))


def distributed_outputs(wanted: Sequence[Wanted], ranks: int) -> tuple[Output, ...]:
    """A file for each rank, and behind them `.metadata`.

    Args:
        wanted: tensors of which each part has one rank (`stored_once`).
        ranks: of the new checkpoint.

    Raises:
        CheckpointError: torch has no such element type.
    """
    files = [_File(rank) for rank in range(ranks)]
    places: dict[Value, Value] = {}
    tensors: dict[Value, Value] = {}
    for each in wanted:
        if each.dtype not in _NAMES:
            what, fix = f"torch has no type {each.dtype}", "leave it out with --weights-only"
            raise CheckpointError(what, f"tensor {each.name!r}", fix)
        tensors[each.name] = _tensor(each)
        parts = zip(each.slices.boxes, each.slices.ranks, strict=True)
        for index, (box, (rank,)) in enumerate(parts):
            place = files[rank].add(each.name, each.dtype, box_dims(box))
            offset = _size(tuple(first for first, _ in box))
            state: Value = {"fqn": each.name, "offset": offset, "index": index}
            places[Made(Global(f"{_CHECKPOINT}.metadata", "MetadataIndex"), state)] = place
    text = _metadata(tensors, places)
    metadata = CheckpointFile(Path(METADATA), "distcp", len(text), {})
    return (*(file.output() for file in files), Output(ranks, metadata, ((0, text),)))


class _File:
    """One file that grows, an archive behind the other."""

    def __init__(self, rank: int) -> None:
        self.rank, self.size = rank, 0
        self.entries: dict[str, Entry] = {}
        self.frames: list[tuple[int, bytes]] = []
        self.checksums: dict[str, tuple[int, ...]] = {}

    @property
    def path(self) -> Path:
        return Path(f"__{self.rank}_0.distcp")

    def add(self, name: str, dtype: str, dims: tuple[int, ...]) -> Value:
        """Append a tensor; returns what the metadata say of its place."""
        nbytes, base = entry_bytes(dtype, dims), self.size
        archive = archive_of(_description(dtype, dims), nbytes)
        segment = Segment(base + archive.content, 0, nbytes)
        self.entries[name] = Entry(name, dtype, dims, (segment,))
        self.frames += [(base + at, frame) for at, frame in archive.frames]
        self.checksums[name] = tuple(base + at for at in archive.checksums)
        self.size += archive.nbytes
        state: Value = {"relative_path": str(self.path), "offset": base, "length": archive.nbytes}
        return Made(Global(f"{_CHECKPOINT}.filesystem", "_StorageInfo"), state)

    def output(self) -> Output:
        file = CheckpointFile(self.path, "distcp", self.size, self.entries)
        return Output(self.rank, file, tuple(self.frames), self.checksums)


def _description(dtype: str, dims: tuple[int, ...]) -> bytes:
    """The pickle of one tensor, whose elements are the record `data/0`."""
    strides = tuple(math.prod(max(size, 1) for size in dims[i + 1 :]) for i in range(len(dims)))
    hooks = Called(Global("collections", "OrderedDict"), ())
    if dtype in STORAGES:
        kind, count = Global("torch", f"{STORAGES[dtype]}Storage"), math.prod(dims)
    else:
        kind, count = Global("torch.storage", "UntypedStorage"), entry_bytes(dtype, dims)
    storage = Stored(("storage", kind, "0", "cpu", count))
    common: tuple[Value, ...] = (storage, 0, dims, strides, False, hooks)
    if dtype in STORAGES:
        return pickled(Called(Global("torch._utils", "_rebuild_tensor_v2"), common))
    arguments = (*common, Global("torch", _NAMES[dtype]))
    return pickled(Called(Global("torch._utils", "_rebuild_tensor_v3"), arguments))


def _tensor(wanted: Wanted) -> Value:
    layout = Called(Global("torch.serialization", "_get_layout"), ("torch.strided",))
    encoding = Called(Global(f"{_CHECKPOINT}.metadata", "_MEM_FORMAT_ENCODING"), (0,))
    dtype = Global("torch", _NAMES[wanted.dtype])
    kind = Global(f"{_CHECKPOINT}.metadata", "TensorProperties")
    state: Value = {
        "properties": Made(kind, (dtype, layout, False, encoding, False)),
        "size": _size(wanted.slices.dims),
        "chunks": [_chunk(box) for box in wanted.slices.boxes],
    }
    return Made(Global(f"{_CHECKPOINT}.metadata", "TensorStorageMetadata"), state)


def _chunk(box: Box) -> Value:
    offsets = _size(tuple(first for first, _ in box))
    state: Value = {"offsets": offsets, "sizes": _size(box_dims(box))}
    return Made(Global(f"{_CHECKPOINT}.metadata", "ChunkStorageMetadata"), state)


def _size(dims: tuple[int, ...]) -> Value:
    return Called(Global("torch", "Size"), (dims,))


def _metadata(tensors: dict[Value, Value], places: dict[Value, Value]) -> bytes:
    """A state dict without nested dicts: the path of a tensor in it is its name."""
    state: Value = {
        "state_dict_metadata": tensors,
        "planner_data": {name: (name,) for name in tensors},
        "storage_data": places,
        "storage_meta": None,
    }
    return pickled(Made(Global(f"{_CHECKPOINT}.metadata", "Metadata"), state))
