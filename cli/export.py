"""`planner export`: a plan becomes the strategy file of a framework."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli import options
from cli.arguments import one_of
from cli.files import Writer, write_files

if TYPE_CHECKING:
    from ir.plan import Plan

FORMATS = ("mindspore",)

EPILOG = """\b
Examples:
  planner export plan/plan.json --format mindspore -o strategy.ckpt
  planner export plan/plan.json --format mindspore -o strategy.json
  planner export plan.json -o run/strategy.ckpt

\b
Exit status: 0 written, 2 a fault in the command or the plan."""


def export(
    plan: options.PlanPath, output: options.OutputFile, form: options.Format = "mindspore"
) -> None:
    """Write the strategy file of a framework from a plan."""
    one_of(form, FORMATS, "--format", "format")
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    found = read_plan(plan)
    written = write_files(output.parent, {output.name: strategy_writer(found)})
    print(written[0])
    for loss in strategy_losses(found):
        print(f"note: {loss}", file=sys.stderr)


def strategy_losses(plan: Plan) -> tuple[str, ...]:
    """What the strategy file of a plan cannot say, a sentence each."""
    from exporters.mindspore import losses  # noqa: PLC0415

    return losses(plan)


def strategy_writer(plan: Plan) -> Writer:
    """Writes MindSpore's parameter-strategy checkpoint; the suffix of the path decides its form."""
    from exporters import mindspore, mindspore_strategy  # noqa: PLC0415

    checkpoint = mindspore.strategy_checkpoint(plan)

    def write(path: Path) -> None:
        mindspore_strategy.write(path, checkpoint)

    return write
