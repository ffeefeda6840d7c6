"""What two plans say differently: records that a command prints and a page shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that two plans say differently."""

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A time or a memory in both plans; 0 where a plan lacks the cause."""

    name: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Change:
    """Operators or parameters of one pattern that lie differently in the same way."""

    name: str
    count: int
    compute_s: float
    """Of the operators in the first plan; 0 for parameters."""
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Two plans compared."""

    facts: tuple[Fact, ...]
    """Only what differs."""
    step_time_s: Amount
    time_by_cause: tuple[Amount, ...]
    peak_memory_bytes: Amount
    memory_by_cause: tuple[Amount, ...]
    operators: tuple[Change, ...]
    """The heaviest first."""
    parameters: tuple[Change, ...]
    only_first: int
    """Operators and parameters that the second plan lacks."""
    only_second: int
    shared: int
    """Operators and parameters that both have."""

    @property
    def is_empty(self) -> bool:
        whole = (self.step_time_s, self.peak_memory_bytes)
        amounts = (*whole, *self.time_by_cause, *self.memory_by_cause)
        changed = self.facts or self.operators or self.parameters
        return not (
            changed or self.only_first or self.only_second
            or any(a.first != a.second for a in amounts)
        )  # fmt: skip
