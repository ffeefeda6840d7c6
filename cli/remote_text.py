"""What a service found, for people, where its answer is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topology.units import format_seconds


def print_verification(found: Mapping[str, Any]) -> None:
    """The verdict, and what is wrong."""
    print(found["status"])
    for output in found["outputs"]:
        error = "no bound" if output["error"] is None else f"{output['error']:.3g}"
        print(f"  {output['name']}: error {error}")
    for name in found["missing"]:
        print(f"  missing: {name}")
    for name, why in found["not_verified"].items():
        print(f"  not verified: {name}: {why}")
    for each in found["mismatches"]:
        print(f"  other than promised: {', '.join(f'{k} {v}' for k, v in each.items())}")
    for note in found["notes"]:
        print(f"  {note}")


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
