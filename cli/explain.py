"""`planner explain`: why a plan is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cli import options, other_ways
from cli.command_options import ExplainCommand
from cli.declared import command
from cli.errors import UserError
from cli.progress import Progress
from planner.requests.options.simulations import SimulationOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ir.plan import Plan
    from planner.explain import OperatorExplanation, PlanExplanation, Sensitivity
    from planner.request import Cuts
    from planner.requests.sources import Document

Answer: TypeAlias = "PlanExplanation | Sensitivity | OperatorExplanation"
MOST_RIVALS = 20

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
def explain(plan: options.PlanPath, here: ExplainCommand) -> None:
    """Say why a plan is as it is: what costs, what forces it, what would be next best."""
    _check(here)
    found = _read(plan, here.calibration)
    if here.why_not:
        _other_ways(found, here.why_not, as_json=here.as_json)
        return
    from planner import explain as explained  # noqa: PLC0415  brings in the planner

    if here.op is not None or here.tensor is not None:
        answer: Answer = _explained(found, here.op, here.tensor, here.rivals, _cuts(here.cuts))
        _tell(answer, as_json=here.as_json)
        return
    question = explained.sensitivity if here.sensitivity else explained.summary
    with Progress() as progress:
        answer = question(found, progress)
    _tell(answer, as_json=here.as_json)


def _cuts(text: str | None) -> Cuts | None:
    if text is None:
        return None
    from planner.requests.option_texts import pins  # noqa: PLC0415

    return pins([f"x={text}"])[0][1]


def _check(here: ExplainCommand) -> None:
    """Raise `UserError` if the options do not go together."""
    named = (("--op", here.op), ("--tensor", here.tensor))
    asked = [text for text, given in named if given is not None]
    other = bool(here.why_not) + here.sensitivity
    if len(asked) + other > 1:
        raise UserError(
            "one question at a time",
            " and ".join([*asked, *(["--why-not or --sensitivity"] if other else [])]),
            "leave all but one out",
        )
    if here.cuts is not None and here.op is None:
        raise UserError("cuts of which operator?", f"--cuts {here.cuts}", "name it with --op")
    if not 0 <= here.rivals <= MOST_RIVALS:
        raise UserError(
            f"0 to {MOST_RIVALS} candidates are shown", f"--rivals {here.rivals}",
            "such as --rivals 3",
        )  # fmt: skip


def _read(path: Path, calibration: Document | None) -> Plan:
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    plan = read_plan(path, staged=True)
    if calibration is None:
        return plan
    from planner.requests.simulations import placed  # noqa: PLC0415  brings in the planner

    return placed(SimulationOptions(calibration=calibration), plan)


def _other_ways(plan: Plan, texts: Sequence[str], *, as_json: bool) -> None:
    from planner.explain import why_not  # noqa: PLC0415  brings in the planner

    with Progress() as progress:
        found = [why_not(plan, text, progress) for text in texts]
    if as_json:
        _print_json(other_ways.in_json(found))
        return
    other_ways.print_answers(found)


def _tell(found: Answer, *, as_json: bool) -> None:
    if as_json:
        _print_json(found.to_dict())
        return
    from cli.explain_text import print_explanation  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_explanation(found, out)


def _explained(
    plan: Plan, op: str | None, tensor: str | None, rivals: int, cuts: Cuts | None
) -> OperatorExplanation:
    from planner.explain import why, why_tensor  # noqa: PLC0415  brings in the planner

    with Progress() as progress:
        progress(f"solving with other candidates of {op or tensor}")
        if op is not None:
            return why(plan, op, rivals=rivals, cuts=cuts, report=progress)
        return why_tensor(plan, tensor or "", rivals=rivals, report=progress)


def _print_json(value: dict[str, object]) -> None:
    from planner.requests.plan_json import dumps  # noqa: PLC0415

    print(dumps({"status": "ok", **value}))
