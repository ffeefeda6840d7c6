"""When buckets of sharded parameters are gathered: so many ahead of the one in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_index import PlanIndex, Unit, fused

Send = Callable[[Sequence[Unit], int], int]
"""Adds the collectives of a bucket that may start after a task (-1: at once); gives the last."""


@dataclass(slots=True)
class Gathers:
    """Buckets in the order of their first use."""

    index: PlanIndex
    effects: Effects
    send: Send
    ahead: list[tuple[int, int, float]] = field(default_factory=list)
    """Gather, the task that ran last before its first use, and bytes, of each bucket."""
    _buckets: list[tuple[Unit, ...]] = field(init=False)
    _tasks: list[int] = field(default_factory=list)
    _bucket_of: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = fused(self.index.gathers(), self.effects)
        self._buckets = sorted(found, key=lambda bucket: bucket[0].operator)
        for number, bucket in enumerate(self._buckets):
            for place in {unit.operator for unit in bucket}:
                self._bucket_of.setdefault(place, []).append(number)

    def before(self, place: int, after: int) -> frozenset[int]:
        """Send what is due at a place of the step; the tasks that the operator there waits for.

        Args:
            place: of the operator in the step.
            after: the computation that ran last, -1 for none.
        """
        depth = self.effects.prefetch
        while len(self._tasks) < len(self._buckets):
            number = len(self._tasks)
            trigger = self._buckets[max(number - depth, 0)][0].operator
            if place < trigger and number >= depth:
                break
            self._tasks.append(self.send(self._buckets[number], after))
        wanted = self._bucket_of.get(place, ())
        for number in wanted:
            if self._buckets[number][0].operator == place:
                nbytes = sum(u.items[-1].nbytes for u in self._buckets[number])
                self.ahead.append((self._tasks[number], after, nbytes))
        return frozenset(self._tasks[number] for number in wanted)
