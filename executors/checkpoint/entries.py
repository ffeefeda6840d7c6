"""Where the tensors of a checkpoint lie in its files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from executors.checkpoint.errors import CheckpointError
from ir.dtypes import dtype_bits
from ir.slicing import Box

TEXT = "text"
"""MindSpore's texts: four bytes for each character."""
LARGEST_SIZE = 2**62
"""Elements of a tensor, bytes of a file: what 64 bits can count."""


class Segment(NamedTuple):
    """Consecutive bytes of a tensor that are consecutive in the file too."""

    offset: int
    """In the file."""
    start: int
    """In the tensor."""
    nbytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file; its elements lie row-major."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    segments: tuple[Segment, ...]
    """In order; they tile the tensor."""

    @property
    def nbytes(self) -> int:
        return entry_bytes(self.dtype, self.dims)


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """One file: its tensors by name, in the order of the file."""

    path: Path
    form: str
    """`safetensors`, `ckpt` or `distcp`."""
    size: int
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


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


def entry_bytes(dtype: str, dims: tuple[int, ...]) -> int:
    """Bytes of a tensor; types of less than a byte fill whole bytes."""
    return -(-math.prod(dims) * element_bits(dtype) // 8)


def element_bits(dtype: str) -> int:
    """Bits of one element, or of one character."""
    return 32 if dtype == TEXT else dtype_bits(dtype)


def raw_dtype(dtype: str) -> np.dtype[Any]:
    """Elements as so many bytes that mean nothing: moving does not look at values.

    Raises:
        CheckpointError: an element is less than a byte, so that parts do not begin at bytes.
    """
    bits = element_bits(dtype)
    if bits % 8:
        fix = "unpack it to int8 first, or leave it out with --weights-only"
        raise CheckpointError(f"elements of type {dtype} are less than a byte", fix=fix)
    return np.dtype(f"u{bits // 8}") if bits <= 64 else np.dtype((np.void, bits // 8))
