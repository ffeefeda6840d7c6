"""Names of machines: one table for every command, from `calibration/training_machines.yaml`.

A name is that of a bundled cluster, of a machine of published training runs, such as `h100` or
`a100-40g`, or one of its other names. Most of these machines are bundled clusters; some have the
wiring of one with another chip, and of some nothing but sizes is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import yaml

import data
from topology.errors import ClusterError

__all__ = ["KnownMachine", "known_machine", "known_machines", "spelled"]


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A machine of published training runs."""

    name: str
    aliases: tuple[str, ...]
    """Other names, such as that of its chip in `data/chips`."""
    clusters: tuple[str, ...]
    """Bundled clusters that it is."""
    like: str
    """The bundled cluster whose wiring it has with another chip; empty where there is none."""
    chip: str
    """Of `data/chips`."""

    @property
    def is_wired(self) -> bool:
        """Whether its links are known."""
        return bool(self.clusters or self.like)


@cache
def known_machines() -> Mapping[str, KnownMachine]:
    """All by name."""
    file: Any = yaml.safe_load(data.read_text("calibration", "training_machines.yaml"))
    return {
        name: KnownMachine(
            name,
            tuple(entry.get("aliases", ())),
            tuple(entry.get("clusters", ())),
            entry.get("like", ""),
            entry.get("device", entry["chip"]),
        )
        for name, entry in file["machines"].items()
    }


def known_machine(name: str) -> KnownMachine:
    """The machine of a name, an alias or a bundled cluster.

    Case, blanks, `-` and `_` make no difference.

    Raises:
        ClusterError: there is none.
    """
    plain = spelled(name)
    for known in known_machines().values():
        if plain in map(spelled, (known.name, *known.aliases, *known.clusters)):
            return known
    names = (*data.names("clusters"), *known_machines())
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ClusterError(
        f"unknown cluster {name[:80]!r}", "the cluster name", f"{hint}known: {', '.join(names)}"
    )


def spelled(name: str) -> str:
    """A name without what makes no difference."""
    return "".join(each for each in name.lower() if each not in " _-")
