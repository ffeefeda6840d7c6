"""Leave models, widths, sources or machines out: how far off predictions are for runs not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.training_baseline import baseline_s, fit_utilisation
from costmodel.training.calibration import general_constants
from costmodel.training.families import block_of
from costmodel.training.fitting import PRIORS, fit
from costmodel.training.neighbours import (
    NEIGHBOURS_OF_NOBODY,
    UNKNOWN_DEVIATION,
    Neighbours,
    columns_of,
)
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from costmodel.training.constants import StepConstants
    from costmodel.training.families import Family
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

__all__ = ["SHARED", "WAYS", "FamilyFit", "FamilyRows", "LeftOut", "fit_families"]

WAYS = ("sources", "models", "widths", "machines")
"""What is left out in turn."""

SHARED = ("sources", "machines")
"""Of them, what the constants that a family begins at have not seen either."""

_USUAL_UTILISATION = 0.4
"""The baseline's utilisation where no other row says one (assumed)."""

_GAIN = 0.9
"""Share of errors that a look-up of similar runs leaves at most where it is kept."""

_FEWEST = 20
"""Rows that say whether it does."""

_MOVED, _STAYED = 0.25, 0.05
"""Spreads of a prior by which a constant is moved by rows, or is not."""

_EQUAL_ROWS = 60
"""A block with more rows than this counts as if it had so many, lest it drown the others."""


@dataclass(frozen=True, slots=True)
class FamilyRows:
    """The measured runs of a family."""

    runs: tuple[TrainingRun, ...]
    measured_s: FloatArray
    """Shape (N,)."""

    sources: tuple[str, ...]
    """Where each run was published; see `source_of`."""

    def groups(self, way: str) -> NDArray[np.str_]:
        """What each run is left out with, shape (N,)."""
        named = {
            "sources": self.sources,
            "models": [run.model.name.lower() for run in self.runs],
            "widths": [str(run.model.hidden) for run in self.runs],
            "machines": [run.machine for run in self.runs],
        }
        return np.array(named[way], dtype=np.str_)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Predictions of rows that the fit did not see, each of shape (N,)."""

    plain_s: FloatArray
    """Formulas alone."""

    step_s: FloatArray
    """The same with what the formulas miss of similar runs among the others."""

    deviation: FloatArray
    """Standard deviation of the logarithm of `step_s`; see `Neighbours`."""

    others: FloatArray
    """Rows of the family that the constants were fitted to."""


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """Constants of a family and the predictions for its rows, all of shape (N,)."""

    family: Family
    constants: StepConstants
    rows: FamilyRows
    fitted_s: FloatArray
    """Formulas with constants fitted to all rows."""

    left_out: Mapping[str, LeftOut]
    """By what was left out, one of `WAYS`."""

    without_source: Mapping[str, StepConstants]
    """Constants by the source that they have not seen."""

    start: StepConstants
    """Where they begin: the centres of their priors."""

    baseline_s: FloatArray
    """The baseline's predictions, fitted to the other models of the block."""

    @property
    def looks_up(self) -> bool:
        """Whether similar runs of other sources make runs of a source that was left out better
        predicted: the median and the mean error by a tenth, the 90th percentile no worse, in at
        least twenty rows.
        """
        left = self.left_out["sources"]
        alone, looked_up = (
            np.abs(np.log(times / self.rows.measured_s)) for times in (left.plain_s, left.step_s)
        )
        gains = (each(looked_up) <= _GAIN * each(alone) for each in (np.median, np.mean))
        tails = (float(np.quantile(each, 0.9)) for each in (looked_up, alone))
        return len(alone) >= _FEWEST and bool(all(gains)) and next(tails) <= next(tails)

    def predicted(self, way: str) -> tuple[FloatArray, FloatArray]:
        """Seconds of each row as the package predicts it, and the deviation of their logarithms."""
        left = self.left_out[way]
        if self.looks_up:
            return left.step_s, left.deviation
        return left.plain_s, np.full(len(left.plain_s), UNKNOWN_DEVIATION)

    def one_source(self) -> tuple[str, ...]:
        """Fitted constants that stay where they begin without one of the sources."""
        return tuple(
            name
            for name in self.family.fitted
            if self._moved(self.constants, name) > _MOVED
            and any(self._moved(each, name) < _STAYED for each in self.without_source.values())
        )

    def _moved(self, constants: StepConstants, name: str) -> float:
        """How far a constant is from where it begins, in spreads of its prior."""
        prior = PRIORS[name]
        ends = (max(getattr(each, name), 1e-12) for each in (constants, self.start))
        one, other = (prior.coordinate(value) for value in ends)
        return abs(one - other) / prior.spread


def fit_families(families: Mapping[str, Family], rows: Mapping[str, FamilyRows]) -> list[FamilyFit]:
    """Fit families to their rows, and again without each group of rows of each of `WAYS`.

    Without a source or a machine the parents of a family are fitted without it as well. Where no
    row of a family is left, its parent's constants stay.

    Args:
        families: by name, parents before their children.
        rows: by the name of the family; a family without any is left out of the result.
    """
    fits = _Fits(families, {name: _Prepared(each) for name, each in rows.items() if each.runs})
    return [fits.family_fit(name) for name in families if name in fits.prepared]


class _Prepared:
    """Rows of a family, side by side."""

    def __init__(self, rows: FamilyRows) -> None:
        self.rows = rows
        self.table = RunTable.of(rows.runs)
        self.blocks = np.array([block_of(run) for run in rows.runs])
        self.machines = rows.groups("machines")
        self.groups = {way: rows.groups(way) for way in WAYS}
        self.weights = _weights(self.blocks)

    def neighbours(self, rows: NDArray[np.int64], constants: StepConstants) -> Neighbours:
        """What the formulas miss of some rows."""
        if not rows.size:
            return NEIGHBOURS_OF_NOBODY
        table = self.table.take(rows)
        missed = np.log(self.rows.measured_s[rows] / step_times(table, constants).total)
        return Neighbours.of(columns_of(table, rows.size), self.machines[rows], missed)


class _Fits:
    """Constants of families by what they have not seen."""

    def __init__(self, families: Mapping[str, Family], prepared: Mapping[str, _Prepared]) -> None:
        self.families, self.prepared = families, prepared
        self._whole: dict[str, StepConstants] = {}
        self._without: dict[tuple[str, str, str], StepConstants] = {}

    def family_fit(self, name: str) -> FamilyFit:
        """The fit of one family, and its rows left out in every way."""
        own = self.prepared[name]
        constants = self.constants(name)
        return FamilyFit(
            family=self.families[name],
            constants=constants,
            rows=own.rows,
            fitted_s=step_times(own.table, constants).total,
            left_out={way: self.left_out(name, way) for way in WAYS},
            without_source={
                str(source): self.without(name, "sources", str(source))
                for source in np.unique(own.groups["sources"])
            },
            start=self._start(name),
            baseline_s=_baselines(own),
        )

    def constants(self, name: str) -> StepConstants:
        """Those of a family fitted to all its rows."""
        if name not in self._whole:
            everything = np.arange(len(self.prepared[name].rows.runs))
            self._whole[name] = self._trained(name, everything, self._start(name))
        return self._whole[name]

    def left_out(self, name: str, way: str) -> LeftOut:
        """Predictions of each row by constants and runs of the rows outside its group."""
        own = self.prepared[name]
        count = len(own.rows.runs)
        plain, factors, deviations, others = (np.zeros(count) for _ in range(4))
        for group, rows, rest in _parts(own.groups[way]):
            constants = self.without(name, way, group)
            table, machines = own.table.take(rows), own.machines[rows]
            alike = own.neighbours(rest, constants)
            plain[rows] = step_times(table, constants).total
            factors[rows] = alike.factor(table, machines)
            deviations[rows] = alike.deviation(table, machines)
            others[rows] = rest.size
        return LeftOut(plain, plain * factors, deviations, others)

    def without(self, name: str, way: str, group: str) -> StepConstants:
        """Constants of a family that have not seen a group of rows."""
        key = (name, way, group)
        if key not in self._without:
            self._without[key] = self._trained_without(*key)
        return self._without[key]

    def _trained_without(self, name: str, way: str, group: str) -> StepConstants:
        start = self._start(name)
        if way in SHARED and any(self._has(each, way, group) for each in self._ancestors(name)):
            start = self._begun(name, self.without(self.families[name].parent, way, group))
        elif not self._has(name, way, group):
            return self.constants(name)
        if name not in self.prepared:
            return start
        rest = np.flatnonzero(self.prepared[name].groups[way] != group)
        return self._trained(name, rest, start)

    def _has(self, name: str, way: str, group: str) -> bool:
        return name in self.prepared and bool(np.any(self.prepared[name].groups[way] == group))

    def _ancestors(self, name: str) -> Iterator[str]:
        while name := self.families[name].parent:
            yield name

    def _start(self, name: str) -> StepConstants:
        parent = self.families[name].parent
        known = parent in self.prepared
        return self._begun(name, self.constants(parent) if known else general_constants())

    def _begun(self, name: str, parent: StepConstants) -> StepConstants:
        return replace(parent, **self.families[name].priors)

    def _trained(self, name: str, rows: NDArray[np.int64], start: StepConstants) -> StepConstants:
        if not rows.size:
            return start
        own = self.prepared[name]
        table, measured = own.table.take(rows), own.rows.measured_s[rows]
        fitted = self.families[name].fitted
        return fit(table, measured, fitted, start, weights=own.weights[rows])


def _parts(
    groups: NDArray[np.str_],
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Each group with its rows, and the others."""
    for group in np.unique(groups):
        yield str(group), np.flatnonzero(groups == group), np.flatnonzero(groups != group)


def _weights(blocks: NDArray[np.str_]) -> FloatArray:
    _, where, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    weights: FloatArray = np.minimum(1.0, np.sqrt(_EQUAL_ROWS / counts[where]))
    return weights


def _baselines(own: _Prepared) -> FloatArray:
    """The baseline for each row, fitted to the other models of its block."""
    times = np.zeros(len(own.rows.runs))
    measured = own.rows.measured_s
    for _, rows, rest in _parts(own.groups["models"]):
        for block in sorted(set(own.blocks[rows])):
            mine = rows[own.blocks[rows] == block]
            others = rest[own.blocks[rest] == block]
            others = others if others.size else rest
            utilisation = {(0.0, 0.0): _USUAL_UTILISATION}
            if others.size:
                utilisation = fit_utilisation(own.table.take(others), measured[others])
            times[mine] = baseline_s(own.table.take(mine), utilisation)
    return times
