"""Which device of a pipeline holds the layers before and behind some others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from costmodel.simulation.job import Job
from costmodel.simulation.schedules import SCHEDULES

Place: TypeAlias = tuple[int, int]
"""Stage, and which of its chunks."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way of a micro-batch through the chunks of all stages."""

    stages: int
    chunks: int
    bidirectional: bool = False
    """Chunk 1 of every stage belongs to a pipeline in the other direction."""

    @classmethod
    def of(cls, job: Job) -> Route:
        """The way through a job."""
        return cls(len(job.stages), job.chunks, SCHEDULES[job.schedule].bidirectional)

    def behind(self, stage: int, chunk: int) -> Place | None:
        """Where the layers behind these are; None at the end."""
        if self.bidirectional:
            after = stage - 1 if chunk else stage + 1
            return (after, chunk) if 0 <= after < self.stages else None
        if stage + 1 < self.stages:
            return stage + 1, chunk
        return (0, chunk + 1) if chunk + 1 < self.chunks else None

    def before(self, stage: int, chunk: int) -> Place | None:
        """Where the layers before these are; None at the beginning."""
        if self.bidirectional:
            ahead = stage + 1 if chunk else stage - 1
            return (ahead, chunk) if 0 <= ahead < self.stages else None
        if stage > 0:
            return stage - 1, chunk
        return (self.stages - 1, chunk - 1) if chunk > 0 else None
