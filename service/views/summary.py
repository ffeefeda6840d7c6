"""The summary of a plan: what `planner search` answers, and the tables that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ir.json_text import finite
from ir.plan import Plan
from planner.requests.plan_json import found
from report.plan import PlanReport
from report.plan_tables import (
    baseline_table,
    memory_table,
    operator_table,
    quality,
    recomputed_lines,
    stage_table,
    time_table,
)
from report.tables import Lines, Part, plain

HEAVIEST = 12
"""Groups of operators in the summary; the table has all operators."""


def summary_view(plan: Plan) -> dict[str, Any]:
    """The answer to a search, what the plan is of, and its tables by name."""
    report = PlanReport(plan)
    answer: dict[str, Any] = finite(found(plan))
    return answer | {
        "model": plan.graph.name,
        "target": plan.request.get("target"),
        "batch": plan.batch,
        "devices": plan.devices,
        "cluster": plan.cluster.get("name"),
        "tiers": finite(plan.cluster.get("tiers", [])),
        "plan_name": report.name,
        "about": list(report.about),
        "figures": [finite(asdict(figure)) for figure in report.figures],
        "operators": len(plan.operators),
        "model_operators": report.model_operators,
        "elements": report.elements,
        "examples": [group.example.name for group in report.operators[:HEAVIEST]],
        "report": {name: plain(part) for name, part in _parts(report)},
    }


def _parts(report: PlanReport) -> Iterator[tuple[str, Part]]:
    yield "time", time_table(report)
    yield "memory", memory_table(report)
    yield "operators", operator_table(report, report.operators[:HEAVIEST], in_full=True)
    yield "quality", quality(report)
    if not report.plan.pipeline.is_single:
        yield "stages", stage_table(report)
    yield "schemes", baseline_table(report.plan.baselines, report.step_s)
    yield "recomputed", recomputed_lines(report, HEAVIEST)
    yield "notes", Lines("Notes", (*filter(None, [report.split]), *report.notes), "- ")
