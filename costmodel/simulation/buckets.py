"""Fusion: which collectives of parameters are sent together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from costmodel.collectives.buckets import BUCKET_BYTES


class FusionMode(StrEnum):
    """How the collectives of one kind are fused, as MindSpore's `comm_fusion` names it."""

    AUTO = "auto"
    """Up to 64 MB."""
    SIZE = "size"
    """Up to a given size."""
    INDEX = "index"
    """At given positions in the order of the parameters; for all-reduce only."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the collectives of one kind are fused."""

    mode: FusionMode = FusionMode.AUTO
    nbytes: int = BUCKET_BYTES
    """Size of a bucket, for `size`; 0 fuses nothing."""
    splits: tuple[int, ...] = ()
    """For `index`: last position of each bucket but the last one, ascending."""

    @property
    def bucket_bytes(self) -> int:
        return BUCKET_BYTES if self.mode is FusionMode.AUTO else self.nbytes


@dataclass(frozen=True, slots=True)
class Message:
    """A collective that may be fused with its neighbours."""

    number: int
    """Whatever the caller knows it by."""
    nbytes: float
    position: int = 0
    """Of its parameter in the order of the parameters."""


def buckets(messages: Sequence[Message], fusion: Fusion) -> list[list[int]]:
    """Numbers of the messages of each bucket, in the order in which the last of each is ready.

    Args:
        messages: of one kind and one group, in the order in which they are ready.
        fusion: how they are fused.

    A bucket takes messages until it holds its size or more, and is sent then.

    >>> buckets([Message(0, 40.0), Message(1, 40.0), Message(2, 9.0)], Fusion(FusionMode.SIZE, 64))
    [[0, 1], [2]]

    Source: MindSpore, `set_all_reduce_fusion_split_indices`: the parameters up to and including
    each index make a segment.
    """
    if fusion.mode is FusionMode.INDEX:
        return _by_index(messages, fusion.splits)
    out: list[list[int]] = []
    held = 0.0
    for message in messages:
        if not out or held >= fusion.bucket_bytes:
            out.append([])
            held = 0.0
        out[-1].append(message.number)
        held += message.nbytes
    return out


def _by_index(messages: Sequence[Message], splits: Sequence[int]) -> list[list[int]]:
    segments: dict[int, list[int]] = {}
    for message in messages:
        segment = sum(message.position > split for split in splits)
        own = segments.pop(segment, [])
        # Put back at the end: a bucket is ready with its last member.
        segments[segment] = [*own, message.number]
    return list(segments.values())
