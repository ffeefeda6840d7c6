"""`planner explain`: why a plan is as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli import options, other_ways
from cli.command_options import ServedCommand
from cli.declared import command
from cli.progress import Progress
from planner.requests.options.explanations import ExplanationOptions

if TYPE_CHECKING:
    from pathlib import Path

    from planner.explain.asked import Answer
    from report.explanation import WhyNot

EPILOG = """\b
Examples:
  planner explain plan/plan.json
  planner explain plan/plan.json --op model.layers.0.mlp.gate_proj
  planner explain plan/plan.json --tensor lm_head.weight --json
  planner explain plan/plan.json --why-not tp=8,dp=2
  planner explain plan/plan.json --sensitivity

\b
Exit status: 0 explained, 2 a fault in the command or the plan."""


@command
def explain(plan: options.PlanPath, asked: ExplanationOptions, here: ServedCommand) -> None:
    """Say why a plan is as it is: what costs, what forces it, what would be next best."""
    from planner.explain.asked import answer_json, check_question  # noqa: PLC0415

    check_question(asked)
    found = _answer(plan, asked, here.server)
    if here.as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(answer_json(found)))
    elif isinstance(found, list):
        other_ways.print_answers(found)
    else:
        from cli.text import tell  # noqa: PLC0415  brings in rich
        from report.explanation_tables import parts  # noqa: PLC0415

        tell(parts(found))


def _answer(plan: Path, asked: ExplanationOptions, server: str | None) -> Answer | list[WhyNot]:
    with Progress() as progress:
        if server is not None:
            from cli.remote_questions import remote_explanation  # noqa: PLC0415

            return remote_explanation(server, plan, asked, progress)
        from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic
        from planner.explain.asked import explained  # noqa: PLC0415

        return explained(read_plan(plan, staged=True), asked, progress)
