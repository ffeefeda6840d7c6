"""Simulates the step of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from costmodel.collectives import Collective
from costmodel.plan_overlap import has_overlap
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_step import plan_step
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.simulate_step import simulate_step
from costmodel.simulation.step_in_order import in_turn_s
from costmodel.simulation.variation import Lanes, Variation
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from ir.plan_enums import Cause
from ir.plan_stages import has_equal_stages, stage_times
from ir.throughput import load_of

SCHEDULES = ("1f1b", "gpipe", "interleaved")
"""Those that run forward and whole backward passes."""
PLAN_AGAIN = "plan again with `planner search -o DIR`"
_ROUNDING = 1e-9


def simulate_plan(plan: Plan, effects: Effects, variation: Variation | None = None) -> Simulation:
    """The step of a plan, event by event.

    Raises:
        SimulationError: the plan does not say how long its parts take, or its schedule is unknown.
    """
    _check(plan, variation)
    facts: dict[str, object] = {"degrees": str(degrees_of(plan))}
    pipeline = plan.pipeline
    if not pipeline.is_single:
        facts |= {
            "schedule": pipeline.schedule,
            "stages": len(pipeline.stages),
            "micro-batches": pipeline.micro_batches,
        }
    told = partial(
        Simulation,
        name=plan.graph.name,
        load=load_of(plan),
        estimate_s=plan.estimate.step_time_s if effects.overlap else in_turn_s(plan),
        estimate_means="with overlap"
        if effects.overlap and has_overlap(plan)
        else "without overlap",
        facts=facts,
        notes=plan.notes,
    )
    lanes = Lanes(tuple(size for _, size, _ in plan.mesh), 1)
    return simulate_step(plan_step(plan), effects, told, variation, lanes)


def _check(plan: Plan, variation: Variation | None) -> None:
    """Raise `SimulationError` if a plan cannot be simulated."""
    for fault in _whole_faults(plan) if plan.pipeline.is_single else _stage_faults(plan):
        raise SimulationError(fault)
    kinds = {kind.value for kind in Collective}
    for index, item in enumerate(plan.collectives):
        known = item.tensor in plan.graph.tensors or item.cause == Cause.INSIDE
        if item.kind not in kinds or item.count < 1 or not known:
            raise SimulationError(
                f"{item.count} x {item.kind!r} of {item.tensor!r} is no collective\n"
                f"  at:  collectives.{index}\n  fix: {PLAN_AGAIN}"
            )
    if variation is not None and not variation.is_none and not has_equal_stages(plan):
        raise SimulationError(
            "devices that differ are not drawn where stages have different numbers of them\n"
            "  at:  pipeline.stages\n  fix: leave --jitter, --spread and --stragglers out"
        )


def _whole_faults(plan: Plan) -> Iterator[str]:
    """Where the times of the parts are not those of the whole."""
    parts = math.fsum(
        (
            *(o.compute_s + o.recompute_s for o in plan.operators),
            *(t.update_s + t.recompute_s for t in plan.tensors),
            *(c.exposed_s for c in plan.collectives),
        )
    )
    whole = plan.estimate.step_time_s
    derived = bool(plan.request.get("training")) and not plan.graph.is_training_step
    points = len(plan.operators) * (2 if derived else 1)
    if not math.isclose(parts, whole, rel_tol=_ROUNDING) or len(plan.memory_bytes) != points:
        yield (
            f"the parts of the plan take {parts:.6g} s, its step {whole:.6g} s: an earlier version "
            "wrote it, which left out what a simulation needs\n"
            f"  at:  plan.json\n  fix: {PLAN_AGAIN}"
        )


def _stage_faults(plan: Plan) -> Iterator[str]:
    """Where the times of a stage are not those of its parts."""
    pipeline = plan.pipeline
    for number, stage in enumerate(pipeline.stages):
        found = stage_times(plan, number)
        pairs = [(found.forward_s, stage.forward_s), (found.backward_s, stage.backward_s)]
        if not found.shared_s:
            # What stages share takes as long as in the slowest of them.
            pairs.append((found.once_s, stage.once_s))
        whole = stage.forward_s + stage.backward_s + stage.once_s
        same = all(math.isclose(a, b, rel_tol=_ROUNDING, abs_tol=whole * _ROUNDING)
                   for a, b in pairs)  # fmt: skip
        if not same or len(plan.memory_bytes) != 2 * len(plan.operators):
            yield (
                f"stage {number} takes {whole:.6g} s, its parts do not sum to that: an earlier "
                f"version wrote it\n  at:  pipeline.stages.{number}\n  fix: {PLAN_AGAIN}"
            )
    if pipeline.schedule not in SCHEDULES:
        yield (
            f"the schedule {pipeline.schedule!r} of a plan is not simulated\n"
            f"  at:  pipeline.schedule\n  fix: plan with one of {', '.join(SCHEDULES)}"
        )
