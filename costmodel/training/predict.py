"""Step time with an interval for any runs, by the constants of the family that each belongs to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.calibration import shipped_calibration
from costmodel.training.families import block_of, family_of, memory_families
from costmodel.training.memory import memory_use
from costmodel.training.memory_fitting import reported_bytes
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.calibration import Calibration
    from costmodel.training.records import TrainingRun

__all__ = ["Prediction", "predict"]

_WIDER_PER_GUESS = 0.1
"""How much wider the interval is for each input that a default stands in for (assumed)."""

_WIDER_INHERITED = 2.0
"""How much wider where the constants are those of other software or chips (assumed)."""

USABLE = 0.98
"""Share of a device's memory that a job may fill; drivers keep the rest (assumed)."""

_UNKNOWN_SPREAD = (-0.35, 0.35)
"""Interval of a block without any measurement (assumed)."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one run is expected to take."""

    step_s: float
    low_s: float
    high_s: float
    memory_bytes: float
    """What the run reports as memory of the fullest device; see `MemoryFamily.counter`."""

    fits: bool
    """Whether memory in use at the peak is there; cached blocks are given back where short."""

    block: str
    """Under which name the run is reported; see `block_of`."""

    inherited: str
    """Why the constants are those of another family; empty where they are its own."""


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
    times, memory = np.zeros(len(runs)), np.zeros(len(runs))
    fits = np.zeros(len(runs), dtype=np.bool_)
    for name, rows in _grouped([family_of(run)[0].name for run in runs]).items():
        table = RunTable.of([runs[row] for row in rows])
        times[rows] = step_times(table, known.constants[name]).total
    for profile, rows in _grouped([run.profile for run in runs]).items():
        table, constants = RunTable.of([runs[row] for row in rows]), known.memory_of(profile)
        family = memory_families().get(profile)
        counter = family.counter if family else "reserved"
        memory[rows] = reported_bytes(table, constants, counter)
        fits[rows] = memory_use(table, constants).total <= USABLE * table.machine.memory_bytes
    return tuple(
        _bounded(run, (float(times[row]), float(memory[row]), bool(fits[row])), guessed[row], known)
        for row, run in enumerate(runs)
    )


def _grouped(keys: Sequence[str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    return groups


def _bounded(
    run: TrainingRun, amounts: tuple[float, float, bool], guesses: int, calibration: Calibration
) -> Prediction:
    step_s, memory_bytes, fits = amounts
    block, (_, inherited) = block_of(run), family_of(run)
    low, high = calibration.spread.get(block, _UNKNOWN_SPREAD)
    wider = (1.0 + _WIDER_PER_GUESS * guesses) * (_WIDER_INHERITED if inherited else 1.0)
    ends = np.exp(np.array([low, high]) * wider) * step_s
    return Prediction(
        step_s=step_s,
        low_s=float(min(ends[0], step_s)),
        high_s=float(max(ends[1], step_s)),
        memory_bytes=memory_bytes,
        fits=fits,
        block=block,
        inherited=inherited,
    )
