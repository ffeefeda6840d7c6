"""The `planner` command. Imports little, so that `planner --help` answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.calibrate import app as calibrate_app
from cli.diff import diff
from cli.explain import explain
from cli.export import export
from cli.group import Commands
from cli.import_strategy import import_strategy
from cli.inspect import inspect
from cli.layouts import layouts
from cli.recipe import recipe
from cli.reshard import reshard
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
    search, inspect, sizes, show, simulate, diff, explain, export, import_strategy, verify, whatif,
    layouts, recipe, reshard, solve, validate, serve,
):  # fmt: skip
    app.command(epilog=command.__globals__["EPILOG"])(command)
app.add_typer(topology_app, name="topology")
app.add_typer(calibrate_app, name="calibrate")


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        print(f"planner {version('parallel-planner')}")
    except PackageNotFoundError:
        print("planner (not installed)")
    raise typer.Exit


@app.callback()
def planner(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Plan how to split a neural network over a cluster, and see what a step will cost."""
