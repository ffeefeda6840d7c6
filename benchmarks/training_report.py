"""The report of benchmarks/calibrate.py: errors of what was left out, sweeps, constants."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.training_crossvalidation import WAYS
from benchmarks.training_intervals import block_scores, held_shares
from costmodel.training.assessment import rank_correlation, sweeps
from costmodel.training.families import block_of
from costmodel.training.fitting import PRIORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.calibrate import MemoryFit
    from benchmarks.training_crossvalidation import FamilyFit
    from costmodel.training.constants import StepConstants
    from costmodel.training.dataset import Entry


_FEW = 20
"""Rows of one reason that are named."""


@dataclass(frozen=True, slots=True)
class BlockErrors:
    """Relative errors of the rows of one block, each of shape (N,)."""

    left_out: dict[str, np.ndarray]
    """By what was left out, one of `WAYS`."""

    formulas: np.ndarray
    """Formulas alone, with sources left out."""

    baseline: np.ndarray
    """Of one utilisation, with models left out."""

    rank: float | None
    """Spearman's correlation of predictions for sources left out with measurements."""

    sources: int
    """Sources that the block has rows of."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """A prediction as sweeps read it."""

    step_s: float


def by_block(fits: Sequence[FamilyFit]) -> dict[str, BlockErrors]:
    """The errors of each block, in alphabetical order."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    sources: dict[str, set[str]] = defaultdict(set)
    for fitted in fits:
        columns = (
            *(fitted.predicted(way)[0] for way in WAYS), fitted.left_out["sources"].plain_s,
            fitted.baseline_s, fitted.rows.measured_s,
        )  # fmt: skip
        for run, source, *times in zip(
            fitted.rows.runs, fitted.rows.sources, *columns, strict=True
        ):
            rows[block_of(run)].append(tuple(float(time) for time in times))
            sources[block_of(run)].add(source)
    found = {}
    for block, times in sorted(rows.items()):
        *predicted, measured = np.array(times).T
        *left, formulas, plain = (column / measured - 1.0 for column in predicted)
        rank = rank_correlation(predicted[0].tolist(), measured.tolist())
        by_way = dict(zip(WAYS, left, strict=True))
        found[block] = BlockErrors(by_way, formulas, plain, rank, len(sources[block]))
    return found


def step_lines(entries: Sequence[Entry], fits: Sequence[FamilyFit]) -> Iterator[str]:
    """The table of errors by block in Markdown."""
    available: dict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.read is not None and entry.step_s is not None:
            available[block_of(entry.read.run)] += 1
    named = ", ".join(WAYS)
    yield (
        "| block | n used / all | sources left out: median, 90 %, bias | models left out | "
        "widths left out | machines left out | sources | formulas alone, sources left out | "
        f"rank | baseline | in interval: {named} | width |"
    )
    yield f"|---|{'--:|' * 11}"
    held = held_shares(block_scores(fits))
    for block, errors in by_block(fits).items():
        inside = ", ".join(f"{100 * share:.0f}" for share in held[block].shares)
        first, *others = (errors.left_out[way] for way in WAYS)
        yield (
            f"| {block} | {len(first)} / {available[block]} | {_pair(first)}, "
            f"{100 * np.median(first):+.1f} | {' | '.join(map(_pair, others))} | "
            f"{errors.sources} | {_pair(errors.formulas)} | {_rank(errors.rank)} | "
            f"{_pair(errors.baseline)} | {inside} | {held[block].width:.2f} |"
        )


def sweep_lines(entries: Sequence[Entry], fits: Sequence[FamilyFit]) -> Iterator[str]:
    """Sweeps by what was left out."""
    yield ""
    yield (
        "| sweeps | n | rank correlation: median, least | best within 3 % | within 10 % | worst |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for way in ("sources", "models"):
        times = {
            run.name: float(time)
            for fitted in fits
            for run, time in zip(fitted.rows.runs, fitted.predicted(way)[0], strict=True)
        }
        priced = [_Priced(times[entry.name]) if entry.name in times else None for entry in entries]
        found = sweeps(entries, priced)
        ranks = [sweep.rank_correlation for sweep in found]
        losses = np.array([sweep.best for sweep in found])
        yield (
            f"| {way} left out | {len(found)} | {np.median(ranks):.3f}, {min(ranks):.3f} | "
            f"{np.sum(losses <= 0.03)} | {np.sum(losses <= 0.1)} | {100 * losses.max():.1f} % |"
        )


def constant_lines(fits: Sequence[FamilyFit]) -> Iterator[str]:
    """The fitted constants of each family."""
    count = sum(len(fitted.family.fitted) for fitted in fits)
    yield from (
        "", f"{count} constants. At a limit: *. Moved by one source alone: (1).", "",
        "| family | similar runs | constants |", "|---|---|---|",
    )  # fmt: skip
    for fitted in fits:
        limited, alone = at_limit(fitted.constants, fitted.family.fitted), fitted.one_source()
        values = ", ".join(
            f"{name} {getattr(fitted.constants, name):.3g}{'*' * (name in limited)}"
            f"{' (1)' * (name in alone)}"
            for name in fitted.family.fitted
        )
        kept = "kept" if fitted.looks_up else "dropped"
        yield f"| {fitted.family.name} | {kept} | {values} |"


def left_out_lines(entries: Sequence[Entry], aside: Mapping[str, str]) -> Iterator[str]:
    """Rows without part in the fit by reason, with their names where they are few."""
    yield from ("", "Rows left out of the fit:", "")
    skipped = {entry.name: entry.skipped for entry in entries if entry.skipped}
    named: dict[str, list[str]] = defaultdict(list)
    for name, reason in (*aside.items(), *skipped.items()):
        named[reason].append(f"`{name}`")
    for reason, names in named.items():
        which = f": {', '.join(names)}" if len(names) <= _FEW else ""
        yield f"- {len(names)}: {reason}{which}"


def memory_lines(memories: Mapping[str, MemoryFit]) -> Iterator[str]:
    """The table of memory in Markdown."""
    yield ""
    yield (
        "| memory | n | sources left out: median, 90 %, bias | models left out: median, 90 %, bias "
        "| fitted: median, 90 % |"
    )
    yield "|---|--:|--:|--:|--:|"
    for profile, found in memories.items():
        if found.inside.size:
            yield (
                f"| {profile} | {len(found.inside)} | "
                f"{_pair(found.sources)}, {100 * np.median(found.sources):+.1f} | "
                f"{_pair(found.unseen)}, {100 * np.median(found.unseen):+.1f} | "
                f"{_pair(found.inside)} |"
            )


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _pair(errors: np.ndarray) -> str:
    sizes = 100 * np.abs(errors)
    return f"{np.median(sizes):.1f}, {np.quantile(sizes, 0.9):.1f}"


def at_limit(constants: StepConstants, names: Sequence[str]) -> tuple[str, ...]:
    """The fitted constants that ended at a physical limit, which says that a cause is missing."""
    found = []
    for name in names:
        prior, value = PRIORS[name], getattr(constants, name)
        width = abs(prior.coordinate(prior.high) - prior.coordinate(prior.low))
        edges = (prior.coordinate(prior.low), prior.coordinate(prior.high))
        if min(abs(prior.coordinate(max(value, 1e-12)) - edge) for edge in edges) < 1e-3 * width:
            found.append(name)
    return tuple(found)
