"""Fit of the constants of fused attention to published measurements."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodel.operators.attention import AttentionRates, AttentionShape, fused_attention_s

FloatArray = NDArray[np.float64]

PRIOR = AttentionRates(0.7, 0.6, 20.0, 60.0, 150.0)
PRIOR_WEIGHT = 0.05
START_S = 3e-6


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement."""

    chip: str
    kernel: str
    backward: bool
    causal: bool
    shape: AttentionShape
    time_s: float
    source: str


def read(path: Path) -> list[Measured]:
    """Rows of the file; rates are FLOP/s of 4 rows^2 head heads, half if causal, 2.5 times back."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [_measured(row) for row in csv.DictReader(lines)]


def _measured(row: dict[str, str]) -> Measured:
    batch, heads, rows, head = (float(row[k]) for k in ("batch", "heads", "rows", "head_size"))
    backward, causal = row["pass"] == "backward", row["causal"] == "1"
    flops = 4 * batch * heads * rows**2 * head * (0.5 if causal else 1) * (2.5 if backward else 1)
    return Measured(
        chip=row["chip"],
        kernel=row["kernel"],
        backward=backward,
        causal=causal,
        shape=AttentionShape(batch, heads, heads, rows, rows, head),
        time_s=flops / (float(row["tflops"]) * 1e12),
        source=row["source"],
    )


Chip = tuple[float, float, float, float]
"""Units, matrix FLOP/s, vector FLOP/s, memory bytes per second."""


def predicted_s(
    rates: AttentionRates, rows: Sequence[Measured], chips: Sequence[Chip]
) -> FloatArray:
    """Seconds of every row."""
    return np.array(
        [
            START_S + fused_attention_s(r.shape, chip, rates, causal=r.causal, backward=r.backward)
            for r, chip in zip(rows, chips, strict=True)
        ]
    )


def fitted(rows: Sequence[Measured], chips: Sequence[Chip]) -> AttentionRates:
    """The constants that fit best; what the rows do not tell stays at the prior."""
    from scipy.optimize import least_squares  # noqa: PLC0415  slow to import

    prior = np.log(np.array(astuple(PRIOR), np.float64))
    logged = np.log([r.time_s for r in rows])

    def residuals(line: FloatArray) -> FloatArray:
        rates = AttentionRates(*np.exp(line).tolist())
        return np.append(
            np.log(predicted_s(rates, rows, chips)) - logged, PRIOR_WEIGHT * (line - prior)
        )

    highest = np.array([0.0, 0.0, np.inf, np.inf, np.inf])  # a share of the peak is at most 1
    found = least_squares(
        residuals, prior, diff_step=(1e-3,) * len(prior), bounds=(-np.inf, highest)
    )
    return AttentionRates(*np.exp(found.x).tolist())
