"""Whether pictures can be drawn."""

from __future__ import annotations

from importlib.util import find_spec

from planner.asking.errors import UserError

PICTURES = (".svg", ".png")


def check_drawing(option: str) -> None:
    """Raise `UserError` if what draws is not installed."""
    if find_spec("matplotlib") is None:
        raise UserError(
            "matplotlib is not installed", option, "pip install 'parallel-planner[plot]'"
        )
