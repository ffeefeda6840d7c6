"""The baseline to beat: one utilisation per block and type of products, plus the bubble formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.sizes import model_flops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.table import FloatArray, RunTable

__all__ = ["baseline_s", "fit_utilisation", "ideal_s"]


def ideal_s(table: RunTable) -> FloatArray:
    """Seconds of a step at the peak rate, with the bubble (p - 1) / (m v)."""
    devices = table.tp * table.pp * table.dp * table.cp
    micro_batches = table.global_batch / (table.micro_batch * table.dp)
    bubble = 1.0 + (table.pp - 1.0) / (micro_batches * table.vpp)
    return model_flops(table) / (devices * table.machine.flops) * bubble


def fit_utilisation(table: RunTable, measured_s: FloatArray) -> dict[tuple[float, float], float]:
    """The utilisation that fits best (median) for each type of products."""
    ratio = ideal_s(table) / measured_s
    kinds = list(zip(table.fp8.tolist(), table.fp4.tolist(), strict=True))
    return {
        kind: float(np.median(ratio[[k == kind for k in kinds]])) for kind in sorted(set(kinds))
    }


def baseline_s(table: RunTable, utilisation: dict[tuple[float, float], float]) -> FloatArray:
    """Step times of the baseline; a type that was not seen takes the mean of the others."""
    kinds: Sequence[tuple[float, float]] = list(
        zip(table.fp8.tolist(), table.fp4.tolist(), strict=True)
    )
    usual = float(np.mean(list(utilisation.values())))
    shares = np.array([utilisation.get(kind, usual) for kind in kinds], dtype=np.float64)
    return ideal_s(table) / shares
