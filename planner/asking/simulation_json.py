"""A simulation as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from costmodel.simulation.accounting import Account
    from costmodel.simulation.memory import MemoryCurve
    from costmodel.simulation.result import Simulation

CURVE_POINTS = 200
"""Most points of a memory curve that are printed; the trace has all of them."""


def answer(found: Simulation, files: Sequence[object] = ()) -> dict[str, object]:
    """All that a simulation says, but single tasks."""
    load = found.load
    return {
        "status": "ok",
        "name": found.name,
        "step_time_s": found.step_s,
        "estimate_s": found.estimate_s,
        **found.rates.record(),
        "devices": load.devices,
        **_time(found.account),
        "bubble": None if found.bubble is None else asdict(found.bubble),
        "memory": [_memory(curve) for curve in found.memory],
        "peak_memory_bytes": found.peak_memory_bytes,
        "memory_limit_bytes": load.memory_bytes,
        "fits": found.fits,
        "variation": variation(found),
        "tasks": len(found.timeline.programme),
        "facts": dict(found.facts),
        "notes": list(found.notes),
        "files": [str(p) for p in files],
    }


def _time(account: Account) -> dict[str, object]:
    return {
        "computing_s": dict(account.computing),
        "exposed_communication_s": account.exposed_s,
        "hidden_communication_s": account.hidden_s,
        "waiting_s": account.waiting_s,
        "communication": [
            asdict(item) | {"hidden_s": item.hidden_s} for item in account.communication
        ],
        "per_device": [asdict(device) for device in account.devices],
    }


def _memory(curve: MemoryCurve) -> dict[str, object]:
    """Peak and a thinned curve, whose every interval keeps its largest point."""
    count = len(curve.time_s)
    parts = np.array_split(np.arange(count), min(count, CURVE_POINTS))
    keep = [int(part[curve.nbytes[part].argmax()]) for part in parts if len(part)]
    return {
        "device": curve.device,
        "peak_bytes": curve.peak_bytes,
        "peak_at_s": curve.peak_at_s,
        "time_s": [float(curve.time_s[i]) for i in keep],
        "bytes": [float(curve.nbytes[i]) for i in keep],
    }


def variation(found: Simulation) -> dict[str, object] | None:
    """How long drawn steps take; None without variation."""
    drawn = found.varied_s
    if drawn is None:
        return None
    return {
        "samples": len(drawn),
        "mean_s": float(drawn.mean()),
        "median_s": float(np.median(drawn)),
        "p95_s": float(np.quantile(drawn, 0.95)),
        "largest_s": float(drawn.max()),
        "slower_than_equal_devices": float(drawn.mean() / found.step_s - 1),
    }
