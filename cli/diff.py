"""`planner diff`: in what two plans differ."""

from __future__ import annotations

from cli import options
from cli.command_options import Printed
from cli.declared import command

EPILOG = """\b
Examples:
  planner diff before/plan.json after/plan.json
  planner diff 8_devices/plan.json 16_devices/plan.json
  planner diff a/plan.json b/plan.json --json

\b
Exit status: 0 compared, whether they differ or not; 2 a fault in the command or a plan."""


@command
def diff(plan: options.PlanPath, other: options.OtherPlanPath, here: Printed) -> None:
    """Compare two plans: time, memory, mesh, and the layouts that differ."""
    from ir.plan_file import read_plan  # noqa: PLC0415
    from planner.difference import difference  # noqa: PLC0415  brings in pydantic

    found = difference(read_plan(plan, staged=True), read_plan(other, staged=True))
    if here.as_json:
        from dataclasses import asdict  # noqa: PLC0415

        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps({"status": "ok", "equal": found.is_empty, **asdict(found)}))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.comparison import parts  # noqa: PLC0415

    tell(parts(found, (str(plan), str(other))))
