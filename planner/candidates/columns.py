"""What each candidate of a node decides: one column for each decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Decisions of the candidates of a node, shape (C,) each."""

    assignment: IndexArray
    """Row of the operator's assignments, or of the table of a tensor's layouts."""
    recompute: BoolArray
    """Whether what the node saves is computed again in the backward pass."""
    zero: IndexArray
    """Level of ZeRO at which the state of a parameter rests in parts, 1 or 2; 0 where it rests as
    the parameter does."""
    states: IndexArray
    """Row of the layouts in which the optimizer state of a parameter rests."""
    host: BoolArray
    """Whether the optimizer state rests in the memory of the host."""

    @classmethod
    def of(cls, count: int) -> Self:
        """Of so many assignments or layouts, with nothing decided beside these."""
        rows, no = np.arange(count), np.zeros(count, dtype=bool)
        return cls(rows, no, np.zeros(count, dtype=np.intp), rows, no)

    def __len__(self) -> int:
        return len(self.assignment)

    @property
    def kept(self) -> IndexArray:
        """Candidates that compute nothing again."""
        return np.flatnonzero(~self.recompute)

    @property
    def recomputing(self) -> IndexArray:
        """The same ones computing again what they save; as many, or none."""
        return np.flatnonzero(self.recompute)

    def having(self, assignments: BoolArray) -> IndexArray:
        """Candidates with one of some assignments, shape (assignments,), whatever else they do."""
        return np.flatnonzero(assignments[self.assignment])

    def alike(self, candidate: int) -> IndexArray:
        """Candidates that differ from one in nothing but what they compute again."""
        columns = (self.assignment, self.zero, self.states, self.host)
        return np.flatnonzero(np.all([own == own[candidate] for own in columns], axis=0))

    def keeping(self, candidate: int) -> int:
        """The candidate that does what another one does and computes nothing again."""
        if not self.recompute[candidate]:
            return candidate
        same = self.alike(candidate)
        return int(same[~self.recompute[same]][0])

    def on_device(self, candidate: int) -> int | None:
        """The candidate with the optimizer state of another one on the device; None without it."""
        columns = (self.assignment, self.zero, self.states)
        same = np.all([own == own[candidate] for own in columns], axis=0) & ~self.host
        return int(np.flatnonzero(same)[0]) if same.any() else None

    def take(self, keep: IndexArray) -> Columns:
        """Only some of the candidates."""
        return Columns(
            self.assignment[keep],
            self.recompute[keep],
            self.zero[keep],
            self.states[keep],
            self.host[keep],
        )

    def _twice(self) -> Columns:
        return self.take(np.tile(np.arange(len(self)), 2))

    def with_recompute(self) -> Columns:
        """All candidates, then all of them computing again what they save."""
        return replace(self._twice(), recompute=np.repeat([False, True], len(self)))

    def with_host(self, *, always: bool) -> Columns:
        """All candidates, unless the state always goes; then all with the state on the host."""
        if always:
            return replace(self, host=np.ones(len(self), dtype=bool))
        return replace(self._twice(), host=np.repeat([False, True], len(self)))
