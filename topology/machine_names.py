"""Names of machines: one table for every command, from the files of chips and clusters.

A machine is a bundled cluster. Its names are that of its file, that in tables of published runs
(`known_as`), and its aliases; a chip, and each alias of a chip, stands for the chip's usual
cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import data
from topology.errors import ClusterError, unknown_part
from topology.uses import bundled, expanded

__all__ = ["KnownMachine", "known_machine", "known_machines", "spelled"]


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A bundled cluster by its names."""

    name: str
    """In tables of published runs and of fitted constants."""
    cluster: str
    """Of `data/clusters`."""
    chip: str
    """Of `data/chips`: that of its first kind of server."""
    aliases: tuple[str, ...]
    """Other names, those of its chip where it is the usual cluster of that chip."""
    hardware: tuple[str, ...]
    """Patterns of the words that name it in a text."""


@cache
def known_machines() -> Mapping[str, KnownMachine]:
    """All by name, in the order of their clusters."""
    files = {name: bundled("clusters", name) for name in data.names("clusters")}
    chips = {name: _chip_of(name, file) for name, file in files.items()}
    usual = _usual(files, chips)
    return {known.name: known for known in _known(files, chips, usual)}


def known_machine(name: str) -> KnownMachine:
    """The machine of a cluster's name or alias, or of a chip that has a cluster.

    Case, blanks, `-` and `_` make no difference.

    Raises:
        ClusterError: there is none, or no cluster says how devices of that chip are joined.
    """
    plain = spelled(name)
    if plain in _by_spelling():
        return _by_spelling()[plain]
    chips = _chips_by_spelling()
    if plain in chips:
        raise ClusterError(
            f"no cluster of data/clusters has the chip {chips[plain]}",
            f"the cluster name {name[:80]}",
            "say in a cluster file how its devices are joined (docs/topology.md)",
        )
    raise unknown_part("cluster", name, (*data.names("clusters"), *known_machines()))


def spelled(name: str) -> str:
    """A name without what makes no difference."""
    return "".join(each for each in name.lower() if each not in " _-")


@cache
def _by_spelling() -> Mapping[str, KnownMachine]:
    return {
        spelled(each): known
        for known in known_machines().values()
        for each in (known.name, known.cluster, *known.aliases)
    }


@cache
def _chips_by_spelling() -> Mapping[str, str]:
    return {spelled(each): chip for chip in data.names("chips") for each in _chip_names(chip)}


def _known(
    files: Mapping[str, Mapping[str, Any]], chips: Mapping[str, str], usual: Mapping[str, str]
) -> Iterator[KnownMachine]:
    for cluster, file in files.items():
        chip = chips[cluster]
        aliases, hardware = list(file.get("aliases", ())), list(file.get("hardware", ()))
        if usual[chip] == cluster:
            aliases += _chip_names(chip)
            hardware += bundled("chips", chip).get("hardware", ())
        name = str(file.get("known_as", cluster))
        yield KnownMachine(name, cluster, chip, tuple(aliases), tuple(hardware))


def _usual(files: Mapping[str, Mapping[str, Any]], chips: Mapping[str, str]) -> dict[str, str]:
    """The cluster that each chip stands for: the one that says so, else the first."""
    found: dict[str, str] = {}
    for cluster, chip in chips.items():
        if chip not in found or files[cluster].get("usual"):
            found[chip] = cluster
    return found


def _chip_of(name: str, file: Mapping[str, Any]) -> str:
    """The chip of the first kind of server of a cluster."""
    whole, _ = expanded(file)
    chip = whole["servers"][whole["cluster"]["servers"][0]["use"]]["chip"]
    return str(chip if isinstance(chip, str) else name)


def _chip_names(chip: str) -> tuple[str, ...]:
    return (chip, *bundled("chips", chip).get("aliases", ()))
