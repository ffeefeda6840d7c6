"""`planner calibrate`: constants from measurements. A subcommand stands in a file of its own."""

from __future__ import annotations

import typer

from cli.calibrate_host import EPILOG as HOST_EPILOG
from cli.calibrate_host import host
from cli.calibrate_links import EPILOG as LINKS_EPILOG
from cli.calibrate_links import links
from cli.calibrate_profile import EPILOG as PROFILE_EPILOG
from cli.calibrate_profile import profile
from cli.calibrate_steps import EPILOG as STEPS_EPILOG
from cli.calibrate_steps import steps
from cli.declared import Grouped

EPILOG = """\b
Examples:
  planner calibrate links all_reduce.log all_gather.log --cluster atlas-800t-a2 -o mine.yaml
  planner calibrate steps rows.csv -o mine.yaml
  planner calibrate host -o host.yaml
  planner calibrate profile trace.json.gz --cluster dgx-h100 -o mine.yaml"""

app = typer.Typer(
    help="Fit the constants of the cost model to measurements.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("host", cls=Grouped, epilog=HOST_EPILOG)(host)
app.command("links", cls=Grouped, epilog=LINKS_EPILOG)(links)
app.command("steps", cls=Grouped, epilog=STEPS_EPILOG)(steps)
app.command("profile", cls=Grouped, epilog=PROFILE_EPILOG)(profile)
