"""Simulates a step: its task graph, when each task runs, and where the time goes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from costmodel.schedules.orders import ScheduleError
from costmodel.simulation.accounting import account_of
from costmodel.simulation.bubbles import bubble_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.step import Step
from costmodel.simulation.variation import Lanes, Variation, varied_steps_s

MAX_PASSES = 2_000_000
"""Passes of all stages together that are simulated."""


def run_step(step: Step, effects: Effects) -> tuple[Lowered, Timeline]:
    """Lower a step and run it.

    Raises:
        SimulationError: the schedule does not allow it, or it is too large.
    """
    passes = 2 * len(step.stages) * step.chunks * step.micro_batches
    planned = bool(step.stages[0].operators)
    if passes > MAX_PASSES:
        where = "pipeline.micro_batches" if planned else "the layout"
        raise SimulationError(
            f"{passes:,} passes of micro-batches; at most {MAX_PASSES:,} are simulated\n"
            f"  at:  {where}\n  fix: {'plan with' if planned else 'give'} larger micro-batches"
        )
    try:
        lowered = Lowered(step, effects)
    except ScheduleError as error:
        fix = "plan with others" if planned else "choose another schedule= in --layout, or other"
        raise SimulationError(
            f"{error}\n  at:  the schedule {step.schedule}\n  fix: {fix} degrees"
        ) from error
    return lowered, run(lowered.graph)


def simulate_step(
    step: Step,
    effects: Effects,
    told: Callable[..., Simulation],
    variation: Variation | None,
    lanes: Lanes,
) -> Simulation:
    """A step event by event.

    Args:
        step: what it consists of.
        effects: what is taken into account.
        told: makes the record; it knows all but how the step runs.
        variation: how devices differ; None for not at all.
        lanes: which devices differ.

    Raises:
        SimulationError: the schedule does not allow the step, or it is too large.
    """
    with _paused_collector():
        lowered, timeline = run_step(step, effects)
        step_s = lowered.step_s(timeline)
        account = account_of(timeline, step_s)
        varied = None
        if variation is not None and not variation.is_none:
            variation.check(sum(stage.copies for stage in step.stages))
            varied = varied_steps_s(timeline, replace(lanes, joins=lowered.joins), variation)
        several = len(step.stages) > 1
        return told(
            timeline=timeline,
            step_s=step_s,
            account=account,
            memory=lowered.memory(timeline),
            bubble=bubble_of(step, effects, account.waiting_s) if several else None,
            varied_s=varied,
        )


@contextmanager
def _paused_collector() -> Iterator[None]:
    """No search for cycles: among hundreds of thousands of records it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
