"""What a service found, for people, where its answer is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topology.units import format_seconds


def print_sweep(found: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Every point on a line, the best one marked."""
    for number, point in enumerate(found["points"]):
        mark = "*" if number == found["best"] else " "
        where = ", ".join(f"{name} {point.get(name)}" for name in found["axes"])
        step_s = point["step_s"]
        step = point["message"] or "no plan" if step_s is None else format_seconds(step_s)
        print(f"{mark} {where}: {step}")
    for path in files:
        print(f"  {path}")
