"""Machines that a command names: a bundled one, a cluster file, or a rank table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import UserError

if TYPE_CHECKING:
    from topology.machine import Machine

MOST_BYTES = 2**26
"""Larger files are not read: cluster files are far smaller, and so are rank tables."""
_SUFFIXES = (".yaml", ".yml", ".json")
_RANK_TABLE_KEYS = (
    '"server_list"', '"group_list"', '"rank_list"', '"super_pod_list"', '"node_list"',
)  # fmt: skip


def is_file_name(name: str) -> bool:
    """Whether a machine's name is that of a file; bundled names have neither suffix nor slash."""
    return "/" in name or Path(name).suffix.lower() in _SUFFIXES


def machine_text(path: Path, where: str) -> str:
    """The text of a file, if it can be a machine.

    Raises:
        UserError: it cannot be read, is larger, or is no text.
    """
    fix = "name a cluster file (YAML or JSON) or a rank table (JSON)"
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is no regular file", where, fix)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path} is larger than {MOST_BYTES} bytes", where, fix)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text in UTF-8", where, fix) from error
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}", where, fix) from error


def is_rank_table(text: str, path: Path) -> bool:
    """Whether a text is meant as a rank table; a cluster file names its schema_version."""
    if "schema_version" in text:
        return False
    is_json = text.lstrip()[:1] == "{" and any(key in text for key in _RANK_TABLE_KEYS)
    return is_json or path.suffix.lower() == ".json"


def named_machine(name: str, where: str) -> Machine:
    """The machine of a bundled name or of a cluster file.

    Raises:
        UserError: the file cannot be read, or is a rank table.
        ClusterError: there is no such machine, or the file has faults.
    """
    from topology.catalogue import named_machine as bundled  # noqa: PLC0415  brings in pydantic
    from topology.loading import load_machine  # noqa: PLC0415

    if not is_file_name(name):
        return bundled(name)
    path = Path(name)
    text = machine_text(path, where)
    if is_rank_table(text, path):
        raise UserError(
            f"{path} is a rank table, which has no links",
            where,
            "name a cluster file; `planner topology check` reads rank tables",
        )
    return load_machine(text, str(path))
