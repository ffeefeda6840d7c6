"""The report of benchmarks/calibrate.py: errors of unseen models and layouts, sweeps, constants."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.training_intervals import block_scores, held_shares
from costmodel.training.assessment import rank_correlation, sweeps
from costmodel.training.families import block_of
from costmodel.training.fitting import at_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.calibrate import MemoryFit
    from costmodel.training.crossvalidation import FamilyFit
    from costmodel.training.dataset import Entry


@dataclass(frozen=True, slots=True)
class BlockErrors:
    """Relative errors of the rows of one block, each of shape (N,)."""

    formulas: np.ndarray
    """Formulas alone, of models left out."""

    layouts: np.ndarray
    """Of layouts left out."""

    unseen: np.ndarray
    """Of models left out."""

    widths: np.ndarray
    """Of models left out with all others that are as wide."""

    baseline: np.ndarray
    rank: float | None
    """Spearman's correlation of predictions for models left out with measurements."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """A prediction as sweeps read it."""

    step_s: float


def by_block(fits: Sequence[FamilyFit]) -> dict[str, BlockErrors]:
    """The errors of each block, in alphabetical order."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for fitted in fits:
        columns = (
            fitted.plain_unseen_s, fitted.layouts_s, fitted.unseen_s, fitted.widths_s,
            fitted.baseline_s, fitted.measured_s,
        )  # fmt: skip
        for run, *times in zip(fitted.runs, *columns, strict=True):
            rows[block_of(run)].append(tuple(float(time) for time in times))
    found = {}
    for block, times in sorted(rows.items()):
        *predicted, measured = np.array(times).T
        errors = [column / measured - 1.0 for column in predicted]
        formulas, layouts, unseen, widths, plain = errors
        rank = rank_correlation(predicted[2].tolist(), measured.tolist())
        found[block] = BlockErrors(formulas, layouts, unseen, widths, plain, rank)
    return found


def step_lines(entries: Sequence[Entry], fits: Sequence[FamilyFit]) -> Iterator[str]:
    """The table of errors by block in Markdown."""
    available: dict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.read is not None and entry.step_s is not None:
            available[block_of(entry.read.run)] += 1
    yield (
        "| block | n used / all | formulas alone, unseen models | unseen layouts | "
        "unseen models, mean, bias | unseen widths | rank | baseline | "
        "in interval: layouts, models, widths |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    held = held_shares(block_scores(fits))
    for block, errors in by_block(fits).items():
        inside = ", ".join(f"{100 * share:.0f}" for share in held[block])
        yield (
            f"| {block} | {len(errors.unseen)} / {available[block]} | {_pair(errors.formulas)} | "
            f"{_pair(errors.layouts)} | {_pair(errors.unseen)}, "
            f"{100 * np.abs(errors.unseen).mean():.1f}, {100 * np.median(errors.unseen):+.1f} | "
            f"{_pair(errors.widths)} | "
            f"{_rank(errors.rank)} | "
            f"{_pair(errors.baseline)} | {inside} |"
        )


def sweep_lines(entries: Sequence[Entry], fits: Sequence[FamilyFit]) -> Iterator[str]:
    """Sweeps by what was left out."""
    yield ""
    yield (
        "| sweeps | n | rank correlation: median, least | best within 3 % | within 10 % | worst |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for name, column in (
        ("formulas alone, unseen models", "plain_unseen_s"),
        ("unseen layouts", "layouts_s"),
        ("unseen models", "unseen_s"),
    ):
        times = {
            run.name: float(time)
            for fitted in fits
            for run, time in zip(fitted.runs, getattr(fitted, column), strict=True)
        }
        priced = [_Priced(times[entry.name]) if entry.name in times else None for entry in entries]
        found = sweeps(entries, priced)
        ranks = [sweep.rank_correlation for sweep in found]
        losses = np.array([sweep.best for sweep in found])
        yield (
            f"| {name} | {len(found)} | {np.median(ranks):.3f}, {min(ranks):.3f} | "
            f"{np.sum(losses <= 0.03)} | {np.sum(losses <= 0.1)} | {100 * losses.max():.1f} % |"
        )


def constant_lines(fits: Sequence[FamilyFit]) -> Iterator[str]:
    """The fitted constants of each family."""
    yield from ("", "| family | constants (at a limit: *) |", "|---|---|")
    for fitted in fits:
        limited = at_limit(fitted.constants, fitted.family.fitted)
        values = ", ".join(
            f"{name} {getattr(fitted.constants, name):.3g}{'*' if name in limited else ''}"
            for name in fitted.family.fitted
        )
        yield f"| {fitted.family.name} | {values} |"


def left_out_lines(entries: Sequence[Entry], aside: Mapping[str, str]) -> Iterator[str]:
    """Rows without part in the fit, with the reason."""
    yield from ("", "Rows left out of the fit:", "")
    yield from (f"- `{name}`: {reason}" for name, reason in aside.items())
    yield from (f"- `{entry.name}`: {entry.skipped}" for entry in entries if entry.skipped)


def memory_lines(memories: Mapping[str, MemoryFit]) -> Iterator[str]:
    """The table of memory in Markdown."""
    yield ""
    yield "| memory | n | fitted: median, 90 % | unseen models: median, 90 %, bias |"
    yield "|---|--:|--:|--:|"
    for profile, found in memories.items():
        if found.inside.size:
            yield (
                f"| {profile} | {len(found.inside)} | {_pair(found.inside)} | "
                f"{_pair(found.unseen)}, {100 * np.median(found.unseen):+.1f} |"
            )


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _pair(errors: np.ndarray) -> str:
    sizes = 100 * np.abs(errors)
    return f"{np.median(sizes):.1f}, {np.quantile(sizes, 0.9):.1f}"
