"""Plans for a mix of batch sizes and lengths: one for all of them, or a few to switch between."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ir.plan import Plan
from planner.asking.errors import UserError
from planner.changeover import changeover
from planner.moving import lowered_plan
from planner.request import RequestError
from planner.whatif.axes import Place
from planner.whatif.outline import outline_of
from planner.whatif.sweep import Point
from planner.whatif.tasks import Sweep
from planner.whatif.workbench import Workbench
from topology.cluster import Cluster

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


def shapes(sweep: Sweep, points: Sequence[Point], mix: str) -> Shapes:
    """Plans for a mix of the sizes that a sweep has on its one machine.

    Args:
        sweep: over batch and sequence alone.
        points: of it.
        mix: `uniform`, or a weight for each point.

    Raises:
        UserError: the sweep has several machines, too many sizes, or a size without a plan.
    """
    _check(points)
    weights = weights_of(mix, len(points))
    tasks = {task.key: task for task in sweep.tasks}
    bench = Workbench(sweep.graphs, keep_plans=False)
    plans = [bench.plan(tasks[point.key]) for point in points]
    costs = np.array([[priced_at(plan, other) for other in plans] for plan in plans])
    return Shapes(
        tuple(point.place for point in points),
        weights,
        tuple(outline_of(plan) for plan in plans),
        tuple(tuple(row) for row in costs.tolist()),
        _sets(plans, costs, np.array(weights)),
    )


def priced_at(plan: Plan, other: Plan) -> float:
    """Seconds of a step of a plan at the size of another one of the same model; infinite where the
    plan does not split the size, or needs more memory than there is.
    """
    dims = {tensor.name: tensor.dims for tensor in other.tensors}
    if dims.keys() != {tensor.name for tensor in plan.tensors}:
        return math.inf
    tensors = tuple(replace(t, dims=dims[t.name]) for t in plan.tensors)
    try:
        evidence = lowered_plan(
            replace(plan, graph=other.graph, tensors=tensors), Cluster.from_dict(plan.cluster)
        )
    except RequestError:
        return math.inf
    estimate = evidence.estimate(evidence.collectives())
    fits = estimate.peak_memory_bytes <= estimate.memory_limit_bytes * (1 + 1e-9)
    return estimate.step_time_s if fits else math.inf


def _check(points: Sequence[Point]) -> None:
    named = {name for point in points for name, _ in point.place.values}
    machines = {point.place.without("batch").without("sequence") for point in points}
    lost = [point for point in points if not point.result.is_planned]
    cut = any(point.result.micro_batches > 1 for point in points)
    faults = (
        (len(machines) > 1, "a mix is of sizes on one machine", "vary batch and sequence alone"),
        (not named & {"batch", "sequence"}, "a mix of no sizes", "add --vary batch=16,32,64"),
        (len(points) > MOST_SIZES, f"a mix of {len(points)} sizes", f"take {MOST_SIZES} at most"),
        (bool(lost), f"no plan for {lost[0].place if lost else ''}", "leave that size out"),
        (cut, "plans with stages or micro-batches have one size", "leave --pipeline out"),
    )
    for wrong, what, fix in faults:
        if wrong:
            raise UserError(what, "--mix", fix)


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
    return max((changeover(one, other).time_s for one, other in pairs), default=0.0)
