"""What a simulation takes into account beyond the times of the single tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from costmodel.simulation.buckets import Fusion


class Contention(StrEnum):
    """What happens to transfers that cross the same port at once."""

    NONE = "none"
    """Each has the port for itself."""
    QUEUE = "queue"
    """They take turns, in the order in which they are issued. A faster machine is never slower."""
    FAIR = "fair"
    """They share it max-min fairly. What starts earlier may then delay what matters more, so that a
    faster machine can be slower by a little."""


FUSED_KINDS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class Effects:
    """Overlap, contention and fusion; `Effects.none()` gives the sum of all times."""

    overlap: bool = True
    """Messages of parameters and between stages run on streams of their own, and of those of
    activations the share that the software hides; else everything of a device runs in one line."""

    contention: Contention = Contention.FAIR
    """Of transfers that cross the same links."""

    fusion: Mapping[str, Fusion] = field(default_factory=lambda: MappingProxyType({}))
    """By kind of collective. A kind that is given is priced anew, one latency for each bucket;
    one that is not is sent in buckets of 64 MB at the times of the plan, whose shares of latencies
    are of such buckets, or of the layers that parameters in parts are gathered for."""

    prefetch: int = 1
    """Layers whose sharded parameters are gathered ahead of the one in use; 0 gathers each bucket
    when it is needed."""

    interference: float = 0.0
    """Share of the computing units that a running collective takes, 0 or more and below 1."""

    def __post_init__(self) -> None:
        if self.prefetch < 0:
            raise ValueError(f"a prefetch of {self.prefetch} buckets; 0 or more")
        if not 0 <= self.interference < 1:
            raise ValueError(f"an interference of {self.interference}; 0 or more and below 1")

    @classmethod
    def none(cls) -> Effects:
        """Nothing overlaps and nothing is shared."""
        return cls(overlap=False, contention=Contention.NONE)
