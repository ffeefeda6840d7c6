"""What a simulation says: one record for plans and for layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.accounting import Account
from costmodel.simulation.bubbles import Bubble
from costmodel.simulation.engine import Timeline
from costmodel.simulation.memory import MemoryCurve
from ir.throughput import Load, Rates

FloatArray = NDArray[np.float64]


class SimulationError(ValueError):
    """Something that cannot be simulated; the message has what, where and how to mend it."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated step."""

    name: str
    step_s: float
    timeline: Timeline
    account: Account
    memory: tuple[MemoryCurve, ...]
    load: Load
    estimate_s: float
    """What the closed form says of the same step."""
    bubble: Bubble | None = None
    """For pipelines."""
    varied_s: FloatArray | None = None
    """Steps on devices that are not equally fast, shape (samples,)."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What was simulated, in words and numbers."""
    notes: tuple[str, ...] = ()
    estimate_means: str = ""
    """What the closed form assumes."""

    @property
    def rates(self) -> Rates:
        """How fast the simulated step is."""
        return Rates(self.load, self.step_s)

    @property
    def peak_memory_bytes(self) -> float:
        """On the device that holds most."""
        return max((curve.peak_bytes for curve in self.memory), default=0.0)

    @property
    def fits(self) -> bool:
        return self.peak_memory_bytes <= self.load.memory_bytes
