"""The step of a plan under other circumstances, with the table that says what changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ir.json_text import finite
from ir.plan import Plan
from planner.repricing.other_circumstances import Factors, step_change
from planner.repricing.possible_sizes import possible_sizes
from report.step_change import step_table
from report.tables import plain


def whatif_view(plan: Plan, factors: Factors) -> dict[str, Any]:
    """The step before and after.

    Raises:
        RequestError: the plan cannot be kept there.
        SimulationError, BatchError, ClusterError: the plan or the factors do not fit.
    """
    steps = dict(zip(("before", "after"), step_change(plan, factors), strict=True))
    told = {name: finite(asdict(step)) | {"fits": step.fits} for name, step in steps.items()}
    return {**told, "report": plain(step_table(**steps))}


def sizes_view(plan: Plan) -> dict[str, Any]:
    """Devices and batches that a what-if can ask of a plan."""
    devices, batches = possible_sizes(plan)
    return {"devices": devices, "batch": batches}
