"""Leave one model out: how far off predictions are for a model that no constant was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.baseline import baseline_s, fit_utilisation
from costmodel.training.families import block_of
from costmodel.training.fitting import fit
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.constants import StepConstants
    from costmodel.training.families import Family
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

__all__ = ["FamilyFit", "fit_family"]

_USUAL_UTILISATION = 0.4
"""The baseline's utilisation where no other row says one (assumed)."""

_EQUAL_ROWS = 60
"""A block with more rows than this counts as if it had so many, lest it drown the others."""


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """Constants of a family and the errors of its rows, all of shape (N,)."""

    family: Family
    constants: StepConstants
    runs: tuple[TrainingRun, ...]
    measured_s: FloatArray
    fitted_s: FloatArray
    """Predictions with constants fitted to all rows."""

    unseen_s: FloatArray
    """Predictions for each row with constants fitted to the other models."""

    baseline_s: FloatArray
    """The baseline's predictions, fitted to the other models of the block likewise."""


def fit_family(
    family: Family, runs: Sequence[TrainingRun], measured_s: FloatArray, start: StepConstants
) -> FamilyFit:
    """Fit a family to its rows, and once more without each of its models.

    Where a family has one model alone, leaving it out leaves the parent's constants.
    """
    table = RunTable.of(runs)
    blocks = np.array([block_of(run) for run in runs])
    weights = _weights(blocks)
    constants = fit(table, measured_s, family.fitted, start, weights=weights)
    models = np.array([run.model.name.lower() for run in runs])
    unseen, plain = np.zeros(len(runs)), np.zeros(len(runs))
    for model in sorted(set(models)):
        rows, rest = np.flatnonzero(models == model), np.flatnonzero(models != model)
        trained = start
        if rest.size:
            trained = fit(
                table.take(rest), measured_s[rest], family.fitted, start, weights=weights[rest]
            )
        unseen[rows] = step_times(table.take(rows), trained).total
        plain[rows] = _baseline(table, measured_s, blocks, rows, rest)
    return FamilyFit(
        family,
        constants,
        tuple(runs),
        measured_s,
        step_times(table, constants).total,
        unseen,
        plain,
    )


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
