"""How well predictions hold on rows with measurements: errors by block, sweeps, memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from costmodel.training.dataset import measured_medians

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.dataset import Entry
    from costmodel.training.predict import Prediction

__all__ = [
    "BlockSummary", "Confusion", "MemorySummary", "Priced", "SweepSummary", "summaries", "sweeps",
]  # fmt: skip

_SWEEP_LAYOUTS = 8
_SWEEP_SPREAD = 1.3


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """Errors of the step times of one block; fractions, not percent."""

    block: str
    used: int
    """Rows with a prediction and a measurement."""

    available: int
    """Rows of the block with a measurement, those that were skipped included."""

    mean: float
    """Mean of the absolute relative error; a skipped row counts as 1."""

    median: float
    ninetieth: float
    """90th percentile."""

    bias: float
    """Median of the signed error of the rows used."""

    rank_correlation: float | None
    """Spearman's, `None` for fewer than three rows."""

    inside: float
    """Share of the rows used whose measurement lies in the interval."""


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """Errors of memory of one block."""

    block: str
    used: int
    median: float
    ninetieth: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """Runs by whether they ran and whether they were predicted to fit."""

    ran_fits: int
    ran_does_not: int
    failed_fits: int
    failed_does_not: int


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """Layouts of one model with one batch on one machine, by prediction and by measurement."""

    name: str
    layouts: int
    rank_correlation: float
    best: float
    """Measured time of the layout predicted best over that of the best one, minus 1."""


class Priced(Protocol):
    """Anything with a predicted step time."""

    @property
    def step_s(self) -> float:
        """Seconds of one step."""


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's correlation of two lists; `None` if one is constant or shorter than three."""
    from scipy.stats import rankdata  # noqa: PLC0415  half a second to import

    if len(one) < 3:
        return None
    first, second = rankdata(one), rankdata(other)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def summaries(
    entries: Sequence[Entry], predictions: Sequence[Prediction | None], blocks: Sequence[str]
) -> tuple[list[BlockSummary], list[MemorySummary], Confusion]:
    """Summaries by block of rows, their predictions and their blocks, in the same order."""
    medians = measured_medians(entries)
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, block in enumerate(blocks):
        rows_of[block].append(row)
    times, memories = [], []
    for block, rows in sorted(rows_of.items()):
        measured = [row for row in rows if medians[row] is not None]
        if measured:
            times.append(_times(block, measured, medians, predictions))
        memory = _memory(block, rows, entries, predictions)
        if memory is not None:
            memories.append(memory)
    return times, memories, _confusion(entries, predictions)


def _times(
    block: str,
    rows: Sequence[int],
    medians: Sequence[float | None],
    predictions: Sequence[Prediction | None],
) -> BlockSummary:
    pairs = [(predictions[row], medians[row] or 1.0) for row in rows]
    priced = [(found, time) for found, time in pairs if found is not None]
    signed = np.array([found.step_s / time - 1.0 for found, time in priced])
    sizes = np.concatenate([np.abs(signed), np.ones(len(pairs) - len(priced))])
    inside = [found.low_s <= time <= found.high_s for found, time in priced if not found.unlike]
    return BlockSummary(
        block=block,
        used=len(priced),
        available=len(pairs),
        mean=float(np.mean(sizes)),
        median=float(np.median(sizes)),
        ninetieth=float(np.quantile(sizes, 0.9)),
        bias=float(np.median(signed)) if priced else 0.0,
        rank_correlation=rank_correlation(
            [found.step_s for found, _ in priced], [time for _, time in priced]
        ),
        inside=float(np.mean(inside)) if inside else 0.0,
    )


def _memory(
    block: str,
    rows: Sequence[int],
    entries: Sequence[Entry],
    predictions: Sequence[Prediction | None],
) -> MemorySummary | None:
    errors = []
    for row in rows:
        found, measured = predictions[row], entries[row].memory_bytes
        if found is not None and measured is not None:
            errors.append(abs(found.memory_bytes / measured - 1.0))
    if not errors:
        return None
    return MemorySummary(
        block, len(errors), float(np.median(errors)), float(np.quantile(errors, 0.9))
    )


def _confusion(entries: Sequence[Entry], predictions: Sequence[Prediction | None]) -> Confusion:
    counts = {(ran, fits): 0 for ran in (True, False) for fits in (True, False)}
    for entry, found in zip(entries, predictions, strict=True):
        if entry.ran is not None and found is not None:
            counts[entry.ran, found.fits] += 1
    return Confusion(
        counts[True, True], counts[True, False], counts[False, True], counts[False, False]
    )


def sweeps(entries: Sequence[Entry], predictions: Sequence[Priced | None]) -> list[SweepSummary]:
    """Sweeps of at least eight layouts whose measured times spread by at least 1.3.

    A sweep is one model with one global batch, sequence, precision and number of devices.
    """
    medians = measured_medians(entries)
    groups: dict[str, dict[tuple[str, ...], tuple[float, float]]] = defaultdict(dict)
    for entry, found, time in zip(entries, predictions, medians, strict=True):
        if entry.read is None or found is None or time is None:
            continue
        run = entry.read.run
        layout = run.layout
        name = (
            f"{run.model.name}, {layout.devices} x {run.machine}, batch {layout.global_batch} x "
            f"{layout.seq_len}, {run.precision}, {run.profile}"
        )
        groups[name][entry.configuration] = (found.step_s, time)
    found_sweeps = []
    for name, members in sorted(groups.items()):
        predicted = [pair[0] for pair in members.values()]
        measured = [pair[1] for pair in members.values()]
        spread = max(measured) / min(measured)
        if len(members) < _SWEEP_LAYOUTS or spread < _SWEEP_SPREAD:
            continue
        correlation = rank_correlation(predicted, measured)
        best = measured[int(np.argmin(predicted))] / min(measured) - 1.0
        found_sweeps.append(SweepSummary(name, len(members), correlation or 0.0, best))
    return found_sweeps
