"""`python -m cli`, the same as the `planner` script."""

from cli.main import app

app(prog_name="planner")
