"""The question that `planner explain` was asked, answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from planner.requests.errors import UserError
from planner.requests.option_texts import pins
from planner.requests.options.explanations import ExplanationOptions
from planner.requests.options.option import check_values
from planner.requests.options.simulations import SimulationOptions

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.explain.summary import Report
    from report.explanation import OperatorExplanation, PlanExplanation, WhyNot
    from report.sensitivity import Sensitivity

Answer: TypeAlias = "PlanExplanation | Sensitivity | OperatorExplanation"

__all__ = ["Answer", "answer_json", "check_question", "explained"]


def check_question(asked: ExplanationOptions) -> None:
    """Raise `UserError` if the options do not go together."""
    check_values(asked)
    named = (("--op", asked.op), ("--tensor", asked.tensor))
    texts = [text for text, given in named if given is not None]
    other = bool(asked.why_not) + asked.sensitivity
    if len(texts) + other > 1:
        raise UserError(
            "one question at a time",
            " and ".join([*texts, *(["--why-not or --sensitivity"] if other else [])]),
            "leave all but one out",
        )
    if asked.cuts is not None and asked.op is None:
        raise UserError("cuts of which operator?", f"--cuts {asked.cuts}", "name it with --op")


def explained(plan: Plan, asked: ExplanationOptions, report: Report) -> Answer | list[WhyNot]:
    """Why the plan is as it is; of restrictions, what each would cost more.

    Args:
        plan: any.
        asked: one question, see `check_question`.
        report: receives progress.

    Raises:
        UserError: the plan has no such operator or tensor, or an option is wrong.
    """
    from planner.explain import (  # noqa: PLC0415  brings in the solvers
        sensitivity,
        summary,
        why,
        why_not,
        why_tensor,
    )

    check_question(asked)
    if asked.calibration is not None:
        from planner.requests.simulations import placed  # noqa: PLC0415  brings in simulation

        plan = placed(SimulationOptions(calibration=asked.calibration), plan)
    if asked.why_not:
        return [why_not(plan, text, report) for text in asked.why_not]
    if asked.sensitivity:
        return sensitivity(plan, report)
    name = asked.op or asked.tensor
    if name is None:
        return summary(plan, report)
    report(f"solving with other candidates of {name}")
    if asked.op is not None:
        cuts = None if asked.cuts is None else pins([f"x={asked.cuts}"])[0][1]
        return why(plan, asked.op, rivals=asked.rivals, cuts=cuts, report=report)
    return why_tensor(plan, name, rivals=asked.rivals, report=report)


def answer_json(found: Answer | Sequence[WhyNot]) -> dict[str, object]:
    """One JSON object with the answer."""
    own = (
        {"why_not": [each.to_dict() for each in found]}
        if isinstance(found, Sequence)
        else found.to_dict()
    )
    return {"status": "ok", **own}
