"""docs/machines.md: every number of the bundled chips and servers, with its origin.

`make docs` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import data
from topology.catalogue import cluster_names, named_machine, server_names
from topology.chips import chip_names, chip_profile
from topology.server_file import ServerFile
from topology.uses import bundled

PAGE = Path(__file__).parents[2] / "docs" / "machines.md"

_HEAD = """\
# Chips and servers: every number with its source

`make docs` writes this page from `data/chips`, `data/servers` and `data/clusters`.
`planner topology show NAME` prints one entry with notes on how each number was found. Bandwidths
are per direction. [topology.md](topology.md) describes the file format. Every number has a level of
confidence:

- `high`: from a primary source or source code, or from two independent sources
- `medium`: from one secondary source, or derived in one step
- `low`: from memory, or sources disagree; verify it before you rely on it
- `assumed`: no source; the note in the file gives the reason
"""


def machines_page() -> str:
    """The text of the page."""
    chips = {name: chip_profile(name).model_dump(exclude_none=True) for name in chip_names()}
    servers = {
        name: ServerFile.model_validate(bundled("servers", name)).model_dump(exclude_none=True)
        for name in server_names()
    }
    clusters = {
        name: named_machine(name).file.cluster.model_dump(exclude_none=True)
        for name in cluster_names()
    }
    parts = [_HEAD]
    for title, records in (("Chips", chips), ("Servers", servers), ("Clusters", clusters)):
        parts.append(f"## {title}\n")
        parts.append(_table(records))
    parts.append("## Sources\n")
    parts.append(_sources([*chips.values(), *servers.values(), *clusters.values()]))
    return "\n".join(parts)


def _table(records: Mapping[str, Any]) -> str:
    """Numbers of one origin stand in one row."""
    lines = ["| name | numbers | confidence | source |", "|---|---|---|---|"]
    for name, record in records.items():
        rows: dict[tuple[str, str], list[str]] = {}
        for path, number in numbers(record):
            origin = number["confidence"], ", ".join(number["source"]) or "-"
            rows.setdefault(origin, []).append(f"{path} {number['value']}")
        for (confidence, source), told in rows.items():
            lines.append(f"| `{name}` | {'; '.join(told)} | {confidence} | {source} |")
    return "\n".join(lines) + "\n"


def numbers(record: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a record with its place."""
    for key, value in record.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, dict) and "value" in value:
            yield here, value
        elif isinstance(value, dict):
            yield from numbers(value, here)


def _sources(records: list[Any]) -> str:
    used = {key for record in records for _, number in numbers(record) for key in number["source"]}
    known = data.read_yaml("sources.yaml")
    lines = [f"| {key} | {known[key].replace('|', '/')} |" for key in sorted(used)]
    return "\n".join(["| key | source |", "|---|---|", *lines]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(machines_page(), encoding="utf-8")
