"""Intervals of training steps by block, from how far off rows of sources were that had no part in
the fit.

A score is the logarithm of measured over predicted time in units of the run's own standard
deviation (`FamilyFit.predicted`). The interval of a block lies between quantiles of the scores of
its rows with their source left out, for runs that measured ones are much alike and for others apart
(Mondrian conformal prediction; Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World,
2005, section 4.5). A source has one row or seven hundred: it counts as twenty at most. Beside the
scores of a class, those of the whole block count as twenty rows more, and those
of all blocks, brought to its scale, as what is missing of eighty, at least twenty.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.training_crossvalidation import WAYS
from costmodel.training.calibration import Ends
from costmodel.training.families import block_of
from costmodel.training.neighbours import KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.training_crossvalidation import FamilyFit
    from costmodel.training.table import FloatArray

__all__ = ["BlockScores", "Held", "block_scores", "held_shares", "intervals"]

COVERAGE = 0.9
"""Share of the rows at hand that an interval holds."""

_SOURCES, _MODELS = WAYS.index("sources"), WAYS.index("models")
"""The ways of leaving rows out that intervals are made of; the second one where the first has few
rows like none that was measured."""

_POOL = 20.0
"""Rows that the scores of all blocks together count as at least, those of the block's other class
at most, and the usual size of all blocks beside a block's own (assumed)."""

_ENOUGH = 80.0
"""Rows that a block and what it borrows of all blocks count as at least: four sources. Of twelve
pairs of this number and `COVERAGE` the one with which fewest blocks missed what is asked for."""

_SOURCE_ROWS = 20
"""A source with more rows than this weighs as if it had so many: what its rows share, such as a
slow network, is one cause and not hundreds."""

_LEAST = 0.2
"""Half an interval is not narrower than this: 2 % for a run like none that was measured."""

_SMALLEST = 1e-3
"""Scale of scores that are all nought."""


@dataclass(frozen=True, slots=True)
class BlockScores:
    """Scores of the N rows of one block, one for each of `WAYS`."""

    groups: NDArray[np.str_]
    """What each row is left out with, shape (N, ways)."""

    scores: FloatArray
    """Shape (N, ways)."""

    known: FloatArray
    """1 where the rows that were not left out are much alike, shape (N, ways)."""

    deviations: FloatArray
    """Of the logarithm of each prediction, shape (N, ways)."""

    def without(self, way: int, group: str) -> BlockScores:
        """The scores of the rows outside a group."""
        rest = self.groups[:, way] != group
        columns = (self.groups, self.scores, self.known, self.deviations)
        return BlockScores(*(column[rest] for column in columns))


def block_scores(fits: Sequence[FamilyFit]) -> dict[str, BlockScores]:
    """The scores of each block, in alphabetical order."""
    found: dict[str, list[tuple[NDArray[Any], ...]]] = defaultdict(list)
    for fitted in fits:
        predicted = [fitted.predicted(way) for way in WAYS]
        deviations = np.stack([deviation for _, deviation in predicted], axis=1)
        times = np.stack([step_s for step_s, _ in predicted], axis=1)
        scores = np.log(fitted.rows.measured_s[:, None] / times) / deviations
        known = (deviations <= KNOWN).astype(np.float64)
        groups = np.stack([fitted.rows.groups(way) for way in WAYS], axis=1)
        columns = zip(groups, scores, known, deviations, strict=True)
        for run, each in zip(fitted.rows.runs, columns, strict=True):
            found[block_of(run)].append(each)
    return {
        block: BlockScores(*map(np.array, zip(*rows, strict=True)))
        for block, rows in sorted(found.items())
    }


def intervals(scores: Mapping[str, BlockScores]) -> dict[str, Ends]:
    """Lower and upper ends of each block's intervals, in standard deviations of a run."""
    return {block: _ends(scores, block) for block in scores}


@dataclass(frozen=True, slots=True)
class Held:
    """How intervals of a block hold its rows, made without any row of their group."""

    shares: FloatArray
    """Share of the rows inside with each of `WAYS` left out, shape (ways,)."""

    width: float
    """Median of upper over lower end with sources left out."""


def held_shares(scores: Mapping[str, BlockScores]) -> dict[str, Held]:
    """How the intervals of each block hold rows that had no part in them."""
    found = {}
    for block, each in scores.items():
        inside, widths = np.zeros_like(each.scores), np.zeros(len(each.scores))
        for way in range(len(WAYS)):
            for group in np.unique(each.groups[:, way]):
                rows = each.groups[:, way] == group
                ends = _ends({**scores, block: each.without(way, str(group))}, block)
                known, mine = each.known[rows, way] > 0, each.scores[rows, way]
                low = np.where(known, ends.known[0], ends.new[0])
                high = np.where(known, ends.known[1], ends.new[1])
                inside[rows, way] = (low <= mine) & (mine <= high)
                if way == _SOURCES:
                    widths[rows] = np.exp((high - low) * each.deviations[rows, way])
        found[block] = Held(np.mean(inside, axis=0), float(np.median(widths)))
    return found


def _ends(scores: Mapping[str, BlockScores], block: str) -> Ends:
    scales, mine = _scales(scores), scores[block]
    pool = np.concatenate([_own(each) / scales[name] for name, each in scores.items()])
    pooled = np.concatenate([_weights(each) for each in scores.values()])
    pooled *= max(_POOL, _ENOUGH - float(np.sum(_weights(mine)))) / np.sum(pooled)
    own, known, weights = _own(mine), mine.known[:, _SOURCES], _weights(mine)
    # Rows that no similar run is known of are few where all sources repeat one another: those of
    # models that were left out say how far off new ones are.
    borrowed = {0: (own, weights), 1: (mine.scores[:, _MODELS], weights * _new(mine))}
    found = []
    for kind, of in enumerate((known, 1.0 - known)):
        others, rest = borrowed[kind]
        rest = rest * min(1.0, _POOL / max(float(np.sum(rest)), 1.0))
        values = np.concatenate([own, others, pool * scales[block]])
        found.append(_between(values, np.concatenate([weights * of, rest, pooled])))
    first, second = found
    return Ends(known=first, new=second)


def _new(each: BlockScores) -> FloatArray:
    """1 where no similar run is known with a row's model left out, shape (N,)."""
    return np.asarray(1.0 - each.known[:, _MODELS])


def _own(each: BlockScores) -> FloatArray:
    """Scores of the rows of a block with their sources left out, shape (N,)."""
    return each.scores[:, _SOURCES]


def _scales(scores: Mapping[str, BlockScores]) -> dict[str, float]:
    """Usual size of each block's scores; that of all blocks where it has few rows."""
    sizes = {block: np.abs(_own(each)) for block, each in scores.items()}
    own = {
        block: max(float(np.median(size)), _SMALLEST) for block, size in sizes.items() if size.size
    }
    usual = float(np.median(list(own.values())))
    found = {}
    for block, each in scores.items():
        rows = float(np.sum(_weights(each)))
        log = rows * np.log(own.get(block, usual)) + _POOL * np.log(usual)
        found[block] = float(np.exp(log / (rows + _POOL)))
    return found


def _weights(each: BlockScores) -> FloatArray:
    """How much each row counts, shape (N,)."""
    _, where, counts = np.unique(each.groups[:, _SOURCES], return_inverse=True, return_counts=True)
    return np.minimum(1.0, _SOURCE_ROWS / counts[where]).astype(np.float64)


def _between(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Weighted quantiles between which the coverage lies, to three decimals."""
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    tail = (1.0 - COVERAGE) / 2
    low, high = np.interp([tail, 1.0 - tail], middle / np.sum(weights), values[order])
    return round(min(float(low), -_LEAST), 3), round(max(float(high), _LEAST), 3)
