from __future__ import annotations

from dataclasses import replace

from planner.whatif.tasks import outline_of, sweep_of
from planner.whatif.workbench import Workbench
from tests.planner.whatif.sweeps import asked


def test_stages_are_parts_of_the_machine_whatever_their_chunks() -> None:
    sweep = sweep_of(asked("devices=4,batch=32", pipeline="2"))
    plan = Workbench(sweep.graphs, keep_plans=False).plan(sweep.tasks[0])
    turns = replace(plan.pipeline, chunks=2, stages=plan.pipeline.stages * 2)
    assert outline_of(replace(plan, pipeline=turns)) == outline_of(plan).replace(
        "pp=2", "pp=2,vpp=2"
    )
