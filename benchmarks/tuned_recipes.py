"""Beside recipes that their vendor tuned: how much faster our model says that another layout is.

Usage: python -m benchmarks.tuned_recipes ROWS.csv

Rows of Megatron-Bridge's and NeMo's performance pages, the last release of each model, machine,
type of products and number of devices. Constants have not seen the row's source, similar runs are
not looked up, and layouts are ranked by the 75th percentile of their interval. A claim is the step
of the published layout over that of the layout found, both by the same model; of one above 10 %
the term that makes most of it is named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.calibrate import fit_all
from benchmarks.training_crossvalidation import FamilyFit
from costmodel.training.calibration import Calibration, shipped_calibration
from costmodel.training.dataset import Entry, read_entries, read_table
from costmodel.training.families import family_of
from costmodel.training.neighbours import NEIGHBOURS_OF_NOBODY
from costmodel.training.records import TrainingLayout, TrainingRun
from costmodel.training.stacks import software_flags
from costmodel.training.step import step_times
from costmodel.training.step_terms import step_terms
from costmodel.training.table import RunTable
from planner.whatif.layout_ranking import layout_text
from planner.whatif.layouts import priced_layouts

_TOLD = 1.1
"""Claims from which on the term that makes them is named."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A published layout beside the fastest of the space."""

    run: TrainingRun
    found: TrainingRun
    gain: float
    """Step of the published layout over that of the other one."""
    terms: Mapping[str, float]
    """By how much of the published step each term is shorter."""


def main() -> None:
    """Print the quantiles of all claims, and the large ones with their terms."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    path: Path = parser.parse_args().rows
    entries = read_entries(read_table(path.read_text(encoding="utf-8"), str(path)))
    own = tuple(filter(_is_tuned, entries))
    claims = sorted(_claims(own), key=lambda each: -each.gain)
    gains = np.array([each.gain for each in claims])
    print(
        f"{len(claims)} recipes: median {np.median(gains):.3f}, 90th percentile "
        f"{np.quantile(gains, 0.9):.3f}, largest {gains.max():.3f}; above {_TOLD}: "
        f"{int((gains > _TOLD).sum())}\n"
    )
    print("| model, devices, products | published | found | claim | terms |\n|---|---|---|--:|---|")
    for each in claims:
        if each.gain > _TOLD:
            print(_line(each))


def _is_tuned(entry: Entry) -> bool:
    if entry.read is None or entry.step_s is None:
        return False
    return family_of(entry.read.run)[0].profile == "megatron-core" and any(
        name in entry.source for name in ("megatron-bridge", "nemo")
    )


def _claims(entries: tuple[Entry, ...]) -> Iterator[Claim]:
    fits = {fitted.family.name: fitted for fitted in fit_all(entries)}
    last: dict[tuple[object, ...], Entry] = {}
    for entry in sorted(entries, key=lambda each: each.source):
        run = entry.read.run  # type: ignore[union-attr]  # `_is_tuned`
        last[run.model.name, run.machine, run.precision, run.layout.devices] = entry
    with patch("planner.whatif.layouts.neighbours_of", lambda _: NEIGHBOURS_OF_NOBODY):
        for entry in last.values():
            run = entry.read.run  # type: ignore[union-attr]
            family = family_of(run)[0].name
            if family in fits:
                yield _claim(run, _without(fits[family], entry.source))


def _without(fitted: FamilyFit, source: str) -> Calibration:
    """Constants that have not seen a source."""
    shipped = shipped_calibration()
    constants = fitted.without_source.get(source, fitted.constants)
    return replace(shipped, constants={**shipped.constants, fitted.family.name: constants})


def _claim(run: TrainingRun, known: Calibration) -> Claim:
    constants = known.constants[family_of(run)[0].name]
    flags = partial(_flags, run)
    space = priced_layouts(run, run.layout.devices, flags=flags, known=known)
    best = space.layout(space.ranked(robust=True)[0], run)
    found = replace(run, layout=best, flags=flags(best))
    own_s, found_s = (
        float(step_times(RunTable.of([each]), constants).total[0]) for each in (run, found)
    )
    ours, theirs = step_terms(found, known), step_terms(run, known)
    terms = {
        name: (theirs.get(name, 0.0) - ours.get(name, 0.0)) / own_s
        for name in {*ours, *theirs} - {"similar measured runs"}
    }
    return Claim(run, found, own_s / found_s, terms)


def _flags(run: TrainingRun, layout: TrainingLayout) -> frozenset[str]:
    """What the software does with a layout, and what the run has beside that."""
    usual = partial(software_flags, run.profile, run.machine, run.model.name)
    return usual(layout) | (run.flags - usual(run.layout))


def _line(claim: Claim) -> str:
    run = claim.run
    terms = sorted(claim.terms.items(), key=lambda each: -abs(each[1]))
    told = ", ".join(f"{name} {100 * share:+.0f} %" for name, share in terms if abs(share) > 0.02)
    job = f"{run.model.name}, {run.layout.devices} x {run.machine}, {run.precision}"
    texts = (layout_text(each.layout, "") for each in (run, claim.found))
    return f"| {job} | {' | '.join(texts)} | {claim.gain:.2f} | {told} |"


if __name__ == "__main__":
    main()
