"""`planner explain`: why a plan is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import explain_options, options
from cli.errors import UserError
from cli.progress import Progress

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.explain import OperatorExplanation, PlanExplanation, Sensitivity
    from planner.request import Cuts

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

TensorName = Annotated[
    str | None,
    typer.Option("--tensor", metavar="NAME", help="Explain the layout of this tensor."),
]
Rivals = Annotated[
    int, typer.Option("--rivals", metavar="N", help="Next best candidates to explain.")
]
Sensitive = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        help="Say how far bandwidth, batch and memory may move before the plan changes.",
    ),
]
CutsText = Annotated[
    str | None,
    typer.Option(
        "--cuts", metavar="CUTS", help="With --op: explain this split, such as '((2,4),(4,1))'."
    ),
]


def explain(
    plan: options.PlanPath,
    *,
    op: options.OperatorName = None,
    tensor: TensorName = None,
    rivals: Rivals = 3,
    cuts: CutsText = None,
    why_not: explain_options.WhyNotTexts = None,
    sensitivity: Sensitive = False,
    as_json: options.Json = False,
) -> None:
    """Say why a plan is as it is: what costs, what forces it, what would be next best."""
    _check(op=op, tensor=tensor, cuts=cuts, rivals=rivals, other=bool(why_not) + sensitivity)
    found = _read(plan)
    if why_not:
        _other_ways(found, why_not, as_json=as_json)
        return
    from planner import explain as explained  # noqa: PLC0415  brings in the planner

    if op is not None or tensor is not None:
        _tell(_explained(found, op, tensor, rivals, _cuts(cuts)), as_json=as_json)
        return
    question = explained.sensitivity if sensitivity else explained.summary
    with Progress() as progress:
        answer = question(found, progress)
    _tell(answer, as_json=as_json)


def _cuts(text: str | None) -> Cuts | None:
    if text is None:
        return None
    from planner.requests.option_texts import pins  # noqa: PLC0415

    return pins([f"x={text}"])[0][1]


def _check(
    *, op: str | None, tensor: str | None, cuts: str | None, rivals: int, other: int
) -> None:
    """Raise `UserError` if the options do not go together."""
    asked = [text for text, given in (("--op", op), ("--tensor", tensor)) if given is not None]
    if len(asked) + other > 1:
        raise UserError(
            "one question at a time",
            " and ".join([*asked, *(["--why-not or --sensitivity"] if other else [])]),
            "leave all but one out",
        )
    if cuts is not None and op is None:
        raise UserError("cuts of which operator?", f"--cuts {cuts}", "name it with --op")
    if not 0 <= rivals <= MOST_RIVALS:
        raise UserError(
            f"0 to {MOST_RIVALS} candidates are shown", f"--rivals {rivals}", "such as --rivals 3"
        )


def _read(path: Path) -> Plan:
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    return read_plan(path, staged=True)


def _other_ways(plan: Plan, texts: list[str], *, as_json: bool) -> None:
    from planner.explain import why_not  # noqa: PLC0415  brings in the planner

    with Progress() as progress:
        found = [why_not(plan, text, progress) for text in texts]
    if as_json:
        _print_json(explain_options.in_json(found))
        return
    explain_options.print_answers(found)


def _tell(found: PlanExplanation | Sensitivity | OperatorExplanation, *, as_json: bool) -> None:
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
