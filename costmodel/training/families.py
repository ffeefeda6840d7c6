"""Families of runs: those that share fitted constants, and where a run belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import data
from costmodel.training.generic import GENERIC
from costmodel.training.machines import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from costmodel.training.records import TrainingRun

__all__ = [
    "Family", "MemoryFamily", "block_of", "families", "family_for", "family_of",
    "memory_families", "stand_in",
]  # fmt: skip


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
    found = (
        MemoryFamily(**{**e, "fitted": tuple(e["fitted"])})
        for e in data.calibration("training_families")["memory"]
    )
    return {family.profile: family for family in found}


@cache
def families() -> dict[str, Family]:
    """All families by name; a parent stands before its children."""
    found = {}
    for entry in data.calibration("training_families")["families"]:
        lists = {key: tuple(entry[key]) for key in ("generations", "fitted")}
        found[entry["name"]] = Family(**{**entry, **lists})
    return found


def family_of(run: TrainingRun) -> tuple[Family, str]:
    """The family whose constants hold for a run, and how far it is from the run itself.

    On chips without runs of a profile, those of the software that its constants began at go before
    its own on other chips: what a product reaches is the chip's. So do those of the usual software
    of these chips where its own runs are on chips of other makers alone.

    Returns:
        The family, and an empty text if profile, chips and kind of model agree; else what differs.
    """
    kind = "routed" if run.model.experts else "dense"
    return family_for(run.profile, machine(run.machine).generation, kind)


def family_for(software: str, generation: str, kind: str) -> tuple[Family, str]:
    """The same of a profile, a generation of chips, and `dense` or `routed`."""
    if software == GENERIC:
        return Family(GENERIC, GENERIC, (), ()), ""
    profile = stand_in(software) if kind == "dense" else software
    fit = [
        family
        for family in families().values()
        if family.profile == profile and family.kind in {"", kind}
    ]
    for family in fit:
        if generation in family.generations:
            own = profile == software
            return family, "" if own else f"constants of {family.name}: software not named"
    return _nearest(fit, generation, kind, software)


def _nearest(fit: Sequence[Family], generation: str, kind: str, profile: str) -> tuple[Family, str]:
    """The family that stands in for one of a profile on these chips, and why.

    Args:
        fit: families of the profile, on other chips.
        generation: of the chips.
        kind: of the model.
        profile: of the run.
    """
    older = next((each for one in fit for each in _ancestors(one, generation)), None)
    if older:
        return older, f"constants of {older.name}: no runs of {profile} on these chips"
    usual = _usual(generation, kind)
    if fit and not (usual and all(_foreign(family, generation) for family in fit)):
        near = min(fit, key=lambda family: _years_apart(family, generation))
        return near, f"constants of {near.name}: no runs of {profile} on these chips"
    if usual:
        return usual, f"constants of {usual.name}: no runs of {profile}"
    first = next(iter(families().values()))
    return first, f"constants of {first.name}: neither {profile} nor these chips are known"


def _ancestors(family: Family, generation: str) -> Iterator[Family]:
    """The families that a family's constants come from and that have runs of these chips."""
    while family.parent:
        family = families()[family.parent]
        if generation in family.generations:
            yield family


def stand_in(profile: str) -> str:
    """The profile whose constants a profile without any takes; itself if it has its own."""
    stands: Mapping[str, str] = data.calibration("training_families")["stands"]
    return stands.get(profile, profile)


def _usual(generation: str, kind: str) -> Family | None:
    """The family of the usual software of these chips; `None` where they have no runs."""
    usual = data.calibration("training_families")["usual"].get(generation, ())
    named = (families()[name] for name in usual)
    return next((family for family in named if family.kind in {"", kind}), None)


def _foreign(family: Family, generation: str) -> bool:
    """Whether all runs of a family are on chips of other makers than a generation's."""
    makers = data.calibration("training_families")["makers"]
    mine = makers.get(generation, generation)
    return all(makers.get(each, each) != mine for each in family.generations)


def _years_apart(family: Family, generation: str) -> int:
    """Years between the chips of a family and a generation; the same for all if one is unknown."""
    years = data.calibration("training_families")["years"]
    return min(
        (abs(years[each] - years.get(generation, years[each])) for each in family.generations),
        default=0,
    )


def block_of(run: TrainingRun) -> str:
    """The name under which a run is reported and bounded."""
    family, _ = family_of(run)
    if family.split != "servers":
        return family.name
    several = run.layout.devices > (run.server or machine(run.machine).server)
    return f"{family.name}, {'several servers' if several else 'one server'}"
