from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from ir.graph import OpGraph
from planner.repricing.other_machine import repriced
from planner.whatif.report import around
from planner.whatif.sweep import Count, Store
from planner.whatif.tasks import PointTask, sweep_of
from planner.whatif.workbench import Done, LocalEngine, Workbench
from tests.planner.whatif.sweeps import asked


def test_the_best_plan_of_a_world_is_no_slower_than_the_one_that_is_kept() -> None:
    sweep = sweep_of(asked("devices=8,batch=512"))
    (task,) = sweep.tasks
    found = around(sweep, task.key, 0.2, LocalEngine(1), Store(None))
    assert len(found.worlds) == 8
    for world in found.worlds:
        assert world.replanned_s <= world.kept_s * (1 + 1e-9)
        assert world.regret >= 0
    assert found.regret == max(world.regret for world in found.worlds)
    kept = {r.parameter: r.kept for r in found.responses}
    assert kept["bandwidth"] <= 1e-9
    assert kept["latency"] >= -1e-9
    assert kept["compute"] < 0
    assert sum(abs(v) for v in kept.values()) <= 1.05


def test_a_response_is_the_slope_between_two_searches() -> None:
    sweep = sweep_of(asked("devices=8,batch=512"))
    (task,) = sweep.tasks
    found = around(sweep, task.key, 0.2, LocalEngine(1), Store(None))
    world = next(w for w in found.worlds if dict(w.factors) == {"compute": 1 / 1.2})
    machine = task.machine.cluster.scaled(compute=1 / 1.2)
    bench = Workbench(sweep.graphs, keep_plans=False)
    from planner.search import search  # noqa: PLC0415

    plan = search(sweep.graphs[task.model], machine, task.request)
    assert world.replanned_s == plan.estimate.step_time_s
    assert bench.plan(task).estimate.step_time_s == found.step_s


def test_a_plan_with_stages_responds_to_the_machine() -> None:
    sweep = sweep_of(asked("devices=4,batch=32", pipeline="2"))
    (task,) = sweep.tasks
    plan = Workbench(sweep.graphs, keep_plans=False).plan(task)
    same = repriced(plan, task.machine.cluster).estimate.step_time_s
    assert same == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    found = around(sweep, task.key, 0.2, LocalEngine(1), Store(None))
    kept = {r.parameter: r.kept for r in found.responses}
    assert kept["compute"] < 0
    assert kept["bandwidth"] <= 1e-9
    assert kept["latency"] >= -1e-9
    assert sum(abs(v) for v in kept.values()) <= 1.05
    for world in found.worlds:
        assert world.replanned_s <= world.kept_s * (1 + 1e-6)


class _Worse:
    """A search that misses the plan that is there already."""

    name: ClassVar[str] = "worse"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        for done in LocalEngine(1).run(graphs, tasks, keep_plans=keep_plans):
            yield replace(done, result=replace(done.result, step_s=2 * done.result.step_s))


def test_the_plan_that_is_kept_is_one_of_those_that_may_be_best() -> None:
    sweep, seen = sweep_of(asked("devices=8,batch=512")), list[Count]()
    store = Store(None)
    found = around(sweep, sweep.tasks[0].key, 0.2, _Worse(), store, seen.append)
    assert [world.replanned_s for world in found.worlds] == [w.kept_s for w in found.worlds]
    assert found.regret == 0
    assert (seen[0].done, seen[-1].done) == (0, 8)
    around(sweep, sweep.tasks[0].key, 0.2, _Worse(), store, seen.append)
    assert seen[-1].known == 8
