"""Measured collectives."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.collectives.kinds import Collective

__all__ = ["CalibrationError", "GroupShape", "Measurement"]


class CalibrationError(Exception):
    """Measurements that cannot be used: what, `at:` where, `fix:` how to mend it."""

    def __init__(self, what: str, where: str, fix: str) -> None:
        super().__init__(f"{what}\n  at:  {where}\n  fix: {fix}")


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Who took part in a measurement."""

    kind: Collective
    ranks: int
    servers: int = 1
    algorithm: str = "auto"
    """What was forced, if the measurement says so."""

    def __str__(self) -> str:
        over = f" on {self.servers} servers" if self.servers > 1 else ""
        return f"{self.kind.value} of {self.ranks}{over}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One collective, timed."""

    group: GroupShape

    nbytes: float
    """As `Collective` counts them."""

    time_s: float
    """Above zero."""

    origin: str = ""
    """Where it was read, such as `all_reduce.log:12`."""
