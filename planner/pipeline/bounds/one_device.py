"""What the whole network takes on one device, and on each of many that share what it computes.

Of what is computed a device has its share at least, as fast as in the whole batch. The host of each
issues every operator of its stage in every micro-batch, whatever the share. In every layer both go
on side by side, so the longer one counts there.
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.overlap import Loads
from planner.pipeline.bounds.whole_network import WholeNetwork
from planner.problem import FloatArray, Overlap


@dataclass(frozen=True, slots=True)
class OneDevice:
    """The network as one piece on one device; if layers repeat a shorter one stands beside it."""

    batch: int
    """Samples of a step."""
    sample_s: float
    """Seconds of one of them."""
    spare: int
    """Periods that stand there no more."""
    overlap: Overlap | None
    """Of a host that counts."""
    loads: FloatArray | None
    """Of each layer at least, shape (layers, columns)."""

    @classmethod
    def of(cls, whole: WholeNetwork, batch: int) -> OneDevice:
        """The network as it was lowered for one device and a whole batch."""
        sample_s, overlap = whole.free_s * (1 / batch), whole.overlapped.overlap
        if overlap is None or not overlap.form.has_host:
            return cls(batch, sample_s, whole.spare, None, None)
        return cls(batch, sample_s, whole.spare, overlap, whole.overlapped.least_loads())

    def samples_s(self, samples: float) -> float:
        """Seconds that a device takes at least which computes so many samples, or a part of one,
        in a pass of each operator.
        """
        computing_s = self.sample_s * samples
        if self.overlap is None or self.loads is None:
            return computing_s
        loads = self.loads * (samples / self.batch)
        loads[:, Loads.HOST] = self.loads[:, Loads.HOST]
        pieces = self.overlap.pieces_s(loads)
        return max(computing_s, float(pieces[0] + self.spare * (pieces[0] - pieces[-1])))
