"""Stragglers and jitter: the same task graph on devices that are not equally fast.

Lanes are devices that would do the same at the same time if they were. They wait for one another
where they communicate, so a step takes as long as its slowest chain. What tasks that share links
take of one another stays as it was without variation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.engine import Timeline, waits_of
from costmodel.simulation.result import SimulationError

FloatArray = NDArray[np.float64]


class VariationError(ValueError):
    """A distribution or straggler that cannot be."""


def _normal(u: FloatArray) -> FloatArray:
    from scipy.special import ndtri  # noqa: PLC0415  slow to import, seldom needed

    return np.asarray(ndtri(u), dtype=np.float64)


def _lognormal(u: FloatArray, width: float) -> FloatArray:
    sigma = np.sqrt(np.log1p(width**2))
    return np.asarray(np.exp(sigma * _normal(u) - sigma**2 / 2))


SHAPES: Mapping[str, Callable[[FloatArray, float], FloatArray]] = MappingProxyType(
    {
        "normal": lambda u, width: np.maximum(1 + width * _normal(u), 0.0),
        "lognormal": _lognormal,
        "uniform": lambda u, width: 1 + width * np.sqrt(3.0) * (2 * u - 1),
        "exponential": lambda u, width: 1 + width * (-np.log1p(-u) - 1),
    }
)
"""Factors with mean 1 and a standard deviation of `width` at quantile u."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of a factor on a time, with mean 1."""

    shape: str
    width: float
    """Standard deviation."""

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise VariationError(f"unknown distribution {self.shape!r}; known: {', '.join(SHAPES)}")
        most = {"uniform": 1 / np.sqrt(3.0), "exponential": 1.0}.get(self.shape, 10.0)
        if not 0 <= self.width <= most:
            raise VariationError(f"a {self.shape} width of {self.width}; 0 to {most:.3g}")

    def largest_of(self, count: int, u: FloatArray) -> FloatArray:
        """The largest of `count` independent factors at quantile u, in the shape of u."""
        return SHAPES[self.shape](u ** (1.0 / count), self.width)


@dataclass(frozen=True, slots=True)
class Variation:
    """How devices differ from the mean one."""

    jitter: Distribution | None = None
    """Of each task, drawn anew every time."""
    spread: Distribution | None = None
    """Of each device, for all its tasks."""
    stragglers: int = 0
    """Devices that are slower by `straggler_factor`, drawn among all."""
    straggler_factor: float = 1.0
    samples: int = 20
    """Steps that are drawn."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1 or self.stragglers < 0 or not self.straggler_factor >= 1:
            raise VariationError(
                "samples are 1 or more, stragglers 0 or more and their factor 1 or more"
            )

    @property
    def is_none(self) -> bool:
        return self.jitter is None and self.spread is None and not self.stragglers

    def check(self, devices: int) -> None:
        """Raise `SimulationError` if more devices are slow than there are."""
        if self.stragglers > devices:
            raise SimulationError(
                f"{self.stragglers:,} stragglers of {devices:,} devices\n  at:  --stragglers\n"
                f"  fix: give {devices} at most"
            )


@dataclass(frozen=True, eq=False)
class Lanes:
    """Which devices vary, and where they wait for one another."""

    shape: tuple[int, ...]
    """Of the lanes."""
    group: int
    """Devices of each device of the graph in one lane that wait for one another all the time,
    such as tensor parallel ranks: the slowest of them counts."""
    joins: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By task, the dimensions of the lanes over which it starts together."""


def varied_steps_s(timeline: Timeline, lanes: Lanes, variation: Variation) -> FloatArray:
    """Seconds of some drawn steps, shape (samples,)."""
    random = np.random.default_rng(variation.seed)
    straggling = random.spawn(1)[0]
    out = [_step_s(timeline, lanes, variation, random, straggling)
           for _ in range(variation.samples)]  # fmt: skip
    return np.array(out, dtype=np.float64)


def _step_s(
    timeline: Timeline,
    lanes: Lanes,
    variation: Variation,
    random: np.random.Generator,
    straggling: np.random.Generator,
) -> float:
    graph = timeline.graph
    factors = _device_factors(len(graph.copies), lanes, variation, random)
    _slow_stragglers(factors, lanes.group, variation, straggling)
    waits, taken = waits_of(graph), timeline.end_s - timeline.start_s
    left = [len(own) for own in waits.after]
    ends: dict[int, FloatArray] = {}
    latest = 0.0
    for task in timeline.order.tolist():
        start = np.zeros(lanes.shape)
        for other in waits.before[task]:
            start = np.maximum(start, ends[other])
            left[other] -= 1
            if not left[other]:
                del ends[other]
        axes = lanes.joins.get(task)
        if axes is not None:
            start = np.broadcast_to(start.max(axis=axes, keepdims=True), lanes.shape)
        share = _computing_share(timeline, task)
        factor: FloatArray | float = 1.0
        if share:
            own = factors[graph.stream_device[graph.streams[task][0]]]
            if variation.jitter is not None:
                drawn = random.random(lanes.shape)
                own = own * variation.jitter.largest_of(lanes.group, drawn)
            factor = 1 + (own - 1) * share
        end = start + taken[task] * factor
        latest = max(latest, float(end.max()))
        if left[task]:
            ends[task] = end
    return latest


def _computing_share(timeline: Timeline, task: int) -> float:
    """Share of a task that is computation."""
    graph = timeline.graph
    if not graph.streams[task] or not graph.seconds[task]:
        return 0.0
    parts = graph.spans_of(task)
    own = sum(p.seconds for p in parts if not p.activity.is_communication)
    return own / graph.seconds[task]


def _device_factors(
    count: int, lanes: Lanes, variation: Variation, random: np.random.Generator
) -> FloatArray:
    """Factor of every device of the graph in every lane, shape (count, *lanes)."""
    shape = (count, *lanes.shape)
    factors = np.ones(shape)
    if variation.spread is not None:
        factors = variation.spread.largest_of(lanes.group, random.random(shape))
    return factors


def _slow_stragglers(
    factors: FloatArray, group: int, variation: Variation, random: np.random.Generator
) -> None:
    """Slow the cells that have a straggler. It is drawn from numbers of its own, and fewer of the
    same seed are the first of more, so that one more changes nothing else.
    """
    if variation.stragglers:
        chosen = random.permutation(factors.size * group)[: variation.stragglers]
        factors.reshape(-1)[np.unique(chosen // group)] *= variation.straggler_factor
