"""Tensors in files, and tensors that lie in several of them."""

from __future__ import annotations

from dataclasses import dataclass

from executors.checkpoint.entries import CheckpointFile, Entry
from ir.slicing import Box


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in a file."""

    file: CheckpointFile
    entry: Entry


@dataclass(frozen=True, slots=True)
class Chunked:
    """A tensor whose checkpoint says itself which box of it lies where."""

    dims: tuple[int, ...]
    dtype: str
    boxes: tuple[Box, ...]
    places: tuple[Place, ...]
