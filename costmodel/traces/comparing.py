"""A profile beside the plan that it ran."""

from __future__ import annotations

from collections import Counter

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.software import kernel_class
from costmodel.traces.records import Trace
from ir.ops import lookup
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.throughput import load_of

__all__ = ["check_same_job", "planned_causes", "planned_seconds"]

_ANOTHER = 4.0
"""Work of a trace over that of the plan, from which on it is of another job."""


def planned_seconds(plan: Plan) -> dict[str, float]:
    """Of a step, by class of kernels; waiting for the host is left out."""
    out: Counter[str] = Counter()
    for op in plan.operators:
        group = kernel_class(lookup(op.kind))
        seconds = sum(op.kernels_s) + op.recompute_s
        out["products" if group == "experts" else group] += seconds  # type: ignore[assignment]
    out["update"] += plan.estimate.time_by_cause.get(Cause.UPDATE, 0.0)  # type: ignore[assignment]
    out["messages"] += sum(c.time_s for c in plan.collectives if c.group_size > 1)  # type: ignore[assignment]
    return {group: float(seconds) for group, seconds in out.items() if seconds}


def planned_causes(plan: Plan) -> dict[str, float]:
    """Of a step, by cause as a profiler sums them up; waiting for the host counts as idle."""
    causes, step_s = plan.estimate.time_by_cause, plan.estimate.step_time_s
    waits_s = sum(sum(op.waits_s) for op in plan.operators)
    own = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE, Cause.UPDATE)
    computation_s = sum(causes.get(cause, 0.0) for cause in own) - waits_s
    return {
        "computation": computation_s,
        "exposed communication": step_s - computation_s - waits_s,
        "idle": waits_s,
        "step": step_s,
    }


def check_same_job(trace: Trace, plan: Plan) -> None:
    """Hold the ranks of a trace and the work of its products against a plan's.

    Raises:
        CalibrationError: it is of another job.
    """
    if trace.ranks and trace.ranks != plan.devices:
        raise CalibrationError(
            f"the trace is of another job: it has {trace.ranks} ranks, the plan {plan.devices} "
            "devices", trace.name, "give the plan that was run",
        )  # fmt: skip
    done = sum(each.calls * each.flops for each in trace.kernels) / trace.steps
    planned = load_of(plan).flops / plan.devices
    if done and planned and not 1 / _ANOTHER < done / planned < _ANOTHER:
        raise CalibrationError(
            f"the trace is of another job: its products are {done:.3g} operations a step, the "
            f"plan's {planned:.3g} on a device", trace.name,
            "give the plan that was run, and --steps where the trace has several",
        )  # fmt: skip
