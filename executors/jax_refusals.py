"""Plans that JAX cannot run, told without JAX."""

from __future__ import annotations

from ir.plan import Plan


class JaxPlanError(ValueError):
    """A plan that JAX cannot run; the message says what, where and how to mend it."""


def refuse(plan: Plan) -> None:
    """Raise `JaxPlanError` for a plan that JAX cannot run at all."""
    if len(plan.pipeline.stages) > 1:
        raise JaxPlanError(
            f"the plan has {len(plan.pipeline.stages)} pipeline stages, JAX runs a plan as one "
            "program\n  at:  plan.json: pipeline\n  fix: search with --pp off"
        )
    if plan.graph.is_training_step:
        raise JaxPlanError(
            "the plan is of a traced training step, whose backward pass is in the graph\n"
            "  at:  plan.json: graph\n  fix: plan the loss; JAX derives the other one"
        )
