"""Where the plan changes, between the points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.graph import OpGraph
from planner.requests.errors import UserError
from planner.whatif.axes import Place
from planner.whatif.changes import Change, changes, check_share, exact_changes
from planner.whatif.sweep import Count, Point, Store, run
from planner.whatif.tasks import Asked, PointTask, Result, sweep_of
from planner.whatif.workbench import Done, LocalEngine
from tests.planner.whatif.sweeps import asked


@dataclass
class Turning:
    """Plans that depend on the bandwidth alone: another one from each limit on."""

    limits: Sequence[float]
    searched: list[float] = field(default_factory=list)
    name: ClassVar[str] = "turning"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        full = sweep_of(asked("devices=4")).tasks[0].machine.cluster.tiers[-1]
        for task in tasks:
            own = task.machine.cluster.tiers[-1]
            factor = own.bandwidth_bytes_per_s / full.bandwidth_bytes_per_s
            self.searched.append(factor)
            turn = sum(factor >= limit for limit in self.limits)
            plan = Result("ok", step_s=1.0, samples=8.0, outline=f"{turn}", signature=f"{turn}")
            yield Done(task.key, plan)


def swept(what: Asked, store: Store | None = None) -> tuple[Point, ...]:
    return run(sweep_of(what), LocalEngine(1), store or Store(None))


def exact(what: Asked, share: float, store: Store | None = None) -> tuple[Change, ...]:
    own = store or Store(None)
    return exact_changes(what, swept(what, own), share, LocalEngine(1), own)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.51, 7.9), min_size=1, max_size=5, unique=True), st.floats(1e-3, 0.2))
def test_every_change_is_found_between_two_values_that_are_near(
    limits: list[float], share: float
) -> None:
    what, engine, store = asked("devices=4,bandwidth=0.5,8"), Turning(limits), Store(None)
    points = run(sweep_of(what), engine, store)
    found = exact_changes(what, points, share, engine, store)
    for change in found:
        low, high = float(change.before), float(change.after)
        assert change.exact
        assert high <= low * (1 + share) * (1 + 1e-9)
        inside = [limit for limit in limits if low * (1 - 1e-9) <= limit <= high * (1 + 1e-9)]
        assert len(inside) == int(change.plans[1]) - int(change.plans[0])
    crossed = [n for c in found for n in range(int(c.plans[0]), int(c.plans[1]))]
    assert crossed == list(range(len(limits)))


def test_what_is_known_is_not_searched_again(tmp_path: Path) -> None:
    what, seen = asked("devices=4,bandwidth=0.5,8"), list[Count]()
    engine, store = Turning([1.0]), Store(tmp_path)
    points = run(sweep_of(what), engine, store)
    first = exact_changes(what, points, 0.01, engine, store, seen.append)
    again = Turning([1.0])
    assert exact_changes(what, points, 0.01, again, Store(tmp_path)) == first
    # Without plans beside them answers of a folder count as none: those in memory do.
    assert len(again.searched) == len(engine.searched) - 2 == seen[-1].done
    third = Turning([1.0])
    assert exact_changes(what, points, 0.01, third, store) == first
    assert third.searched == []


def test_a_plan_begins_to_fit_where_the_memory_is_what_it_holds() -> None:
    found = exact(asked("devices=2,memory=0.0001,1"), 1e-3)
    first = found[0]
    assert first.plans[0] == "does not fit"
    (lost, fits) = (asked(f"devices=2,memory={value}") for value in (first.before, first.after))
    assert not swept(lost)[0].result.is_planned
    (point,) = swept(fits)
    assert point.result.is_planned
    assert point.result.peak_bytes <= point.result.limit_bytes


def test_both_sides_of_a_change_are_what_single_searches_find() -> None:
    what = asked("devices=8,batch=64,bandwidth=0.01,100")
    found = exact(what, 0.02)
    assert found
    for change in found:
        pair = [swept(asked(f"devices=8,batch=64,bandwidth={v}"))[0].result
                for v in (change.before, change.after)]  # fmt: skip
        assert pair[0].signature != pair[1].signature
        assert pair[0].outline == change.plans[0]


def test_sizes_between_divide_as_those_of_the_sweep_do() -> None:
    found = [c for c in exact(asked("devices=8,batch=8,4096"), 0.5) if c.axis == "batch"]
    assert found
    for change in found:
        assert int(change.before) % 8 == 0
        assert int(change.after) - int(change.before) == 8


def staged(batch: int, count: int) -> Point:
    result = Result(
        "ok", step_s=1.0, samples=float(batch), micro_batches=count,
        outline=f"data 4, 2 stages, {count} micro-batches, weights sharded", signature=f"{count}",
    )  # fmt: skip
    return Point(Place((("devices", 8), ("batch", batch))), f"{batch}", 8, result)


def test_more_micro_batches_of_one_size_are_no_other_plan() -> None:
    assert changes([staged(64, 8), staged(128, 16), staged(256, 32)]) == ()
    (found,) = changes([staged(64, 8), staged(128, 8)])
    assert (found.before, found.after) == (64, 128)
    assert changes([staged(64, 1), staged(128, 1)]) == ()
    assert len(changes([staged(64, 1), staged(128, 2)])) == 1


@pytest.mark.parametrize("share", [0.0, -1.0, 1.0, 1e-12, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(UserError, match="--exact-changes"):
        check_share(share)
