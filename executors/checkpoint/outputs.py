"""The files of the new checkpoint: which there are, and where every tensor will lie in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from executors.checkpoint.ckpt import laid_out_ckpt
from executors.checkpoint.entries import CheckpointFile
from executors.checkpoint.pairing import Wanted
from executors.checkpoint.safetensors import laid_out_safetensors
from ir.slicing import box_dims

SUFFIXES = MappingProxyType({"safetensors": ".safetensors", "ckpt": ".ckpt"})
_DROPPED = frozenset({"crc_num", "remove_redundancy"})
"""What a header says of the old bytes alone."""


@dataclass(frozen=True, slots=True)
class Output:
    """One new file."""

    rank: int
    file: CheckpointFile
    """Its path is relative to the folder of the checkpoint."""
    frames: tuple[tuple[int, bytes], ...]
    """Everything but the tensors, with its place."""
    checksums: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Where the file wants the CRC-32 of a tensor, four bytes each, the lowest first."""


def planned_outputs(
    wanted: Sequence[Wanted], ranks: int, form: str, metadata: Mapping[str, str], name: str
) -> tuple[Output, ...]:
    """A file for each rank, or one file where there is one rank.

    Args:
        wanted: all tensors.
        ranks: of the new checkpoint.
        form: `safetensors` or `ckpt`.
        metadata: of the old files.
        name: of each file, without its suffix.

    Raises:
        CheckpointError: the form cannot hold a tensor.
    """
    held: list[list[tuple[str, str, tuple[int, ...]]]] = [[] for _ in range(ranks)]
    for each in wanted:
        for box, owners in zip(each.slices.boxes, each.slices.ranks, strict=True):
            for rank in owners:
                held[rank].append((each.name, each.dtype, box_dims(box)))
    kept = {key: text for key, text in metadata.items() if key not in _DROPPED}
    out = []
    for rank, tensors in enumerate(held):
        path = Path(name + SUFFIXES[form])
        path = path if ranks == 1 else Path(f"rank_{rank}") / path
        if form == "ckpt":
            out.append(Output(rank, *laid_out_ckpt(path, tensors)))
        else:
            out.append(Output(rank, *laid_out_safetensors(path, tensors, kept)))
    return tuple(out)
