"""Simulates the step of a plan."""

from __future__ import annotations

import math

from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.memory import plan_memory
from costmodel.simulation.plan_checks import PLAN_AGAIN, check_collectives, is_derived
from costmodel.simulation.plan_programme import plan_programme
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.stage_simulation import simulate_staged
from costmodel.simulation.variation import Lanes, Variation, varied_steps_s
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from ir.throughput import load_of

_ROUNDING = 1e-9


def simulate_plan(plan: Plan, effects: Effects, variation: Variation | None = None) -> Simulation:
    """The step of a plan, event by event.

    Raises:
        SimulationError: the plan does not say how long its parts take.
    """
    if plan.pipeline is not None:
        return simulate_staged(plan, effects, variation)
    check_times(plan)
    check_collectives(plan)
    step = plan_programme(plan, effects)
    timeline = run(step.programme)
    varied = None
    if variation is not None and not variation.is_none:
        variation.check(plan.devices)
        shape = tuple(size for _, size, _ in plan.mesh)
        varied = varied_steps_s(timeline, Lanes(shape, 1, step.joins), variation)
    return Simulation(
        name=plan.graph.name,
        step_s=timeline.step_s,
        timeline=timeline,
        account=account_of(timeline),
        memory=(plan_memory(step, timeline, plan.memory_bytes),),
        load=load_of(plan),
        estimate_s=plan.estimate.step_time_s,
        varied_s=varied,
        facts={"degrees": str(degrees_of(plan))},
        notes=plan.notes,
        estimate_means="in which nothing overlaps",
    )


def check_times(plan: Plan) -> None:
    """Raise `SimulationError` if the times of the parts are not those of the whole."""
    parts = math.fsum(
        (
            *(o.compute_s + o.recompute_s for o in plan.operators),
            *(t.update_s + t.recompute_s for t in plan.tensors),
            *(c.time_s for c in plan.collectives),
        )
    )
    whole = plan.estimate.step_time_s
    points = len(plan.operators) * (2 if is_derived(plan) else 1)
    if not math.isclose(parts, whole, rel_tol=_ROUNDING) or len(plan.memory_bytes) != points:
        raise SimulationError(
            f"the parts of the plan take {parts:.6g} s, its step {whole:.6g} s: an earlier version "
            "wrote it, which left out what a simulation needs\n"
            f"  at:  plan.json\n  fix: {PLAN_AGAIN}"
        )
