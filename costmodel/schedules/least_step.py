"""How long a step of a pipeline takes at least, however its stages share the work.

Let U be the seconds of a micro-batch through all p stages, S what stages do once in a step behind
their own passes (gradients), and D what they do when all passes are over (updates). Each pass waits
for one before it, so a chain of passes takes no longer than the step, nor does the mean of several
chains. With e_s = when the passes of stage s are over, for every g from 0 to 1

    step >= (1 - g) max e_s + g mean e_s + g S / p + D / p >= r(g) U + g S / p + D / p,

where r(g) is the least of (1 - g) max e_s + g mean e_s over all ways to share one second of work
among the passes of all pieces: a linear programme. In closed form, m micro-batches and v chunks,

    r(0) = (m + p - 1) / p              1F1B, m > p,
    r(0) = 2 p / (2 p + 1 - m)          1F1B, m <= p,
    r(0) >= (m + (p - 1) / 2 v) / p     interleaved,        r(1) >= m / p.

The first two are exact. For the third take the chain that goes up to chunk c of stage s with the
first micro-batch, through all that the stage then has in its order, and down again with the last
one: it has m times u_s, u of all pieces before, and p times less of what the stage did in its
chunks before c. Weights 1 / (p v) for c > 0, and what makes the sum over c of each s grow linearly
with s for c = 0, give every piece the number above. It leaves up to half of the idle time out, so
for steps of few passes the linear programme is solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from costmodel.schedules.orders import Direction
from costmodel.schedules.orders import Shape as ScheduleShape
from costmodel.schedules.pass_times import Turn, kinds, passes_in_order
from ir.plan_enums import Schedule

MOST_PASSES = 1_024
"""Passes of a step whose linear programme is solved: half a second at most."""
MEAN_END = 0.75
"""The g that is looked at between 0 and 1: r(g) falls slowly up to there."""
EARLIER = 1 / 3
"""About how much earlier stages end on average than the last one, in passes of a chunk by the
stages before it: a bound by the mean end pays only if more happens behind the passes."""
ROUNDING = 1e-6
"""Relative error of the linear programme at most."""


class Cut(Protocol):
    """How a step is cut."""

    @property
    def stages(self) -> int: ...
    @property
    def chunks(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...


class Work(NamedTuple):
    """Seconds of the work of all stages at least, or how often each counts in a step."""

    shared_s: float
    """Of one micro-batch, with its share of what happens once in a step."""
    steady_s: float
    """The same without it."""
    update_s: float = 0.0
    """Once in a step, when the passes of all stages are over."""


NOTHING = Work(0.0, 0.0)


def even_step_s(work: Work, shape: Cut, *, closely: bool = False) -> float:
    """Seconds of a step that stages take at least, however they share the work.

    Args:
        work: of all stages.
        shape: of the step.
        closely: solve the linear programme where a step has few passes.
    """
    pairs = (zip(work, own, strict=True) for own in step_weights(work, shape, closely=closely))
    return max(sum(seconds * weight for seconds, weight in own if weight) for own in pairs)


def step_weights(work: Work, shape: Cut, *, closely: bool = False) -> Iterator[Work]:
    """How often each kind of work counts in bounds of a step: no step takes less than the sum.

    Args:
        work: about what all stages do; says which bounds are worth their effort.
        shape: of the step.
        closely: solve the linear programme where a step has few passes.
    """
    parts, busy = shape.stages, shape.micro_batches / shape.stages
    own = shape.stages, shape.chunks, shape.micro_batches
    solves = closely and parts > 1 and 2 * own[0] * own[1] * own[2] <= MOST_PASSES
    yield Work(busy, 0.0)
    exact = shape.chunks == 1
    rounds = solved_rounds(*own, 0.0) if solves and not exact else _closed_rounds(shape)
    yield Work(0.0, rounds, 1 / parts)
    gradients_s = shape.micro_batches * (work.shared_s - work.steady_s) - work.update_s
    if solves and gradients_s > EARLIER * (parts - 1) / shape.chunks * work.steady_s:
        shared = MEAN_END * busy
        steady = solved_rounds(*own, MEAN_END) - shared
        yield Work(shared, steady, (1 - MEAN_END) / parts)


def _closed_rounds(shape: Cut) -> float:
    stages, times = shape.stages, shape.micro_batches
    if shape.chunks > 1:
        return (times + (stages - 1) / (2 * shape.chunks)) / stages
    if times > stages:
        return (times + stages - 1) / stages
    return 2 * stages / (2 * stages + 1 - times)


@lru_cache(maxsize=512)
def solved_rounds(stages: int, chunks: int, micro_batches: int, mean_end: float) -> float:
    """The r(g) of the linear programme, less its rounding.

    Args:
        stages: of the step.
        chunks: of each stage.
        micro_batches: of the step.
        mean_end: the weight g of the mean end of a stage beside the latest.
    """
    from scipy.optimize import linprog  # noqa: PLC0415  seldom needed, slow to import
    from scipy.sparse import csr_array  # noqa: PLC0415

    name = Schedule.ONE_FORWARD_ONE_BACKWARD if chunks == 1 else Schedule.INTERLEAVED
    shape = ScheduleShape(stages, chunks, micro_batches)
    turns = passes_in_order(name, shape)
    rows, last = _waits(turns, name, shape)
    passes, size = len(turns), len(turns) + 2 * stages * chunks + 1
    goal = np.zeros(size)
    goal[last], goal[-1] = mean_end / stages, 1 - mean_end
    rows += [((end, 1.0), (size - 1, -1.0)) for end in last]
    entries = [(row, *entry) for row, own in enumerate(rows) for entry in own]
    at, columns, values = zip(*entries, strict=True)
    waits = csr_array((values, (at, columns)), shape=(len(rows), size))
    shares = np.zeros((1, size))
    shares[0, passes : size - 1] = 1.0
    found = linprog(goal, waits, np.zeros(len(rows)), shares, [1.0], method="highs-ds")  # type: ignore[call-overload]  # sparse matrices are taken, the stubs do not know
    if found.fun is None:
        raise RuntimeError(f"the least step of {shape} has no solution: {found.message}")
    return float(found.fun) * (1 - ROUNDING)


def _waits(
    turns: tuple[Turn, ...], name: str, shape: ScheduleShape
) -> tuple[list[Sequence[tuple[int, float]]], list[int]]:
    """Rows of the linear programme, none above 0: each pass ends no sooner than one before it and
    its own seconds, whose columns follow the ends of all passes. And the last pass of every stage.
    """
    places = []
    for kind in kinds(name, shape):
        piece = kind.chunk * shape.stages + kind.stage
        back = kind.direction is Direction.BACKWARD
        places.append(len(turns) + piece + back * shape.stages * shape.chunks)
    rows: list[Sequence[tuple[int, float]]] = []
    last = [-1] * shape.stages
    for number, (stage, own_kind, after) in enumerate(turns):
        own = ((number, -1.0), (places[own_kind], 1.0))
        before = [(each, 1.0) for each in {last[stage], after} - {-1}]
        rows += [(*own, each) for each in before] or [own]
        last[stage] = number
    return rows, last
