"""When sharded parameters are gathered: those of so many layers ahead of the one in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from costmodel.overlap import layer_numbers
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_index import PlanIndex, Unit, bucketed

Send = Callable[[Sequence[Unit], int], int]
"""Adds the collectives of a bucket that may start after a task (-1: at once); gives the last."""


@dataclass(slots=True)
class Gathers:
    """Buckets of the parameters of each layer, in the order of their first use.

    While a layer computes, the buckets of the next one are sent one after the other, each at the
    place in the layer at which that one will need it.
    """

    index: PlanIndex
    effects: Effects
    send: Send
    ahead: list[tuple[int, int, float]] = field(default_factory=list)
    """Gather, the task that ran last before its first use, and bytes, of each bucket."""
    _buckets: list[tuple[Unit, ...]] = field(init=False)
    _triggers: list[int] = field(init=False)
    """Place of the step at which each bucket is sent."""
    _sent: int = 0
    _waited: dict[int, list[tuple[tuple[Unit, ...], int]]] = field(default_factory=dict)
    """Buckets and their last task, by the places that need them."""

    def __post_init__(self) -> None:
        plan = self.index.plan
        forward = layer_numbers(plan.graph.ops, plan.graph.tensors)
        last = max(forward, default=0)
        # Layers are numbered on through the backward pass.
        layer_of = [*forward, *(2 * last + 1 - layer for layer in reversed(forward))]
        starts: dict[int, list[int]] = defaultdict(list)
        for place, layer in enumerate(layer_of):
            starts[layer].append(place)

        def trigger(bucket: tuple[Unit, ...]) -> int:
            """The place so many layers before its first use; -1 for the begin of the step."""
            place = bucket[0].operator
            own, ahead = starts[layer_of[place]], layer_of[place] - self.effects.prefetch
            if ahead < 0:
                return -1
            share = own.index(place) / len(own)
            return starts[ahead][int(share * len(starts[ahead]))]

        alike: dict[int, list[Unit]] = defaultdict(list)
        units = self.index.gathers(updated=self.effects.overlap)
        for unit in units:
            alike[layer_of[unit.operator]].append(unit)
        whole = "all_gather" in self.effects.fusion
        groups = [units] if whole else list(alike.values())
        found = [bucket for own in groups for bucket in bucketed(own, self.effects)]
        pairs = sorted((max(trigger(b), -1), b[0].operator, n) for n, b in enumerate(found))
        self._buckets = [found[number] for _, _, number in pairs]
        self._triggers = [place for place, _, _ in pairs]

    def before(self, place: int, after: int) -> frozenset[int]:
        """Send what is due at a place of the step; the tasks that the operator there waits for.

        Args:
            place: of the operator in the step.
            after: the computation that ran last, -1 for none.
        """
        while self._sent < len(self._buckets) and self._triggers[self._sent] <= place:
            bucket = self._buckets[self._sent]
            done = self.send(bucket, after)
            for needed in {unit.operator for unit in bucket}:
                self._waited.setdefault(needed, []).append((bucket, done))
            self._sent += 1
        wanted = self._waited.get(place, ())
        for bucket, done in wanted:
            if bucket[0].operator == place:
                self.ahead.append((done, after, sum(u.items[-1].nbytes for u in bucket)))
        return frozenset(done for _, done in wanted)
