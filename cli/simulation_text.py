"""What `planner simulate` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.text import head, show
from report.simulation import headline, parts, served_lines
from report.tables import Lines

if TYPE_CHECKING:
    from rich.console import Console


def print_simulation(
    found: Mapping[str, Any], files: Sequence[Path], out: Console, means: str = ""
) -> None:
    """Write the summary of a simulation.

    Args:
        found: as JSON has it.
        files: what was written.
        out: where to print.
        means: what the closed form assumes.
    """
    head(*headline(found, means), out)
    show(parts(found), out)
    notes = Lines("Notes", tuple(found["notes"]), "- ")
    show((notes, Lines("Written", tuple(map(str, files)), soft_wrap=True)), out)


def print_served(found: Mapping[str, Any], out: Console) -> None:
    """What the JSON object of a simulation with servers says."""
    first, *others = served_lines(found)
    head(first, others, out)
