"""Intervals of training steps by block, from how far off runs were that the fit had not seen.

A score is the logarithm of measured over predicted time in units of the run's own standard
deviation (`Neighbours.deviation`). Each row has three: with its layout, its model and its width
left out. The interval of a block lies between quantiles of these scores, for runs that measured
ones are much alike and for others apart (Mondrian conformal prediction; Vovk, Gammerman and
Shafer, Algorithmic Learning in a Random World, 2005, section 4.5). Blocks have four rows or seven
hundred: beside the scores of a class, those of the whole block count as a few rows more, and those
of all blocks, brought to the block's scale, too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.calibration import Ends
from costmodel.training.families import block_of
from costmodel.training.neighbours import KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.crossvalidation import FamilyFit
    from costmodel.training.table import FloatArray

__all__ = ["WAYS", "BlockScores", "block_scores", "held_shares", "intervals"]

WAYS = ("layouts", "unseen", "widths")
"""What is left out, as the fields of `FamilyFit` call it."""

COVERAGE = 0.92
"""Share of the rows at hand that an interval holds; of new rows it holds a little less, 80 to 95 %
of which are asked for."""

_POOL = 5.0
"""Rows that the scores of all blocks together count as, and those of the block's other class
(assumed)."""

_EQUAL_ROWS = 60
"""A block with more rows than this weighs in the pool as if it had so many."""

_LEAST = 0.2
"""Half an interval is not narrower than this: 2 % for a run like none that was measured."""

_SMALLEST = 1e-3
"""Scale of scores that are all nought."""


@dataclass(frozen=True, slots=True)
class BlockScores:
    """Scores of the N rows of one block, one for each of `WAYS`."""

    models: tuple[str, ...]
    """Name of the model of each row."""

    scores: FloatArray
    """Shape (N, ways)."""

    known: FloatArray
    """1 where the rows that were not left out are much alike, shape (N, ways)."""

    def without(self, model: str) -> BlockScores:
        """The scores of the other models."""
        rest = np.array([name != model for name in self.models])
        names = tuple(name for name in self.models if name != model)
        return BlockScores(names, self.scores[rest], self.known[rest])


def block_scores(fits: Sequence[FamilyFit]) -> dict[str, BlockScores]:
    """The scores of each block, in alphabetical order."""
    found: dict[str, list[tuple[str, FloatArray, FloatArray]]] = defaultdict(list)
    for fitted in fits:
        times = np.stack([getattr(fitted, f"{way}_s") for way in WAYS], axis=1)
        deviations = np.stack([getattr(fitted, f"{way}_deviation") for way in WAYS], axis=1)
        scores = np.log(fitted.measured_s[:, None] / times) / deviations
        known = (deviations <= KNOWN).astype(np.float64)
        for run, mine, alike in zip(fitted.runs, scores, known, strict=True):
            found[block_of(run)].append((run.model.name.lower(), mine, alike))
    blocks = {}
    for block, rows in sorted(found.items()):
        models, mine, alike = zip(*rows, strict=True)
        blocks[block] = BlockScores(models, np.array(mine), np.array(alike))
    return blocks


def intervals(scores: Mapping[str, BlockScores]) -> dict[str, Ends]:
    """Lower and upper ends of each block's intervals, in standard deviations of a run."""
    return {block: _ends(scores, block) for block in scores}


def held_shares(scores: Mapping[str, BlockScores]) -> dict[str, FloatArray]:
    """Share of each block's rows inside intervals made without any row of their model.

    Returns:
        By block: of predictions with each of `WAYS` left out, shape (ways,).
    """
    shares = {}
    for block, each in scores.items():
        inside = np.zeros_like(each.scores)
        for model in sorted(set(each.models)):
            rows = np.array([name == model for name in each.models])
            ends = _ends({**scores, block: each.without(model)}, block)
            known, mine = each.known[rows] > 0, each.scores[rows]
            low = np.where(known, ends.known[0], ends.new[0])
            high = np.where(known, ends.known[1], ends.new[1])
            inside[rows] = (low <= mine) & (mine <= high)
        shares[block] = np.mean(inside, axis=0)
    return shares


def _ends(scores: Mapping[str, BlockScores], block: str) -> Ends:
    scales, mine = _scales(scores), scores[block]
    pool = np.concatenate([each.scores.ravel() / scales[name] for name, each in scores.items()])
    pooled = np.concatenate([_pool_weights(each.scores) for each in scores.values()])
    pooled *= _POOL / np.sum(pooled)
    own, known = mine.scores.ravel(), mine.known.ravel()
    values = np.concatenate([own, own, pool * scales[block]])
    share = 1.0 / len(WAYS)
    rest = np.full(own.size, share * min(1.0, _POOL / max(len(mine.models), 1)))
    classes = (share * known, share * (1.0 - known))
    first, second = (_between(values, np.concatenate([of, rest, pooled])) for of in classes)
    return Ends(known=first, new=second)


def _scales(scores: Mapping[str, BlockScores]) -> dict[str, float]:
    """Usual size of each block's scores; that of all blocks where it has few rows."""
    sizes = {block: np.abs(each.scores) for block, each in scores.items()}
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
    return np.full(values.size, min(1.0, len(WAYS) * _EQUAL_ROWS / max(values.size, 1)))


def _between(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Weighted quantiles between which the coverage lies, to three decimals."""
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    tail = (1.0 - COVERAGE) / 2
    low, high = np.interp([tail, 1.0 - tail], middle / np.sum(weights), values[order])
    return round(min(float(low), -_LEAST), 3), round(max(float(high), _LEAST), 3)
