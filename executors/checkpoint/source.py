"""The files of a checkpoint, rank by rank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from executors.checkpoint.ckpt import read_ckpt
from executors.checkpoint.entries import CheckpointFile, Chunked, Place
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.safetensors import read_safetensors
from executors.checkpoint.torch_distributed import METADATA, read_distributed

READERS = MappingProxyType({".safetensors": read_safetensors, ".ckpt": read_ckpt})
_RANK = re.compile(r"rank_?(\d{1,7})(?!\d)")
_FIX = "name a file, or a folder with rank_0, rank_1, ... or with the files of a whole model"


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint as it lies on disk; nothing in it is changed."""

    path: Path
    places: Mapping[int, Mapping[str, Place]]
    """By rank and name."""
    chunked: Mapping[str, Chunked] = field(default_factory=lambda: MappingProxyType({}))
    """Tensors by name, in place of `places`, in a distributed checkpoint of torch."""

    @property
    def files(self) -> tuple[CheckpointFile, ...]:
        """Every file once, rank by rank."""
        held = [place for places in self.places.values() for place in places.values()]
        held += [place for chunked in self.chunked.values() for place in chunked.places]
        return tuple({place.file.path: place.file for place in held}.values())

    @property
    def names(self) -> tuple[str, ...]:
        """All tensors, in the order of the files."""
        return tuple(dict.fromkeys(n for held in self.places.values() for n in held))


def read_source(path: Path) -> Source:
    """What a file or a folder holds.

    A folder has a folder `rank_0`, `rank_1`, ... for each rank, or files with `rank_0`, ... in
    their names, or the files of a model that is whole, each tensor in one of them.

    Raises:
        CheckpointError: nothing is there, or a file is damaged, or a rank has a tensor twice.
    """
    try:
        if (path / METADATA).is_file():
            return _distributed(path)
        by_rank = _files(path)
        places = {rank: _places(files) for rank, files in sorted(by_rank.items())}
    except OSError as error:
        what = f"the checkpoint cannot be read: {error.strerror or error}"
        raise CheckpointError(what, str(error.filename or path), _FIX) from error
    if not any(places.values()):
        raise CheckpointError("no checkpoint is there", str(path), _FIX)
    return Source(path, places)


def _distributed(path: Path) -> Source:
    found = read_distributed(path)
    if not found:
        raise CheckpointError("no tensors are in it", str(path), _FIX)
    return Source(path, {}, found)


def _files(path: Path) -> dict[int, list[Path]]:
    if path.is_file():
        return {0: [path]}
    folders = [p for p in path.iterdir() if p.is_dir() and _RANK.search(p.name)]
    if folders:
        pairs = [(_rank(folder), _checkpoints(folder)) for folder in folders]
        if len({rank for rank, _ in pairs}) < len(pairs):
            raise CheckpointError("two folders are of one rank", str(path), "keep one of them")
        return dict(pairs)
    files = _checkpoints(path)
    named = [p for p in files if _RANK.search(p.name)]
    if not named:
        return {0: files}
    if len(named) < len(files):
        odd = next(p for p in files if p not in named)
        raise CheckpointError("some names say a rank, this one does not", str(odd), _FIX)
    out: dict[int, list[Path]] = {}
    for file in files:
        out.setdefault(_rank(file), []).append(file)
    return out


def _rank(path: Path) -> int:
    found = _RANK.search(path.name)
    assert found is not None
    return int(found[1])


def _checkpoints(folder: Path) -> list[Path]:
    visible = (p for p in folder.iterdir() if not p.name.startswith("."))
    return sorted(p for p in visible if p.suffix in READERS and p.is_file())


def _places(files: Sequence[Path]) -> dict[str, Place]:
    out: dict[str, Place] = {}
    for path in files:
        reader = READERS.get(path.suffix)
        if reader is None:
            raise CheckpointError("neither .safetensors nor .ckpt", str(path), _FIX)
        found = reader(path)
        for name, entry in found.entries.items():
            if name in out:
                what = f"tensor {name!r} is also in {out[name].file.path}"
                raise CheckpointError(what, str(path), "keep one checkpoint of each rank")
            out[name] = Place(found, entry)
    return out
