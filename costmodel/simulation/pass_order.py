"""When the passes of a pipeline run if nothing overlaps: each in the order of its stage, once what
it needs is there. Messages hold up their sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from costmodel.simulation.routes import Route
from costmodel.simulation.schedules import Direction, Order, Pass

_Key: TypeAlias = tuple[Direction, int, int, int]
"""Direction, stage, chunk and micro-batch of a pass."""


class ChunkTimes(NamedTuple):
    """Seconds of one micro-batch through one chunk of a stage."""

    forward_s: float
    input_s: float
    """Gradient of the input, with what is computed again before."""
    weight_s: float
    """Gradients of the weights."""

    def of(self, each: Pass) -> float:
        """Seconds of one pass."""
        if each.direction is Direction.FORWARD:
            return self.forward_s
        if each.direction is Direction.WEIGHT:
            return self.weight_s
        return self.input_s + self.weight_s if each.whole else self.input_s


@dataclass(slots=True)
class PassOrder:
    """The passes of one step."""

    orders: Sequence[Order]
    """Of every stage."""
    times: Sequence[Sequence[ChunkTimes]]
    """By stage and chunk."""
    send_s: float
    """To hand one micro-batch to another stage."""
    route: Route
    begun_s: list[float] = field(init=False)
    """When each stage begins, after `run`."""
    over_s: list[float] = field(init=False)
    """When its last pass and message are over."""
    _there_s: dict[_Key, float] = field(default_factory=dict, init=False)
    """When the result of a pass is where it is needed."""

    def run(self) -> None:
        """Find all times."""
        self.begun_s, self.over_s = [0.0] * len(self.orders), [0.0] * len(self.orders)
        reached = [0] * len(self.orders)
        while any(at < len(order) for at, order in zip(reached, self.orders, strict=True)):
            reached = [self._advance(stage, at) for stage, at in enumerate(reached)]

    def _advance(self, stage: int, start: int) -> int:
        """Run the passes of a stage until one waits for another that has no time yet."""
        order = self.orders[stage]
        for at in range(start, len(order)):
            each = order[at]
            ready_s = self._ready_s(stage, each)
            if ready_s is None:
                return at
            begun_s = max(self.over_s[stage], ready_s)
            if not at:
                self.begun_s[stage] = begun_s
            end_s = begun_s + self.times[stage][each.chunk].of(each)
            if self._target(stage, each) is not None:
                end_s += self.send_s
            self.over_s[stage] = end_s
            self._there_s[each.direction, stage, each.chunk, each.micro] = end_s
        return len(order)

    def _ready_s(self, stage: int, each: Pass) -> float | None:
        """When what a pass needs is there; None while that is not known."""
        if each.direction is Direction.WEIGHT:
            return 0.0
        forward = each.direction is Direction.FORWARD
        source = (self.route.before if forward else self.route.behind)(stage, each.chunk)
        if source is None:
            return 0.0
        return self._there_s.get((each.direction, *source, each.micro))

    def _target(self, stage: int, each: Pass) -> tuple[int, int] | None:
        """Where the result of a pass goes."""
        if each.direction is Direction.WEIGHT:
            return None
        forward = each.direction is Direction.FORWARD
        return (self.route.behind if forward else self.route.before)(stage, each.chunk)
