from __future__ import annotations

import pytest

from planner.moving_stages import on_machine
from planner.whatif.around import around
from planner.whatif.engines import LocalEngine
from planner.whatif.machines import scaled
from planner.whatif.tasks import sweep_of
from planner.whatif.workbench import Workbench
from tests.planner.whatif.sweeps import asked


def test_the_best_plan_of_a_world_is_no_slower_than_the_one_that_is_kept() -> None:
    sweep = sweep_of(asked("devices=8,batch=512"))
    (task,) = sweep.tasks
    found = around(sweep, task.key, LocalEngine(1), 0.2)
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
    found = around(sweep, task.key, LocalEngine(1), 0.2)
    world = next(w for w in found.worlds if dict(w.factors) == {"compute": 1 / 1.2})
    machine = scaled(task.machine.cluster, compute=1 / 1.2)
    bench = Workbench(sweep.graphs, keep_plans=False)
    from planner.search import search  # noqa: PLC0415

    plan = search(sweep.graphs[task.model], machine, task.request)
    assert world.replanned_s == plan.estimate.step_time_s
    assert bench.plan(task).estimate.step_time_s == found.step_s


def test_a_plan_with_stages_responds_to_the_machine() -> None:
    sweep = sweep_of(asked("devices=4,batch=32", cut=True, pipeline="2"))
    (task,) = sweep.tasks
    plan = Workbench(sweep.graphs, keep_plans=False).plan(task)
    assert plan.pipeline is not None
    same = on_machine(plan, task.machine.cluster).estimate.step_time_s
    assert same == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    found = around(sweep, task.key, LocalEngine(1), 0.2)
    kept = {r.parameter: r.kept for r in found.responses}
    assert kept["compute"] < 0
    assert kept["bandwidth"] <= 1e-9
    assert kept["latency"] >= -1e-9
    assert sum(abs(v) for v in kept.values()) <= 1.05
    for world in found.worlds:
        assert world.replanned_s <= world.kept_s * (1 + 1e-6)
