"""The `planner` command. Imports little, so that `planner --help` answers at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.calibrate import app as calibrate_app
from cli.declared import WIDTH, Grouped, answering
from cli.diff import diff
from cli.explain import explain
from cli.export import export
from cli.group import Commands
from cli.import_strategy import import_strategy
from cli.inspect import inspect
from cli.jobs import app as jobs_app
from cli.layouts import layouts
from cli.mcp import mcp
from cli.mindspore import app as mindspore_app
from cli.recipe import recipe
from cli.reshard import reshard
from cli.run import run
from cli.search import search
from cli.serve import serve
from cli.show import show
from cli.simulate import simulate
from cli.sizes import sizes
from cli.solve import solve
from cli.topology import app as topology_app
from cli.validate import validate
from cli.verify import verify
from cli.whatif import whatif

EPILOG = """\b
Examples:
  planner inspect model.onnx
  planner search model.onnx --devices 16 --batch 64 -o plan
  planner show plan/plan.json
  planner verify model.onnx plan/plan.json
  planner export plan/plan.json --format mindspore -o strategy.ckpt"""

app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    search, inspect, sizes, show, simulate, diff, explain, export, import_strategy, verify, run,
    whatif, layouts, recipe, reshard, solve, validate, serve, mcp,
):  # fmt: skip
    app.command(
        cls=Grouped if hasattr(command, "__signature__") else None,
        epilog=sys.modules[command.__module__].EPILOG,
        context_settings={"max_content_width": WIDTH},
    )(command)
app.add_typer(topology_app, name="topology")
app.add_typer(calibrate_app, name="calibrate")
app.add_typer(jobs_app, name="jobs")
app.add_typer(mindspore_app, name="mindspore")


def _version(_: typer.Context) -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return f"planner {version('parallel-planner')}"
    except PackageNotFoundError:
        return "planner (not installed)"


FIRST_CONTACT = """\
planner plans how to split a network over a cluster. Three things that you can do now:

  find the fastest plan of a model on 16 devices
    planner search llama3-8b --devices 16 --batch 64
  rank tensor, pipeline and data parallel layouts on 256 devices
    planner layouts llama3-70b --devices 256 --batch 1024
  see where the time of a step goes in a layout of your own
    planner simulate llama3-70b --layout tp=8,pp=4,dp=8,batch=512,sp --cluster dgx-h100

`planner sizes --list` prints the models that are known by name; a file such as model.onnx does as
well. `planner --help` lists all commands."""


@app.callback(invoke_without_command=True)
def planner(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  it answers by itself
        bool, answering("--version", "Print the version and exit.", _version)
    ] = False,
) -> None:
    """Plan how to split a neural network over a cluster, and see what a step will cost."""
    if context.invoked_subcommand is None:
        print(FIRST_CONTACT)
