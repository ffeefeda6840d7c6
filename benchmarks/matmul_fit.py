"""Fit of the constants of matrix products: few per chip, the others shared by chips that have the
same kind of matrix unit, with weak priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from costmodel.operators.matmul import MatmulRates, matmul_s

FloatArray = NDArray[np.float64]

ELEMENT_BYTES = 2.0

MEMORY_SHARE = 0.9
"""What copies reach of the peak bandwidth. Not fitted: arithmetic binds most shapes here, and left
free it takes what the overlap should explain."""


@dataclass(frozen=True, slots=True)
class System:
    """A machine of the measurements."""

    chip: str
    generation: str
    units: int
    peak: float
    """FLOP/s of bfloat16, without sparsity."""
    bandwidth: float
    known_share: float
    """Best published share of the peak: what a chip is predicted with that is left out."""
    largest_tile: int
    fewest_rows: int


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant of the law: who shares it, and what is thought of it beforehand."""

    level: str
    """`all`, `generation` or `chip`."""
    prior: float
    spread: float
    """Of its logarithm; wide ones leave the constant to the data."""


CONSTANTS: Mapping[str, Constant] = {
    "share": Constant("chip", 0.85, 0.4),
    "tile_penalty": Constant("generation", 0.1, 2.0),
    "start_length": Constant("generation", 100.0, 1.0),
    "blend": Constant("generation", 0.4, 1.0),
    "split_cost": Constant("generation", 3.0, 2.0),
    "sharpness": Constant("generation", 3.0, 0.6),
    "throttle": Constant("chip", 0.2, 2.0),
    "start_s": Constant("generation", 3e-6, 1.0),
    "throttle_after_s": Constant("all", 1.3e-3, 2.0),
}

PRIOR_WEIGHT = 0.3
LOSS_SCALE = 0.05
"""Errors of logarithms above this count linearly: libraries sometimes choose a poor kernel."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Measurements, one after the other."""

    system: NDArray[np.int64]
    """Index into the systems."""
    m: FloatArray
    n: FloatArray
    k: FloatArray
    time_s: FloatArray

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        return Rows(*(getattr(self, f.name)[chosen] for f in fields(self)))


class Fit:
    """Constants of several systems as one vector."""

    def __init__(self, systems: Sequence[System]) -> None:
        self.systems = tuple(systems)
        self.start: dict[str, int] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        size = 0
        for name, constant in CONSTANTS.items():
            keys = dict.fromkeys(_key(constant.level, system) for system in self.systems)
            self.start[name], self.members[name] = size, tuple(keys)
            size += len(keys)
        self.prior = np.concatenate(
            [np.full(len(self.members[n]), _to_line(n, c.prior)) for n, c in CONSTANTS.items()]
        )
        self.spread = np.concatenate(
            [np.full(len(self.members[n]), c.spread) for n, c in CONSTANTS.items()]
        )

    def value(self, vector: FloatArray, name: str, member: str) -> float:
        place = self.start[name] + self.members[name].index(member)
        return float(_from_line(name, vector[place]))

    def rates(self, vector: FloatArray, system: NDArray[np.int64]) -> MatmulRates:
        """Constants of every row."""
        found: dict[str, FloatArray] = {}
        for name, constant in CONSTANTS.items():
            members = self.members[name]
            place = [members.index(_key(constant.level, s)) for s in self.systems]
            found[name] = _from_line(name, vector[self.start[name] + np.array(place)])[system]
        units = np.array([s.units for s in self.systems], np.float64)[system]
        largest = np.array([s.largest_tile for s in self.systems], np.float64)[system]
        rows = np.array([s.fewest_rows for s in self.systems], np.float64)[system]
        return MatmulRates(
            memory=MEMORY_SHARE, units=units, largest_tile=largest, fewest_rows=rows, **found
        )

    def predicted_s(self, vector: FloatArray, rows: Rows) -> FloatArray:
        return predicted_s(self.systems, self.rates(vector, rows.system), rows)

    def run(self, rows: Rows) -> FloatArray:
        """The vector that fits the rows best."""
        from scipy.optimize import least_squares  # noqa: PLC0415  slow to import

        logged = np.log(rows.time_s)

        def residuals(vector: FloatArray) -> FloatArray:
            errors = np.log(self.predicted_s(vector, rows)) - logged
            return np.append(errors, PRIOR_WEIGHT * (vector - self.prior) / self.spread)

        found = least_squares(
            residuals,
            self.prior,
            loss="soft_l1",
            f_scale=LOSS_SCALE,
            diff_step=(3e-3,) * len(self.prior),
            max_nfev=60,
        )
        return np.asarray(found.x)


def predicted_s(systems: Sequence[System], rates: MatmulRates, rows: Rows) -> FloatArray:
    """Seconds of every row."""
    peak = np.array([s.peak for s in systems])[rows.system]
    bandwidth = np.array([s.bandwidth for s in systems])[rows.system]
    return matmul_s((1.0, rows.m, rows.n, rows.k), peak, bandwidth, rates)


def inherited(fit: Fit, vector: FloatArray, generation: str | None) -> dict[str, float]:
    """Constants of a chip of this generation that was not measured, all but its share of the peak;
    None for a generation that was not: the mean over generations, of logarithms where the constant
    is a factor.
    """
    if generation is None:
        known = dict.fromkeys(s.generation for s in fit.systems)
        each = [inherited(fit, vector, g) for g in known]
        return {n: _mean(n, [values[n] for values in each]) for n in each[0]}
    kin = [s for s in fit.systems if s.generation == generation]
    return {
        name: _mean(name, [fit.value(vector, name, _key(constant.level, s)) for s in kin])
        for name, constant in CONSTANTS.items()
        if name != "share"
    }


def left_out_rates(fit: Fit, vector: FloatArray, system: System) -> MatmulRates:
    """Constants of a system that was not fitted on: those of its generation, else of all."""
    known = any(s.generation == system.generation for s in fit.systems)
    found = inherited(fit, vector, system.generation if known else None)
    return MatmulRates(
        share=system.known_share,
        units=float(system.units),
        memory=MEMORY_SHARE,
        largest_tile=float(system.largest_tile),
        fewest_rows=float(system.fewest_rows),
        **found,
    )


def _mean(name: str, values: Sequence[float]) -> float:
    line = [_to_line(name, value) for value in values]
    return float(_from_line(name, float(np.mean(line))))


def _key(level: str, system: System) -> str:
    return {"all": "all", "generation": system.generation, "chip": system.chip}[level]


def _to_line(name: str, value: float) -> float:
    return float(np.log(value / (1 - value)) if name == "blend" else np.log(value))


def _from_line(name: str, line: float | FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.asarray(line))) if name == "blend" else np.exp(line))
