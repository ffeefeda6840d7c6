"""Machines that a command names: a bundled one, or a file that is read here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.files import text_of
from planner.requests.sources import Document

if TYPE_CHECKING:
    from topology.machine import Machine

_SUFFIXES = (".yaml", ".yml", ".json")


def is_file_name(name: str) -> bool:
    """Whether a machine's name is that of a file; bundled names have neither suffix nor slash."""
    return "/" in name or Path(name).suffix.lower() in _SUFFIXES


def machine_text(path: Path, where: str) -> str:
    """The text of a file, if it can be a machine.

    Raises:
        UserError: it cannot be read, is larger, or is no text.
    """
    fix = "name a cluster file (YAML or JSON) or a rank table (JSON)"
    return text_of(path, where, fix, regular=True)


def machine_file(name: str, where: str) -> Document | None:
    """The file of this name; `None` for the name of a bundled machine.

    Raises:
        UserError: it cannot be read.
    """
    return Document(name, machine_text(Path(name), where)) if is_file_name(name) else None


def named_machine(name: str, where: str) -> Machine:
    """The machine of a bundled name or of a cluster file.

    Raises:
        UserError: the file cannot be read, or is a rank table.
        ClusterError: there is no such machine, or the file has faults.
    """
    from planner.requests.machines import named_machine as found  # noqa: PLC0415  brings in pydantic

    return found(machine_file(name, where) or name, where)
