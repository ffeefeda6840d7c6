"""Intervals of training steps by block, from how far off runs were that the fit had not seen.

A score is the logarithm of measured over predicted time in units of the run's own standard
deviation (`Neighbours.deviation`). The interval of a block lies between quantiles of the scores of
its rows, each once with its model and once with its layout left out. Blocks have four rows or
seven hundred: the scores of all blocks, brought to the block's scale, count as a few rows more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.families import block_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.crossvalidation import FamilyFit
    from costmodel.training.table import FloatArray

__all__ = ["BlockScores", "block_scores", "held_shares", "intervals"]

COVERAGE = 0.9
"""Share of runs that an interval is to hold."""

_POOL = 5.0
"""Rows that the scores of all blocks together count as (assumed)."""

_EQUAL_ROWS = 60
"""A block with more rows than this weighs in the pool as if it had so many."""

_LEAST = 0.2
"""Half an interval is not narrower than this: 2 % for a run like none that was measured."""

_SMALLEST = 1e-3
"""Scale of scores that are all nought."""


@dataclass(frozen=True, slots=True)
class BlockScores:
    """Scores of the rows of one block, each of shape (N,)."""

    models: tuple[str, ...]
    """Name of the model of each row."""

    layouts: FloatArray
    """With the layout left out."""

    unseen: FloatArray
    """With the model left out."""

    def without(self, model: str) -> BlockScores:
        """The scores of the other models."""
        rest = np.array([name != model for name in self.models])
        names = tuple(name for name in self.models if name != model)
        return BlockScores(names, self.layouts[rest], self.unseen[rest])

    @property
    def all(self) -> FloatArray:
        """Both, one after the other."""
        return np.concatenate([self.layouts, self.unseen])


def block_scores(fits: Sequence[FamilyFit]) -> dict[str, BlockScores]:
    """The scores of each block, in alphabetical order."""
    found: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for fitted in fits:
        layouts = np.log(fitted.measured_s / fitted.layouts_s) / fitted.layouts_deviation
        unseen = np.log(fitted.measured_s / fitted.unseen_s) / fitted.unseen_deviation
        for run, one, other in zip(fitted.runs, layouts, unseen, strict=True):
            found[block_of(run)].append((run.model.name.lower(), float(one), float(other)))
    scores = {}
    for block, rows in sorted(found.items()):
        models, one, other = zip(*rows, strict=True)
        scores[block] = BlockScores(models, np.array(one), np.array(other))
    return scores


def intervals(scores: Mapping[str, BlockScores]) -> dict[str, tuple[float, float]]:
    """Lower and upper end of each block's interval, in standard deviations of a run."""
    scales = _scales(scores)
    pool = np.concatenate([each.all / scales[block] for block, each in scores.items()])
    weights = np.concatenate([_pool_weights(each.all) for each in scores.values()])
    weights *= _POOL / np.sum(weights)
    ends = {}
    for block, each in scores.items():
        values = np.concatenate([each.all, pool * scales[block]])
        # Each row has two scores.
        own = np.full(each.all.size, 0.5)
        low, high = _quantiles(values, np.concatenate([own, weights]))
        ends[block] = (round(min(low, -_LEAST), 3), round(max(high, _LEAST), 3))
    return ends


def held_shares(scores: Mapping[str, BlockScores]) -> dict[str, tuple[float, float]]:
    """Share of each block's rows inside intervals made without any row of their model.

    Returns:
        By block: of predictions with the layout left out, and with the model left out.
    """
    shares = {}
    for block, each in scores.items():
        inside = np.zeros((2, len(each.models)))
        for model in sorted(set(each.models)):
            rows = np.array([name == model for name in each.models])
            low, high = intervals({**scores, block: each.without(model)})[block]
            for line, values in zip(inside, (each.layouts, each.unseen), strict=True):
                line[rows] = (low <= values[rows]) & (values[rows] <= high)
        shares[block] = (float(np.mean(inside[0])), float(np.mean(inside[1])))
    return shares


def _scales(scores: Mapping[str, BlockScores]) -> dict[str, float]:
    """Usual size of each block's scores; that of all blocks where it has few rows."""
    sizes = {block: np.abs(each.all) for block, each in scores.items()}
    own = {
        block: max(float(np.median(size)), _SMALLEST) for block, size in sizes.items() if size.size
    }
    usual = float(np.median(list(own.values())))
    found = {}
    for block, each in scores.items():
        rows = len(each.models)
        log = rows * np.log(own.get(block, usual)) + _POOL * np.log(usual)
        found[block] = float(np.exp(log / (rows + _POOL)))
    return found


def _pool_weights(values: FloatArray) -> FloatArray:
    return np.full(values.size, min(1.0, 2 * _EQUAL_ROWS / max(values.size, 1)))


def _quantiles(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Weighted quantiles between which the coverage lies."""
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    tail = (1.0 - COVERAGE) / 2
    low, high = np.interp([tail, 1.0 - tail], middle / np.sum(weights), values[order])
    return float(low), float(high)
