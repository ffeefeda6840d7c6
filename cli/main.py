"""The `planner` command. Imports little, so that `planner --help` answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.calibrate import app as calibrate_app
from cli.diff import EPILOG as DIFF_EPILOG
from cli.diff import diff
from cli.explain import EPILOG as EXPLAIN_EPILOG
from cli.explain import explain
from cli.export import EPILOG as EXPORT_EPILOG
from cli.export import export
from cli.group import Commands
from cli.import_strategy import EPILOG as IMPORT_STRATEGY_EPILOG
from cli.import_strategy import import_strategy
from cli.inspect import EPILOG as INSPECT_EPILOG
from cli.inspect import inspect
from cli.layouts import EPILOG as LAYOUTS_EPILOG
from cli.layouts import layouts
from cli.reshard import EPILOG as RESHARD_EPILOG
from cli.reshard import reshard
from cli.search import EPILOG as SEARCH_EPILOG
from cli.search import search
from cli.serve import EPILOG as SERVE_EPILOG
from cli.serve import serve
from cli.show import EPILOG as SHOW_EPILOG
from cli.show import show
from cli.simulate import EPILOG as SIMULATE_EPILOG
from cli.simulate import simulate
from cli.sizes import EPILOG as SIZES_EPILOG
from cli.sizes import sizes
from cli.solve import EPILOG as SOLVE_EPILOG
from cli.solve import solve
from cli.topology import app as topology_app
from cli.validate import EPILOG as VALIDATE_EPILOG
from cli.validate import validate
from cli.verify import EPILOG as VERIFY_EPILOG
from cli.verify import verify
from cli.whatif import EPILOG as WHATIF_EPILOG
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
app.command(epilog=SEARCH_EPILOG)(search)
app.command(epilog=INSPECT_EPILOG)(inspect)
app.command(epilog=SIZES_EPILOG)(sizes)
app.command(epilog=SHOW_EPILOG)(show)
app.command(epilog=SIMULATE_EPILOG)(simulate)
app.command(epilog=DIFF_EPILOG)(diff)
app.command(epilog=EXPLAIN_EPILOG)(explain)
app.command(epilog=EXPORT_EPILOG)(export)
app.command(epilog=IMPORT_STRATEGY_EPILOG)(import_strategy)
app.command(epilog=VERIFY_EPILOG)(verify)
app.command(epilog=WHATIF_EPILOG)(whatif)
app.command(epilog=LAYOUTS_EPILOG)(layouts)
app.command(epilog=RESHARD_EPILOG)(reshard)
app.command(epilog=SOLVE_EPILOG)(solve)
app.command(epilog=VALIDATE_EPILOG)(validate)
app.command(epilog=SERVE_EPILOG)(serve)
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
