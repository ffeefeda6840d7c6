"""Plans for a mix of batch sizes and lengths: one for all of them, or a few to switch between."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ir.plan import Plan
from planner.repricing.migration_cost import migration
from planner.requests.errors import UserError
from planner.whatif.axes import Place
from planner.whatif.sizes import Sizes
from planner.whatif.sweep import Count, Point, Store, Watch
from planner.whatif.tasks import Sweep, outline_of
from planner.whatif.workbench import Workbench

FloatArray = NDArray[np.float64]

MOST_SIZES = 16
MOST_PLANS = 3
"""Plans of a set."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A set of plans; each size takes the fastest of them."""

    plans: tuple[int, ...]
    """By the number of the size that each was found for."""
    expected_s: float
    """Of a step over the mix; infinite where some size fits none of them."""
    switch_s: float
    """To go from one of them to another, at most; 0 for one plan."""

    def worth_after(self, single: Chosen) -> float:
        """Steps between switches from which on the set is faster than one plan."""
        saved = single.expected_s - self.expected_s
        return self.switch_s / saved if saved > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Shapes:
    """Plans found for some sizes, each priced at all of them."""

    sizes: tuple[Place, ...]
    weights: tuple[float, ...]
    """Share of the steps of each size; they sum to 1."""
    outlines: tuple[str, ...]
    """Of the plan that was found for each size."""
    step_s: tuple[tuple[float, ...], ...]
    """Row: plan; column: size. Infinite where the plan does not split or does not fit the size."""
    best: tuple[Chosen, ...]
    """The best set of one plan, of two, and so on while a larger one is faster."""

    @property
    def ideal_s(self) -> float:
        """Expected step if every size had its own plan."""
        columns = zip(*self.step_s, strict=True)
        return math.fsum(w * min(c) for w, c in zip(self.weights, columns, strict=True))


def weights_of(text: str, count: int) -> tuple[float, ...]:
    """Shares of so many sizes.

    >>> weights_of("2,1,1", 3)
    (0.5, 0.25, 0.25)

    Raises:
        UserError: there are others than one for each size.
    """
    try:
        given = [1.0] * count if text == "uniform" else [float(part) for part in text.split(",")]
    except ValueError:
        given = []
    total = math.fsum(given)
    if len(given) != count or min(given, default=-1) < 0 or not 0 < total < math.inf:
        raise UserError(
            f"{text[:80]!r} is no mix of {count} sizes", "--mix",
            "write uniform, or one weight for each size in their order, such as 0.5,0.3,0.2",
        )  # fmt: skip
    return tuple(weight / total for weight in given)


def check_mix(places: Sequence[Place], mix: str) -> tuple[float, ...]:
    """Shares of the sizes of a sweep.

    Raises:
        UserError: the sweep has several machines, or too many sizes, or the mix is none of them.
    """
    machines = {place.machine() for place in places}
    sizes = any(len(place.values) > len(place.machine().values) for place in places)
    faults = (
        (len(machines) > 1, "a mix is of sizes on one machine", "vary batch and sequence alone"),
        (not sizes, "a mix of no sizes", "add --vary batch=16,32,64"),
        (len(places) > MOST_SIZES, f"a mix of {len(places)} sizes", f"take {MOST_SIZES} at most"),
    )
    for wrong, what, fix in faults:
        if wrong:
            raise UserError(what, "--mix", fix)
    return weights_of(mix, len(places))


def shapes(
    sweep: Sweep, points: Sequence[Point], mix: str, store: Store, watch: Watch = lambda _: None
) -> Shapes:
    """Plans for a mix of the sizes that a sweep has on its one machine.

    Args:
        sweep: over batch and sequence alone.
        points: of it.
        mix: `uniform`, or a weight for each point.
        store: may have their plans; others are searched again.
        watch: is told how far it is.

    Raises:
        UserError: as `check_mix` does; or a size has no plan.
    """
    weights = check_mix([point.place for point in points], mix)
    for point in points:
        if not point.result.is_planned:
            raise UserError(f"no plan for {point.place}", "--mix", "leave that size out")
    tasks = {task.key: task for task in sweep.tasks}
    bench = Workbench(sweep.graphs, keep_plans=False)
    plans = [store.plan(p.key) or bench.plan(tasks[p.key]) for p in points]
    costs = _costs(plans, Sizes(sweep.graphs, [tasks[p.key] for p in points], plans), watch)
    return Shapes(
        tuple(point.place for point in points),
        weights,
        tuple(outline_of(plan) for plan in plans),
        tuple(tuple(row) for row in costs.tolist()),
        _sets(plans, costs, np.array(weights)),
    )


def _costs(plans: Sequence[Plan], sizes: Sizes, watch: Watch) -> FloatArray:
    """Seconds of a step of every plan (rows) at every size."""
    count = len(plans)
    costs = np.diag([plan.estimate.step_time_s for plan in plans])
    pairs = list(itertools.permutations(range(count), 2))
    for done, (plan, size) in enumerate(pairs):
        watch(Count(done, 0, len(pairs), "plans at other sizes"))
        costs[plan, size] = sizes.step_s(plans[plan], size)
    watch(Count(len(pairs), 0, len(pairs), "plans at other sizes"))
    return costs


def _sets(plans: Sequence[Plan], costs: FloatArray, weights: FloatArray) -> tuple[Chosen, ...]:
    """The best set of each number of plans, while a larger one is faster."""
    found: list[Chosen] = []
    for count in range(1, min(MOST_PLANS, len(plans)) + 1):
        sets = itertools.combinations(range(len(plans)), count)
        expected = {s: float(np.dot(weights, costs[list(s)].min(axis=0))) for s in sets}
        best = min(expected, key=lambda s: (expected[s], s))
        if found and not expected[best] < found[-1].expected_s * (1 - 1e-9):
            break
        found.append(Chosen(best, expected[best], _switch_s([plans[i] for i in best])))
    return tuple(found)


def _switch_s(plans: Sequence[Plan]) -> float:
    pairs = itertools.permutations(plans, 2)
    return max((migration(one, other).time_s for one, other in pairs), default=0.0)
