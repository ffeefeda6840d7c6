"""`planner show`: what stands in a plan, or in one operator of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.command_options import JSON
from cli.declared import command
from cli.files import write_files, writer_of
from planner.requests.options.explanations import OPERATOR
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from ir.plan import Plan

EPILOG = """\b
Examples:
  planner show plan/plan.json
  planner show plan/plan.json --op model.layers.0.mlp.gate_proj
  planner show plan/plan.json --html plan.html

\b
Exit status: 0 shown, 2 a fault in the command or the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCommand:
    """Of `planner show`."""

    op: Annotated[str | None, OPERATOR] = None
    html: Annotated[
        Path | None,
        Option(group=Group.OUTPUT, value="FILE", help="Write the report with plots too."),
    ] = None
    as_json: Annotated[bool, JSON] = False


@command
def show(plan: options.PlanPath, here: ShowCommand) -> None:
    """Print the summary of a plan, or one operator with its neighbours and collectives."""
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    found = read_plan(plan, staged=True)
    if here.op is not None:
        _show_operator(found, here.op, as_json=here.as_json)
        return
    files = [] if here.html is None else _written(found, here.html)
    if here.as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415
        from planner.requests.plan_json import found as answer  # noqa: PLC0415

        print(dumps(answer(found, files)))
        return
    from cli.plan_text import plan_parts  # noqa: PLC0415
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(plan_parts(found, files))


def _written(plan: Plan, target: Path) -> list[Path]:
    from exporters.html import to_html  # noqa: PLC0415

    return write_files(target.parent, {target.name: writer_of(to_html(plan))})


def _show_operator(plan: Plan, name: str, *, as_json: bool) -> None:
    from planner.requests.plan_names import operator_named  # noqa: PLC0415
    from report.plan_operator import operator_report, parts  # noqa: PLC0415

    facts = operator_report(plan, operator_named(plan, name))
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(asdict(facts)))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(parts(facts))
