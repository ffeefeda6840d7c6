"""Families of runs: those that share fitted constants, and where a run belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

import data
from costmodel.training.machines import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from costmodel.training.records import TrainingRun

__all__ = ["Family", "MemoryFamily", "block_of", "families", "family_of", "memory_families"]


@dataclass(frozen=True, slots=True)
class Family:
    """Runs of one software profile on one generation of chips."""

    name: str
    profile: str
    generations: tuple[str, ...]
    fitted: tuple[str, ...]
    """Constants that are fitted; the others are the parent's."""

    parent: str = ""
    """The family whose constants are the priors; empty for the general ones."""

    kind: str = ""
    """`dense`, `routed`, or empty for both."""

    priors: Mapping[str, float] = field(default_factory=dict)
    """Centres of priors that are not the parent's."""

    split: str = ""
    """`servers` where runs inside one server are reported apart from those across servers."""


@dataclass(frozen=True, slots=True)
class MemoryFamily:
    """What is known and what is fitted of the memory of one profile."""

    profile: str
    counter: str
    """What its runs report: `allocated`, `reserved` or `first`."""

    counted: dict[str, float]
    fitted: tuple[str, ...]
    parent: str = ""
    """The profile whose constants it takes; empty for the general ones."""


@cache
def memory_families() -> dict[str, MemoryFamily]:
    """The profiles whose memory is fitted, by name."""
    text = data.read_text("calibration", "training_families.yaml")
    file: dict[str, Any] = yaml.safe_load(text)
    return {
        entry["profile"]: MemoryFamily(
            entry["profile"],
            entry["counter"],
            dict(entry["counted"]),
            tuple(entry["fitted"]),
            entry.get("parent", ""),
        )
        for entry in file["memory"]
    }


@cache
def families() -> dict[str, Family]:
    """All families by name; a parent stands before its children."""
    text = data.read_text("calibration", "training_families.yaml")
    file: dict[str, Any] = yaml.safe_load(text)
    found = {}
    for entry in file["families"]:
        lists = {key: tuple(entry[key]) for key in ("generations", "fitted")}
        found[entry["name"]] = Family(**{**entry, **lists})
    return found


def family_of(run: TrainingRun) -> tuple[Family, str]:
    """The family whose constants hold for a run, and how far it is from the run itself.

    On chips without runs of a profile, those of the software that its constants began at go before
    its own on other chips: what a product reaches is the chip's.

    Returns:
        The family, and an empty text if profile, chips and kind of model agree; else what differs.
    """
    generation = machine(run.machine).generation
    kind = "routed" if run.model.experts else "dense"
    fit = [
        family
        for family in families().values()
        if family.profile == run.profile and family.kind in {"", kind}
    ]
    for family in fit:
        if generation in family.generations:
            return family, ""
    older = next((each for one in fit for each in _ancestors(one, generation)), None)
    if older:
        return older, f"constants of {older.name}: no runs of {run.profile} on these chips"
    if fit:
        near = min(fit, key=lambda family: _years_apart(family, generation))
        return near, f"constants of {near.name}: no runs of {run.profile} on these chips"
    for family in families().values():
        if generation in family.generations and family.kind in {"", kind}:
            return family, f"constants of {family.name}: no runs of {run.profile}"
    first = next(iter(families().values()))
    return first, f"constants of {first.name}: neither {run.profile} nor these chips are known"


def _ancestors(family: Family, generation: str) -> Iterator[Family]:
    """The families that a family's constants come from and that have runs of these chips."""
    while family.parent:
        family = families()[family.parent]
        if generation in family.generations:
            yield family


@cache
def _years() -> dict[str, int]:
    text = data.read_text("calibration", "training_families.yaml")
    return dict(yaml.safe_load(text)["years"])


def _years_apart(family: Family, generation: str) -> int:
    """Years between the chips of a family and a generation; the same for all if one is unknown."""
    years = _years()
    return min(
        (abs(years[each] - years.get(generation, years[each])) for each in family.generations),
        default=0,
    )


def block_of(run: TrainingRun) -> str:
    """The name under which a run is reported and bounded."""
    family, _ = family_of(run)
    if family.split != "servers":
        return family.name
    several = run.layout.devices > machine(run.machine).server
    return f"{family.name}, {'several servers' if several else 'one server'}"
