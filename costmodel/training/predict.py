"""Step time with an interval for any runs, by the constants of the family that each belongs to."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.calibration import Ends, neighbours_of, shipped_calibration
from costmodel.training.families import block_of, family_of, memory_families, stand_in
from costmodel.training.generic import GENERIC, NO_RUNS
from costmodel.training.measured_spans import distances, unmeasured, widened
from costmodel.training.memory import charged_bytes, reported_bytes
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from ir.published import QUARTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.calibration import Calibration
    from costmodel.training.constants import StepConstants
    from costmodel.training.records import TrainingRun
    from costmodel.training.table import FloatArray

__all__ = ["Prediction", "constants_of", "predict"]

_WIDER_PER_GUESS = 0.1
"""How much wider the interval is for each input that a default stands in for (assumed)."""

_WIDER_INHERITED = 2.0
"""How much wider where the constants are those of other software or chips (assumed)."""

_WIDER_NEW_CHIP = 1.5
"""How much wider where a family has runs of this generation, but none on this machine (assumed)."""

_OTHERS = (-0.30, 0.54)
"""Logarithms of measured over predicted time that nine of ten runs lie between under the constants
of other software on their chips, or of other chips under theirs: every family of measured runs
predicted by every such other, all pairs with equal weight (`benchmarks/training_others.py`). The
interval is at least as wide where constants are others', or nobody names the software."""

_WIDEST = 10.0
"""Times how much faster or slower an interval reaches at most for being widened (assumed): what is
wider without that, as of a block whose rows contradict one another, stays as wide."""

_SOFTWARE_GUESSED = 10
"""Guesses from which on the software is one of them; see `ReadRow.guesses`."""

_UNKNOWN = Ends((-3.0, 3.0), (-3.0, 3.0))
"""Interval of a block without any measurement, in standard deviations of a run (assumed)."""


_MEASURED = frozenset({"fp16", "bf16", "fp8", "mxfp8", "fp4"})
"""Types of products of which there are published runs."""

_MEMORY_SPREAD = 0.15
"""Standard deviation of the logarithm of memory around what is predicted, between what the median
(0.11) and the 90th percentile (0.20) of rows say whose source was left out (docs/fidelity.md)."""

_TOLD = 0.01
"""Change by similar runs from which on it is said."""

_ROUNDS = 4
"""Steps of the fixed point of `constants_of`; each leaves about a tenth of what was missing."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one run is expected to take."""

    step_s: float
    low_s: float
    """Nine of ten such runs take so long at least; not a number where no run is like it."""

    high_s: float
    memory_bytes: float
    """What the run reports as memory of the fullest device; see `MemoryFamily.counter`."""

    fits: bool
    """Whether memory in use at the peak is there; cached blocks are given back where short."""

    fit_chance: float
    """Probability that it is."""

    block: str
    """Under which name the run is reported; see `block_of`."""

    inherited: str
    """Why the constants are those of another family or chip; empty where they are its own."""

    unlike: str = ""
    """Why no published run is like it, so that there is no interval; empty where some are."""

    unmeasured: tuple[str, ...] = ()
    """What no measured run of its family has, in sentences; each doubling widens the interval."""

    neighbours: float = 1.0
    """Expected time over that of the formulas, by measured runs like this one; in `step_s`."""

    @property
    def upper_s(self) -> float:
        """Three of four such runs take no longer; the middle where there is no interval."""
        if self.unlike:
            return self.step_s
        return self.step_s * float((self.high_s / self.step_s) ** QUARTER)

    @property
    def look_up(self) -> str:
        """What similar measured runs change, where it is more than 1 %; else empty."""
        change = self.neighbours - 1.0
        if abs(change) <= _TOLD:
            return ""
        return f"looked up: similar measured runs make it {100 * change:+.0f} %"


def predict(
    runs: Sequence[TrainingRun],
    guesses: Sequence[int] = (),
    calibration: Calibration | None = None,
) -> tuple[Prediction, ...]:
    """Predict the step time of runs.

    Args:
        runs: what to price.
        guesses: number of inputs of each run that a default stands in for; none by default.
        calibration: constants to use; those that the package ships by default.
    """
    known = shipped_calibration() if calibration is None else calibration
    guessed = list(guesses) or [0] * len(runs)
    times, factors, deviations, beyond = (np.zeros(len(runs)) for _ in range(4))
    for name, rows in _grouped([family_of(run)[0].name for run in runs]).items():
        table = RunTable.of([runs[row] for row in rows])
        machines = np.array([runs[row].machine for row in rows])
        factors[rows] = neighbours_of(name).factor(table, machines)
        deviations[rows] = neighbours_of(name).deviation(table, machines)
        times[rows] = step_times(table, known.constants[name]).total * factors[rows]
        far = distances(shipped_calibration().spans[name], table, len(rows))
        beyond[rows] = widened(far)
    memory, room = _memory(runs, known)
    return tuple(
        replace(
            _bounded(
                run,
                float(times[row]),
                float(deviations[row]),
                known,
                _borrowed(run, guessed[row], float(beyond[row]), own=known.is_own),
            ),
            unmeasured=_unmeasured(run) if beyond[row] > 1.0 else (),
            memory_bytes=float(memory[row]),
            fits=bool(room[row] >= 0.0),
            fit_chance=0.5 * (1.0 + math.erf(float(room[row]) / (_MEMORY_SPREAD * 2.0**0.5))),
            neighbours=float(factors[row]),
        )
        for row, run in enumerate(runs)
    )


def _memory(runs: Sequence[TrainingRun], known: Calibration) -> tuple[FloatArray, FloatArray]:
    """What runs report as memory, and the logarithm of what there is over what counts of it."""
    memory, room = np.zeros(len(runs)), np.zeros(len(runs))
    for profile, rows in _grouped([stand_in(run.profile) for run in runs]).items():
        table, constants = RunTable.of([runs[row] for row in rows]), known.memory_of(profile)
        family = memory_families().get(profile)
        counter = family.counter if family else "reserved"
        memory[rows] = reported_bytes(table, constants, counter)
        room[rows] = np.log(table.machine.usable_bytes / charged_bytes(table, constants))
    return memory, room


def _unmeasured(run: TrainingRun) -> tuple[str, ...]:
    spans = shipped_calibration().spans[family_of(run)[0].name]
    return tuple(unmeasured(spans, RunTable.of([run])))


def constants_of(run: TrainingRun, calibration: Calibration | None = None) -> StepConstants:
    """Constants under which the formulas alone take the time that is predicted for a run.

    Those of its family, slowed by what similar runs say, for whoever takes the step apart.
    """
    whole = shipped_calibration() if calibration is None else calibration
    table, known = RunTable.of([run]), whole.constants[family_of(run)[0].name]
    wanted, found, factor = predict([run], (), whole)[0].step_s, known, 1.0
    for _ in range(_ROUNDS):
        factor *= wanted / float(step_times(table, found).total[0])
        found = known.slowed(factor)
    return found


def _grouped(keys: Sequence[str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    return groups


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """How far constants are from a run's own."""

    why: str
    """Why they are not; empty where they are its own."""

    wider: float
    """How much wider the interval is."""

    least: tuple[float, float]
    """What it spans at least, in logarithms."""

    unlike: str = ""
    """Why there is none."""


def _borrowed(run: TrainingRun, guesses: int, beyond: float, *, own: bool) -> _Borrowed:
    """Why the constants of a run are not its machine's, and how much wider its interval is.

    Args:
        run: what is priced.
        guesses: number of its inputs that were guessed.
        beyond: how much wider its interval is for leaving what was measured.
        own: whether the constants were fitted to the user's cluster.
    """
    family, inherited = family_of(run)
    if run.profile == GENERIC:
        return _Borrowed("", 1.0, (0.0, 0.0), NO_RUNS)
    if not own and run.precision not in _MEASURED:
        what = f"uncalibrated: no published run had products in {run.precision}"
        return _Borrowed(inherited, 1.0, (0.0, 0.0), what)
    unnamed = guesses >= _SOFTWARE_GUESSED
    least = _OTHERS if not own and (inherited or unnamed) else (0.0, 0.0)
    if inherited and not (own and unnamed):
        # Software that nobody names is why constants are others': it counts once.
        stated = guesses - (_SOFTWARE_GUESSED - 1) * unnamed
        return _Borrowed(inherited, (1.0 + _WIDER_PER_GUESS * stated) * _WIDER_INHERITED, least)
    wider = (1.0 + _WIDER_PER_GUESS * guesses) * beyond
    if not own and run.machine not in shipped_calibration().machines[family.name]:
        why = f"constants of {family.name}: no runs on {run.machine}"
        return _Borrowed(why, wider * _WIDER_NEW_CHIP, least)
    return _Borrowed("", wider, least)


def _bounded(
    run: TrainingRun,
    step_s: float,
    deviation: float,
    calibration: Calibration,
    borrowed: _Borrowed,
) -> Prediction:
    """The interval around a step time; memory is left open."""
    block = block_of(run)
    ends = np.array(calibration.interval.get(block, _UNKNOWN).of(deviation))
    own = ends * deviation
    most = np.maximum(np.log(_WIDEST), np.abs(own))
    low, high = np.clip(own * borrowed.wider, -most, most)
    low, high = min(low, borrowed.least[0]), max(high, borrowed.least[1])
    low, high = np.exp([low, high]) * step_s
    return Prediction(
        step_s=step_s,
        low_s=math.nan if borrowed.unlike else float(min(low, step_s)),
        high_s=math.nan if borrowed.unlike else float(max(high, step_s)),
        memory_bytes=0.0,
        fits=True,
        fit_chance=1.0,
        block=block,
        inherited=borrowed.why,
        unlike=borrowed.unlike,
    )
