"""The `planner` command: parse, call, render."""
