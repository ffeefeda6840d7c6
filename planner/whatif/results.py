"""What is known of one point: a record small enough to be kept for every point of a sweep."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ir.plan import Plan
from ir.throughput import Rates, rates_of
from planner.request import InfeasibleError
from planner.whatif.outline import outline_of, signature_of
from topology.cluster import Cluster

_STATES = ("weights", "optimizer state")
OK, TOO_LARGE, IMPOSSIBLE = "ok", "does not fit", "impossible"


@dataclass(frozen=True, slots=True)
class Result:
    """A point that was planned, or why it was not."""

    status: str
    """`ok`, `does not fit` (into the memory), or `impossible` (the request contradicts the model or
    the machine)."""
    message: str = ""
    """Why there is no plan."""
    step_s: float = math.inf
    """Of a step, as the planner estimates it."""
    simulated_s: float | None = None
    """Of the same step event by event; `None` where the plan cannot be simulated."""
    bound_s: float = 0.0
    """No plan of the space takes less."""
    gap: float = math.inf
    """Relative distance of the plan from that."""
    peak_bytes: float = math.inf
    """Per device; where nothing fits, of the smallest plan that was found."""
    limit_bytes: float = 0.0
    """Per device."""
    samples: float = 0.0
    """Of a step."""
    tokens: float = 0.0
    """Of a step; 0 where the model has none."""
    utilisation: float | None = None
    """Model FLOPs over what the devices could do in the step, as simulated if it is."""
    peak: str = ""
    """What one device could do, with the type of the products, such as `989 TFLOP/s bf16`."""
    outline: str = ""
    """The plan in a few words."""
    signature: str = ""
    """Equal for plans that split everything alike."""
    chip: str = ""
    server_devices: int = 1
    """Devices that are lost together."""
    state_bytes: float = 0.0
    """Weights and optimizer state of a device: what it writes into a checkpoint."""
    stages: int = 1
    micro_batches: int = 1
    time_by_cause: Mapping[str, float] = field(default_factory=dict)
    """Seconds; sums to the step."""
    truncated: bool = False
    """The time limit cut the search short: another run may find another plan."""

    @property
    def is_planned(self) -> bool:
        return self.status == OK

    @property
    def best_s(self) -> float:
        """Of a step: as simulated if it is, else as estimated."""
        return self.step_s if self.simulated_s is None else self.simulated_s

    def to_json(self) -> str:
        """One line; equal results give equal text."""
        record = {k: _plain(v) for k, v in asdict(self).items()}
        return json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """What `to_json` wrote.

        Raises:
            ValueError: the text is no result.
        """
        record = json.loads(text)
        if not isinstance(record, dict):
            raise TypeError("a result is an object")
        return cls(**{k: _number(k, v) for k, v in record.items()})


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value


def _number(name: str, value: Any) -> Any:
    return float(value) if name.endswith(("_s", "_bytes", "gap")) and value == "inf" else value


def planned(plan: Plan, simulated: Rates | None) -> Result:
    """The result of a point with a plan, and with its simulation if there is one."""
    estimate, pipeline = plan.estimate, plan.pipeline
    times = 1 if pipeline is None else pipeline.micro_batches
    cluster, rates = Cluster.from_dict(plan.cluster), simulated or rates_of(plan)
    return Result(
        OK,
        step_s=estimate.step_time_s,
        simulated_s=None if simulated is None else simulated.step_s,
        bound_s=plan.bound.bound_s,
        gap=plan.bound.gap,
        peak_bytes=estimate.peak_memory_bytes,
        limit_bytes=estimate.memory_limit_bytes,
        samples=rates.load.samples,
        tokens=rates.load.tokens,
        utilisation=rates.utilisation,
        peak=rates.load.peak_text,
        outline=outline_of(plan),
        signature=signature_of(plan),
        chip=cluster.chip.name,
        server_devices=server_devices(cluster),
        state_bytes=sum(estimate.memory_by_cause.get(cause, 0.0) for cause in _STATES),
        stages=1 if pipeline is None else len(pipeline.stages),
        micro_batches=times,
        time_by_cause=dict(estimate.time_by_cause),
        truncated=plan.bound.truncated,
    )


def server_devices(cluster: Cluster) -> int:
    """Devices of a server: all but the outermost tier, which joins servers if there are several."""
    tiers = cluster.tiers
    return cluster.devices // tiers[0].size if len(tiers) > 1 else cluster.devices


def too_large(error: InfeasibleError) -> Result:
    """The result of a point where nothing fits."""
    return Result(
        TOO_LARGE,
        message=error.what,
        peak_bytes=error.needed_bytes,
        limit_bytes=error.available_bytes,
    )


def impossible(error: Exception) -> Result:
    """The result of a point that contradicts itself; the first line says how."""
    return Result(IMPOSSIBLE, message=str(error).splitlines()[0])


def digest(record: object) -> str:
    """Name of a result: a hash of everything that it depends on."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
