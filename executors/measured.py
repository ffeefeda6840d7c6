"""What a run of a plan took, beside what the plan says of it."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ir.graph import OpGraph
from ir.ops import Engine, lookup
from ir.plan import Plan, PlannedCollective
from ir.plan_degrees import degrees_of
from ir.plan_enums import Cause
from ir.plan_stages import leaving, messages_of, slowest_part

FORMAT = "parallel-plan-measured"
WARM_UP = 3
"""Steps before those that are measured."""
PROFILED = 2
"""Steps behind them that are profiled."""
ALONE_BYTES = 2**30
"""Weights and activations up to which one device computes the loss too."""
RATE = 1e-4
"""At which the optimizer learns."""
POINT_TO_POINT = "point_to_point"
_TOLERANCE = 1e-4
"""Relative error of a loss in float32 that rounding makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run, as its slowest rank saw each step."""

    steps_s: tuple[float, ...]
    """Without the steps that warmed up."""
    computation_s: float
    """Of a step in the middle: forward and backward pass without waiting for messages."""
    update_s: float
    waiting_s: float
    """In which the device waits for messages."""
    idle_s: float = 0.0
    """In which it waits for other stages, and for what they send."""
    classes_s: Mapping[str, float]
    """Of one profiled step, by class of operator."""
    messages: Mapping[str, tuple[int, float]]
    """Of one profiled step: number of collectives by kind, and their seconds together."""
    memory_bytes: float
    """Most that a process held above what it had before the model."""
    loss: float
    loss_alone: float | None
    """The same on one device; none where it was not computed."""
    processes: int
    machine: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def software(self) -> str:
        """The library that ran it, with its version."""
        return next(f"{n} {self.machine[n]}" for n in ("torch", "jax") if n in self.machine)

    @property
    def median_s(self) -> float:
        return statistics.median(self.steps_s)

    @property
    def spread_s(self) -> tuple[float, float]:
        """10 % and 90 % quantiles of the steps."""
        ordered = sorted(self.steps_s)
        last = len(ordered) - 1
        return ordered[round(0.1 * last)], ordered[round(0.9 * last)]

    @property
    def loss_error(self) -> float | None:
        """Relative difference of the loss from that of one device."""
        if self.loss_alone is None:
            return None
        return abs(self.loss - self.loss_alone) / max(abs(self.loss_alone), 1e-12)

    @property
    def is_right(self) -> bool:
        """Whether the loss is that of one device, as far as this is known."""
        return self.loss_error is None or self.loss_error <= _TOLERANCE

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Measured:
        messages = {k: (int(n), float(s)) for k, (n, s) in record["messages"].items()}
        plain = {**record, "messages": messages, "steps_s": tuple(record["steps_s"])}
        return cls(**{**plain, "notes": tuple(record.get("notes", ()))})


@dataclass(frozen=True, slots=True)
class Row:
    """One cause of time or bytes."""

    cause: str
    predicted: float
    measured: float

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0 if self.measured > 0 else None


def rows_of(plan: Plan, found: Measured) -> tuple[Row, ...]:
    """Seconds of a step by cause, predicted and measured; the step itself last."""
    causes = plan.estimate.time_by_cause
    computed = {Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE}
    computation_s = sum(s for cause, s in causes.items() if cause in computed)
    update_s = causes.get(Cause.UPDATE, 0.0) + causes.get(Cause.HOST, 0.0)
    step_s = plan.estimate.step_time_s
    idle_s = 0.0 if plan.pipeline.is_single else _idle_s(causes)
    exposed_s = step_s - computation_s - update_s - idle_s
    stages = () if plan.pipeline.is_single else (Row("other stages", idle_s, found.idle_s),)
    return (
        Row("computation", computation_s, found.computation_s),
        Row("optimizer update", update_s, found.update_s),
        Row("exposed communication", exposed_s, found.waiting_s),
        *stages,
        Row("step", step_s, found.median_s),
    )


def _idle_s(causes: Mapping[str, float]) -> float:
    """Seconds of the bubble and of what stages send to each other."""
    sent = (s for cause, s in causes.items() if cause.startswith(POINT_TO_POINT))
    return causes.get(Cause.OTHER_STAGES, 0.0) + sum(sent)


def message_rows(plan: Plan, found: Measured) -> tuple[tuple[str, int, float, int, float], ...]:
    """For every kind of collective: planned number and seconds, seen number and seconds. Of a
    pipeline those of its slowest part, which sends and receives.
    """
    planned: dict[str, tuple[int, float]] = {}
    for item in _own_messages(plan):
        if item.group_size > 1:
            count, time_s = planned.get(item.kind, (0, 0.0))
            planned[item.kind] = (count + item.count, time_s + item.time_s)
    kinds = sorted({*planned, *found.messages})
    return tuple(
        (kind, *planned.get(kind, (0, 0.0)), *found.messages.get(kind, (0, 0.0))) for kind in kinds
    )


def _own_messages(plan: Plan) -> Sequence[PlannedCollective]:
    if plan.pipeline.is_single:
        return plan.collectives
    part = slowest_part(plan)
    stages = range(part, len(plan.pipeline.stages), plan.pipeline.parts)
    return *messages_of(plan, part), *(send for stage in stages for send in leaving(plan, stage))


def slowdowns(plan: Plan, found: Measured) -> tuple[float, float]:
    """Measured over predicted time of computation and of all messages; 1 where there are none."""
    computation, *_ = rows_of(plan, found)
    rows = [row for row in message_rows(plan, found) if row[0] != POINT_TO_POINT]  # they wait
    planned_s, seen_s = sum(row[2] for row in rows), sum(row[4] for row in rows)
    sent = seen_s / planned_s if planned_s > 0 and seen_s > 0 else 1.0
    known = computation.predicted > 0 and computation.measured > 0
    return (computation.measured / computation.predicted if known else 1.0), sent


def record_of(plan: Plan, found: Measured) -> dict[str, Any]:
    """The JSON form of a run, with what the plan says of it."""
    return {
        "format": FORMAT,
        "version": 1,
        "model": plan.graph.name,
        "digest": plan.digest,
        "cluster": plan.cluster.get("name", ""),
        "profile": plan.request.get("profile", ""),
        "predicted": {
            "step_time_s": plan.estimate.step_time_s,
            "peak_memory_bytes": plan.estimate.peak_memory_bytes,
            "by_cause": dict(plan.estimate.time_by_cause),
        },
        "measured": {
            "step_time_s": found.median_s,
            "step_time_10_s": found.spread_s[0],
            "step_time_90_s": found.spread_s[1],
            "loss_error": found.loss_error,
            **asdict(found),
        },
        "by_cause": [asdict(row) for row in rows_of(plan, found)],
    }


def to_json(plan: Plan, found: Measured) -> str:
    """The text of measured.json."""
    return json.dumps(record_of(plan, found), indent=1) + "\n"


COLUMNS = (
    "id", "source", "hardware", "devices", "model", "hidden", "layers", "heads", "ffn_hidden",
    "vocab", "seq_len", "global_batch", "micro_batch", "tp", "pp", "dp", "zero_stage", "recompute",
    "dtype", "notes", "measured_step_time_s", "measured_memory_gb",
)  # fmt: skip
"""Of the row that `planner validate` reads."""


def validation_row(plan: Plan, found: Measured) -> str:
    """A table of one run; sizes that the graph does not have are left empty."""
    degrees = degrees_of(plan)
    values: dict[str, object] = {
        "id": f"{plan.graph.name}-{plan.devices}",
        "source": "planner run",
        "hardware": str(plan.cluster.get("name", "")),
        "devices": plan.devices,
        "model": plan.graph.name,
        **_sizes(plan.graph),
        "global_batch": plan.batch or "",
        "micro_batch": plan.pipeline.micro_batch or "",
        "tp": degrees.tp,
        "pp": degrees.pp,
        "dp": degrees.dp,
        "zero_stage": degrees.zero,
        "recompute": "selective" if plan.recomputed else "none",
        "dtype": _main_dtype(plan.graph),
        "notes": f"{found.software}; {found.machine.get('device', '')}",
        "measured_step_time_s": f"{found.median_s:.6g}",
        "measured_memory_gb": f"{found.memory_bytes / 2**30:.4g}",
    }
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerow(values)
    return out.getvalue()


def _main_dtype(graph: OpGraph) -> str:
    short = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
    dtypes = [t.dtype for t in graph.parameters]
    return short.get(max(set(dtypes), key=dtypes.count), "") if dtypes else ""


def _sizes(graph: OpGraph) -> dict[str, object]:
    """Sizes of a transformer, as far as its attention and its products say them."""
    attention = [op for op in graph.ops if lookup(op.kind).engine is Engine.ATTENTION]
    if not attention:
        return {}
    dims: Sequence[int] = graph.tensors[attention[0].inputs[0]].dims
    if len(dims) == 4:
        heads, rows, hidden = dims[1], dims[2], dims[1] * dims[3]
    else:
        number = attention[0].attributes.get("q_num_heads", 1)
        heads, rows, hidden = int(str(number)), dims[-2], dims[-1]
    weights = [t.dims for t in graph.parameters if len(t.dims) == 2 and hidden in t.dims]
    others = [max(d) for d in weights]
    counts = {size: others.count(size) for size in others if size > hidden}
    wide = [size for size, n in counts.items() if n >= len(attention) and size != 3 * hidden]
    ends = [size for size, n in counts.items() if n < len(attention)]
    return {
        "hidden": hidden,
        "layers": len(attention),
        "heads": heads,
        "seq_len": rows,
        "ffn_hidden": min(wide, default=""),
        "vocab": max(ends, default=""),
    }
