"""Leave models out, and leave layouts out: how far off predictions are for runs not seen."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.training.baseline import baseline_s, fit_utilisation
from costmodel.training.families import block_of
from costmodel.training.fitting import fit
from costmodel.training.neighbours import NEIGHBOURS_OF_NOBODY, Neighbours, columns_of
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from costmodel.training.constants import StepConstants
    from costmodel.training.families import Family
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

__all__ = ["FamilyFit", "fit_family"]

_USUAL_UTILISATION = 0.4
"""The baseline's utilisation where no other row says one (assumed)."""

_EQUAL_ROWS = 60
"""A block with more rows than this counts as if it had so many, lest it drown the others."""


_FOLDS = 8
"""Parts of the layouts, one of which is left out at a time."""


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """Constants of a family and the errors of its rows, all of shape (N,)."""

    family: Family
    constants: StepConstants
    runs: tuple[TrainingRun, ...]
    measured_s: FloatArray
    fitted_s: FloatArray
    """Formulas with constants fitted to all rows."""

    plain_unseen_s: FloatArray
    """Formulas alone for each row, with constants fitted to the other models."""

    unseen_s: FloatArray
    """The same with what the formulas miss of runs of the other models."""

    widths_s: FloatArray
    """The same without all models that are as wide: no layer of theirs is known."""

    layouts_s: FloatArray
    """Predictions for each row from the other seven eighths of the layouts: of models that were
    seen, mostly."""

    unseen_deviation: FloatArray
    """Standard deviation of `unseen_s` by what the other models' runs say; see `Neighbours`."""

    layouts_deviation: FloatArray
    """The same of `layouts_s`."""

    widths_deviation: FloatArray
    """The same of `widths_s`."""

    baseline_s: FloatArray
    """The baseline's predictions, fitted to the other models of the block."""


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Predictions of rows that the fit did not see, each of shape (N,)."""

    plain_s: FloatArray
    """Formulas alone."""

    step_s: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a family."""

    family: Family
    start: StepConstants
    table: RunTable
    machines: NDArray[np.str_]
    measured_s: FloatArray
    weights: FloatArray

    def trained(self, rows: NDArray[np.int64]) -> StepConstants:
        """Constants fitted to some rows; those of the start where there are none."""
        if not rows.size:
            return self.start
        table, measured = self.table.take(rows), self.measured_s[rows]
        return fit(table, measured, self.family.fitted, self.start, weights=self.weights[rows])

    def left_out(self, groups: Sequence[Any]) -> _LeftOut:
        """Predictions of each row by constants and runs of the rows outside its group."""
        plain, factors, deviations = (np.zeros(len(groups)) for _ in range(3))
        for rows, rest in _parts(np.array(groups)):
            constants, table = self.trained(rest), self.table.take(rows)
            alike = self.neighbours(rest, constants)
            plain[rows] = step_times(table, constants).total
            factors[rows] = alike.factor(table, self.machines[rows])
            deviations[rows] = alike.deviation(table, self.machines[rows])
        return _LeftOut(plain, plain * factors, deviations)

    def neighbours(self, rows: NDArray[np.int64], constants: StepConstants) -> Neighbours:
        """What the formulas miss of some rows."""
        if not rows.size:
            return NEIGHBOURS_OF_NOBODY
        table = self.table.take(rows)
        missed = np.log(self.measured_s[rows] / step_times(table, constants).total)
        return Neighbours.of(columns_of(table, rows.size), self.machines[rows], missed)


def fit_family(
    family: Family, runs: Sequence[TrainingRun], measured_s: FloatArray, start: StepConstants
) -> FamilyFit:
    """Fit a family to its rows, and again without each of its models and each part of its layouts.

    Where a family has one model alone, leaving it out leaves the parent's constants.
    """
    table = RunTable.of(runs)
    blocks = np.array([block_of(run) for run in runs])
    machines = np.array([run.machine for run in runs])
    rows_of = _Rows(family, start, table, machines, measured_s, _weights(blocks))
    constants = rows_of.trained(np.arange(len(runs)))
    models = [run.model.name.lower() for run in runs]
    plain = np.zeros(len(runs))
    for rows, rest in _parts(np.array(models)):
        plain[rows] = _baseline(table, measured_s, blocks, rows, rest)
    unseen = rows_of.left_out(models)
    layouts = rows_of.left_out([_fold(run) for run in runs])
    widths = rows_of.left_out([run.model.hidden for run in runs])
    return FamilyFit(
        family=family,
        constants=constants,
        runs=tuple(runs),
        measured_s=measured_s,
        fitted_s=step_times(table, constants).total,
        plain_unseen_s=unseen.plain_s,
        unseen_s=unseen.step_s,
        widths_s=widths.step_s,
        layouts_s=layouts.step_s,
        unseen_deviation=unseen.deviation,
        layouts_deviation=layouts.deviation,
        widths_deviation=widths.deviation,
        baseline_s=plain,
    )


def _parts(groups: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The rows of each group, and the others."""
    for group in np.unique(groups):
        yield np.flatnonzero(groups == group), np.flatnonzero(groups != group)


def _fold(run: TrainingRun) -> int:
    """The part that a configuration belongs to; repeats of it belong to the same, as do runs that
    differ in the order of passes alone or in the groups of experts, which no text of a record has.
    """
    what = (run.model, run.layout, run.machine, run.precision, run.attention)
    return zlib.crc32(repr(what).encode()) % _FOLDS


def _weights(blocks: np.ndarray[tuple[int], np.dtype[np.str_]]) -> FloatArray:
    _, where, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    weights: FloatArray = np.minimum(1.0, np.sqrt(_EQUAL_ROWS / counts[where]))
    return weights


def _baseline(
    table: RunTable,
    measured_s: FloatArray,
    blocks: np.ndarray[tuple[int], np.dtype[np.str_]],
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    rest: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> FloatArray:
    """The baseline for some rows, fitted to those of the other models in the same block."""
    times = np.zeros(rows.size)
    for block in sorted(set(blocks[rows])):
        mine = blocks[rows] == block
        others = rest[blocks[rest] == block]
        others = others if others.size else rest
        utilisation = {(0.0, 0.0): _USUAL_UTILISATION}
        if others.size:
            utilisation = fit_utilisation(table.take(others), measured_s[others])
        times[mine] = baseline_s(table.take(rows[mine]), utilisation)
    return times
