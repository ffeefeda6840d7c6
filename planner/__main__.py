"""`python -m planner`, the same as the `planner` script."""

from cli.main import app

app(prog_name="planner")
