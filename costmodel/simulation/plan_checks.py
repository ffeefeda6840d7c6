"""Checks a plan that is to be simulated."""

from __future__ import annotations

from costmodel.collectives import Collective
from costmodel.simulation.plan_index import CAUSE_INSIDE
from costmodel.simulation.result import SimulationError
from ir.plan import Plan

PLAN_AGAIN = "plan again with `planner search -o DIR`"


def check_collectives(plan: Plan) -> None:
    """Raise `SimulationError` if a collective is of no kind that there is, or never runs."""
    kinds = {kind.value for kind in Collective}
    for index, item in enumerate(plan.collectives):
        known = item.tensor in plan.graph.tensors or item.cause == CAUSE_INSIDE
        if item.kind not in kinds or item.count < 1 or not known:
            raise SimulationError(
                f"{item.count} x {item.kind!r} of {item.tensor!r} is no collective\n"
                f"  at:  collectives.{index}\n  fix: {PLAN_AGAIN}"
            )


def is_derived(plan: Plan) -> bool:
    """Whether the backward pass follows from the forward pass."""
    return bool(plan.request.get("training")) and not plan.graph.is_training_step
