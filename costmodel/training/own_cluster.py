"""Fitting the shipped constants to a user's own cluster from a few rows, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import yaml

from costmodel.training.calibration import Calibration, Ends, neighbours_of, shipped_calibration
from costmodel.training.dataset import TableError, measured_medians
from costmodel.training.families import block_of, family_of
from costmodel.training.fitting import PRIORS, fit
from costmodel.training.generic import GENERIC
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.constants import StepConstants
    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

Report: TypeAlias = Callable[[str], None]

__all__ = ["ConstantFit", "FamilyRefit", "calibration_yaml", "refit"]

_MOST_FREE = 4
"""Constants that a few rows may move; more than that they cannot tell apart."""

_ROWS_PER_CONSTANT = 2
_TIGHTNESS = 0.5
"""Spreads of the priors around the shipped values, over those around general ones."""

_RESAMPLES = 20
_COVERAGE = 0.9
ALL_TIMES = "all_times"
"""What stands among the constants for a plain factor of the whole cluster."""

_ROUNDS = 3
"""Of fitting that factor: latencies do not follow it, so that the first one is not exact."""

_GAIN = 0.9
"""Share of an error that more freedom must leave at most: few rows tell small gains by chance."""

_MOST_PARTS = 20
"""Parts of the rows that are left out one after the other: each row by itself of no more."""

_LEAST = 0.2
"""Scatter that is assumed at least, in standard deviations of a run: 2 % of one like none."""


@dataclass(frozen=True, slots=True)
class ConstantFit:
    """One constant before and after, with the interval that resampling the rows gives."""

    name: str
    shipped: float
    fitted: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FamilyRefit:
    """What the rows of one family changed."""

    family: str
    rows: int
    constants: tuple[ConstantFit, ...]
    before: float
    """Median absolute relative error with the shipped constants."""

    after: float
    """The same for each row with constants fitted to the others; of more than twenty rows a
    twentieth of them is left out at a time.
    """

    interval: tuple[float, float]
    """Between which nine of ten such rows lie; see `Ends`."""


def refit(
    entries: Sequence[Entry], where: str, report: Report = lambda _: None
) -> tuple[Calibration, tuple[FamilyRefit, ...]]:
    """The shipped calibration with the families of some rows fitted to them.

    Repeats of a configuration are one row with their median: one that is left out is not seen.

    Args:
        entries: the rows.
        where: name of the file for errors.
        report: receives lines of progress.

    Raises:
        TableError: fewer than three rows can be priced and have a measured time.
    """
    medians = measured_medians(entries)
    rows: dict[str, list[tuple[TrainingRun, float]]] = {}
    seen: set[tuple[str, ...]] = set()
    for entry, time in zip(entries, medians, strict=True):
        if entry.read is not None and time is not None and entry.configuration not in seen:
            seen.add(entry.configuration)
            family = family_of(entry.read.run)[0].name
            rows.setdefault(family, []).append((entry.read.run, time))
    usable = sum(map(len, rows.values()))
    if usable < 3:  # fewer say nothing of how far off the rest is
        reasons = [f"{each.name[:60]!r}: {each.skipped}" for each in entries if each.skipped]
        skipped = f"; skipped {reasons[0]}" if reasons else ""
        raise TableError(
            f"{usable} different rows can be priced and have a measured time; 3 are the least, 5 "
            f"to 10 are better{skipped}\n  at:  {where}\n"
            "  fix: add rows, or fill in measured_step_time_s"
        )
    known = shipped_calibration()
    constants, interval = dict(known.constants), dict(known.interval)
    found = []
    for name, pairs in sorted(rows.items()):
        runs = [run for run, _ in pairs]
        times = np.array([time for _, time in pairs], dtype=np.float64)
        result, constants[name] = _refit_family(name, runs, times, known, report)
        for block in {block_of(run) for run in runs}:
            interval[block] = Ends(result.interval, result.interval)
        found.append(result)
    own = replace(known, constants=constants, interval=interval, is_own=True)
    return own, tuple(found)


def _refit_family(
    name: str,
    runs: Sequence[TrainingRun],
    times: FloatArray,
    known: Calibration,
    report: Report,
) -> tuple[FamilyRefit, StepConstants]:
    table, start = RunTable.of(runs), known.constants[name]
    machines, alike = np.array([run.machine for run in runs]), neighbours_of(name)
    # Constants are fitted to what similar runs leave of the times: predictions have both.
    times = times / alike.factor(table, machines)
    shipped = step_times(table, start).total
    free, unseen = _chosen(table, times, start, runs, report)
    factor, fitted = _fitted(table, times, free, start)
    count = len(runs)
    report(f"{count} rows: intervals of {len(free)} constants")
    samples = _resampled(table, times, free, start)
    scores = np.log(times / unseen) / alike.deviation(table, machines)
    # The few rows alone would make too narrow an interval: the scatter has a t distribution.
    scatter = max(float(np.sqrt(np.mean(scores**2))), _LEAST) * _student(count - 1)
    result = FamilyRefit(
        family=name,
        rows=count,
        constants=tuple(
            ConstantFit(
                constant,
                _value(1.0, start, constant),
                _value(factor, fitted, constant),
                float(np.quantile(samples[constant], (1.0 - _COVERAGE) / 2)),
                float(np.quantile(samples[constant], (1.0 + _COVERAGE) / 2)),
            )
            for constant in free
        ),
        before=float(np.median(np.abs(shipped / times - 1.0))),
        after=float(np.median(np.abs(unseen / times - 1.0))),
        interval=(-scatter, scatter),
    )
    return result, fitted


def _student(freedom: int) -> float:
    """Two-sided quantile of Student's t for the coverage."""
    from scipy.stats import t  # noqa: PLC0415  half a second to import

    return float(t.ppf((1.0 + _COVERAGE) / 2, max(freedom, 1)))


def _chosen(
    table: RunTable,
    times: FloatArray,
    start: StepConstants,
    runs: Sequence[TrainingRun],
    report: Report,
) -> tuple[tuple[str, ...], FloatArray]:
    """The constants to free, and the predictions for each row with the others fitted.

    Tried are none, a factor of all times, then the one, two and four constants that move these rows
    most beside it, where it was of use, or alone: one for every two rows at most. What is tried
    later is taken only if it makes the error of rows that were left out less, and not by chance.
    """
    ranked = _ranked(table, start, runs)
    most = min(_MOST_FREE, max(len(runs) // _ROWS_PER_CONSTANT, 1))
    best: tuple[str, ...] = ()
    unseen = step_times(table, start).total
    errors = np.abs(np.log(unseen / times))
    for count in (0, 1, 2, 4):
        factor = (ALL_TIMES,) if count == 0 or ALL_TIMES in best else ()
        free = (*factor, *ranked[:count])
        if len(free) > most:
            break
        report(f"{len(runs)} rows: {len(free)} constants, fitted without each part of the rows")
        trial = _unseen(table, times, free, start)
        trial_errors = np.abs(np.log(trial / times))
        if _is_less(trial_errors, errors):
            best, unseen, errors = free, trial, trial_errors
    return best, unseen


def _is_less(errors: FloatArray, before: FloatArray) -> bool:
    """Whether rows that were left out are better predicted than before, and not by chance: the
    median error by a tenth, the mean one by more than such rows would give one time in twenty.
    """
    gains, freedom = before - errors, len(before) - 1
    chance = float(np.std(gains)) / np.sqrt(max(freedom, 1)) * _student(freedom)
    return bool(np.median(errors) < _GAIN * np.median(before) and np.mean(gains) > chance)


def _fitted(
    table: RunTable, times: FloatArray, free: Sequence[str], start: StepConstants
) -> tuple[float, StepConstants]:
    """The factor of all times, 1 where it is not free, and the constants fitted from there on."""
    factor = 1.0
    if ALL_TIMES in free and len(times):
        for _ in range(_ROUNDS):
            predicted = step_times(table, start.slowed(factor)).total
            factor *= float(np.exp(np.median(np.log(times / predicted))))
        start = start.slowed(factor)
    names = [name for name in free if name != ALL_TIMES]
    return factor, fit(table, times, names, start, tightness=_TIGHTNESS) if names else start


def _value(factor: float, constants: StepConstants, name: str) -> float:
    value: float = factor if name == ALL_TIMES else getattr(constants, name)
    return value


def _ranked(table: RunTable, start: StepConstants, runs: Sequence[TrainingRun]) -> tuple[str, ...]:
    """The fitted constants of the family, those that move these rows most first."""
    names = family_of(runs[0])[0].fitted
    base = step_times(table, start).total
    effect = {}
    for name in names:
        prior, value = PRIORS[name], getattr(start, name)
        moved = prior.constant(prior.coordinate(max(value, 1e-9)) + 0.5 * prior.spread)
        changed = step_times(table, replace(start, **{name: moved})).total
        effect[name] = float(np.mean(np.abs(np.log(changed / base))))
    return tuple(sorted(names, key=lambda name: -effect[name]))


def _unseen(
    table: RunTable, times: FloatArray, free: Sequence[str], start: StepConstants
) -> FloatArray:
    """Predictions for each row with constants fitted to the others; of many rows for a part of them
    with constants fitted to those of the other parts.
    """
    found, parts = np.zeros(len(times)), np.arange(len(times)) % _MOST_PARTS
    for part in range(min(len(times), _MOST_PARTS)):
        rest, own = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        _, trained = _fitted(table.take(rest), times[rest], free, start)
        found[own] = step_times(table.take(own), trained).total
    return found


def _resampled(
    table: RunTable, times: FloatArray, free: Sequence[str], start: StepConstants
) -> dict[str, list[float]]:
    """Constants fitted to rows drawn with replacement; the same draws each time."""
    random = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in free}
    for _ in range(_RESAMPLES):
        rows = random.integers(0, len(times), len(times))
        sample = _fitted(table.take(rows), times[rows], free, start)
        for name in free:
            found[name].append(_value(*sample, name))
    return found


def calibration_yaml(calibration: Calibration) -> str:
    """A calibration as the file that `planner validate --calibration` reads."""
    content = {
        "schema_version": 1,
        "families": {
            name: {"constants": {key: float(f"{v:.6g}") for key, v in asdict(values).items()}}
            for name, values in calibration.constants.items()
            if name != GENERIC
        },
        "interval": {
            name: {key: [round(end, 4) for end in pair] for key, pair in asdict(ends).items()}
            for name, ends in calibration.interval.items()
        },
        "memory": {
            name: {key: float(f"{v:.6g}") for key, v in asdict(values).items()}
            for name, values in calibration.memory.items()
            if name != GENERIC
        },
    }
    text: str = yaml.safe_dump(content, sort_keys=False)
    return text
