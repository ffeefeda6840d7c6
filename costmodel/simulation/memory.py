"""Memory of each device of a task graph over the simulated step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.engine import Timeline

FloatArray = NDArray[np.float64]
Change: TypeAlias = tuple[FloatArray, FloatArray]
"""Times, and by how many bytes the memory in use changes at each."""


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """Bytes of one device; each amount holds from its time to the next."""

    device: str
    time_s: FloatArray
    """Shape (K,), ascending, from 0."""
    nbytes: FloatArray
    """Shape (K,)."""

    @property
    def peak_bytes(self) -> float:
        return float(self.nbytes.max(initial=0.0))

    @property
    def peak_at_s(self) -> float:
        """When the peak is reached first."""
        return float(self.time_s[self.nbytes.argmax()]) if len(self.nbytes) else 0.0


def always(nbytes: float) -> Change:
    """Bytes that are held all the time."""
    return np.zeros(1), np.array([nbytes])


def held(timeline: Timeline, since: int, until: int, nbytes: float) -> Change:
    """Bytes that are held from the start of one task to the end of another."""
    times = np.array([timeline.start_s[since], timeline.end_s[until]])
    return times, np.array([nbytes, -nbytes])


def curve_of(device: str, changes: Iterable[Change]) -> MemoryCurve:
    """Levels from changes; of those at the same time only the sum is seen."""
    pairs = list(changes)
    times = np.concatenate([t for t, _ in pairs])
    change = np.concatenate([d for _, d in pairs])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(change[order])
    last = np.append(np.diff(times) > 0, True)
    return MemoryCurve(device, times[last], level[last])
