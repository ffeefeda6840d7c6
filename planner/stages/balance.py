"""Equal layers over equal stages: how many each takes, and how many of them it computes again.

Under 1F1B stage s of p keeps the activations of min(m, p - s) micro-batches, so early stages
run short of memory: they take fewer layers, or compute some again in the backward pass. Which
of the two is better follows from the whole pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.stages.chain import pipeline_time_s


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the equal layers."""

    time_s: float
    """Forward and backward, nothing recomputed."""
    again_s: float
    """More if it is recomputed."""
    held_bytes: float
    """Weights, gradients, optimizer state."""
    kept_bytes: float
    """Activations of one micro-batch."""
    kept_again_bytes: float
    """The same if the layer is recomputed: its input."""


@dataclass(frozen=True, slots=True)
class End:
    """What the first or the last stage has beside its layers: the embedding, the head."""

    time_s: float = 0.0
    held_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The problem."""

    layer: Layer
    layers: int
    stages: int
    micro_batches: int
    memory_bytes: float
    head: End = End()
    tail: End = End()

    def in_flight(self, stage: int) -> int:
        """Micro-batches whose activations a stage keeps under 1F1B."""
        return min(self.micro_batches, self.stages - stage)

    def _ends(self, stage: int) -> tuple[End, ...]:
        return (self.head,) * (stage == 0) + (self.tail,) * (stage == self.stages - 1)

    def held_bytes(self, stage: int, layers: int) -> float:
        """Weights and their state on one stage."""
        return layers * self.layer.held_bytes + sum(e.held_bytes for e in self._ends(stage))

    def kept_bytes(self, layers: int, again: int) -> float:
        """Activations of one micro-batch."""
        return (layers - again) * self.layer.kept_bytes + again * self.layer.kept_again_bytes

    def stage_time_s(self, stage: int, layers: int, again: int) -> float:
        ends = sum(e.time_s for e in self._ends(stage))
        return layers * self.layer.time_s + again * self.layer.again_s + ends

    def peak_bytes(self, stage: int, layers: int, again: int) -> float:
        return self.held_bytes(stage, layers) + self.in_flight(stage) * self.kept_bytes(
            layers, again
        )

    def least_again(self, stage: int, layers: int) -> int | None:
        """Fewest layers that must be recomputed for the stage to fit; None if all are too few."""
        excess = self.peak_bytes(stage, layers, 0) - self.memory_bytes
        saved = self.in_flight(stage) * (self.layer.kept_bytes - self.layer.kept_again_bytes)
        if excess <= 0:
            return 0
        needed = math.ceil(excess / saved) if saved > 0 else layers + 1
        return needed if needed <= layers else None


@dataclass(frozen=True, slots=True)
class Balance:
    """The answer."""

    layers: tuple[int, ...]
    """Of each stage."""
    again: tuple[int, ...]
    """Of these, recomputed."""
    step_time_s: float


def balance(pipeline: Pipeline) -> Balance | None:
    """The fastest distribution that fits; None if nothing does. Exact.

    A stage recomputes no more than it must, so its layers alone are to be chosen: every stage time
    is tried as the slowest one, and below it the least sum follows stage by stage.
    """
    tables = [_choices(pipeline, stage) for stage in range(pipeline.stages)]
    bounds = sorted({time_s for table in tables for time_s, _ in table.values()})
    best: Balance | None = None
    for bound_s in bounds:
        if best is not None and pipeline.micro_batches * bound_s >= best.step_time_s:
            break
        layers = _least_sum(tables, pipeline.layers, bound_s)
        if layers is None:
            continue
        times = [tables[s][n][0] for s, n in enumerate(layers)]
        step_s = pipeline_time_s(times, pipeline.micro_batches)
        if best is None or step_s < best.step_time_s:
            again = tuple(tables[s][n][1] for s, n in enumerate(layers))
            best = Balance(layers, again, step_s)
    return best


def _choices(pipeline: Pipeline, stage: int) -> dict[int, tuple[float, int]]:
    """By number of layers, the time of the stage and the layers recomputed."""
    found: dict[int, tuple[float, int]] = {}
    for layers in range(1, pipeline.layers - pipeline.stages + 2):
        again = pipeline.least_again(stage, layers)
        if again is None:
            break
        found[layers] = (pipeline.stage_time_s(stage, layers, again), again)
    return found


def _least_sum(
    tables: Sequence[Mapping[int, tuple[float, int]]], layers: int, bound_s: float
) -> tuple[int, ...] | None:
    """Layers of each stage with the least sum of times, none above the bound."""
    reached: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for table in tables:
        further: dict[int, tuple[float, tuple[int, ...]]] = {}
        for done, (spent_s, chosen) in reached.items():
            for count, (time_s, _) in table.items():
                total = done + count
                if time_s > bound_s or total > layers:
                    continue
                candidate = (spent_s + time_s, (*chosen, count))
                if total not in further or candidate < further[total]:
                    further[total] = candidate
        reached = further
    found = reached.get(layers)
    return None if found is None else found[1]
