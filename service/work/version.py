"""Which planner this is, so that answers of another one are not taken for its own."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def planner_version() -> str:
    """The version that is installed."""
    try:
        return version("parallel-planner")
    except PackageNotFoundError:
        return "not installed"
