"""A plan as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from report.plan import PlanReport, compared
from report.plan_tables import (
    baseline_table,
    memory_table,
    operator_table,
    parameter_table,
    quality,
    recomputed_lines,
    stage_table,
    time_table,
)
from report.tables import Head, Lines, Part
from topology.units import format_seconds

if TYPE_CHECKING:
    from ir.plan import Plan

HEAVIEST = 12
"""Rows of a table of groups; what is left out is counted."""
LEGEND = """\
In layouts `-` is a dimension that is not split, a tier such as `card` stands for all mesh axes of
that tier, `all` for all axes of the mesh, and `+card` is a partial sum over the cards."""


def plan_parts(
    plan: Plan, files: Sequence[Path], *, first: Sequence[str] = (), losses: Sequence[str] = ()
) -> Iterator[Part]:
    """The whole summary.

    Args:
        plan: what was decided.
        files: what was written.
        first: what else belongs to the first lines.
        losses: what the strategy files cannot say, a sentence each.
    """
    report = PlanReport(plan)
    yield from _headline(report, first)
    yield from _tables(report)
    yield Lines("Notes", report.notes, "- ")
    yield Lines("Written", tuple(map(str, files)), soft_wrap=True)
    yield Lines("", tuple(losses), "- ")


def _headline(report: PlanReport, first: Sequence[str]) -> Iterator[Part]:
    certainty = report.certainty
    told = " (uncalibrated)" if certainty == "uncalibrated" else f", {certainty}"
    step = f"{report.what} in {format_seconds(report.step_s)}{told}"
    lines = [", ".join(report.rates.words), f"{report.memory}; {report.proof}", *first]
    lines += [", ".join(report.job), report.split, report.place, *compared(report)]
    yield Head(report.name)
    yield Head(f"{report.plan.graph.name}: {step}", lines)


def _tables(report: PlanReport) -> Iterator[Part]:
    yield time_table(report)
    if not report.plan.pipeline.is_single:
        yield stage_table(report)
    yield memory_table(report)
    yield quality(report)
    yield baseline_table(report.plan.baselines, report.step_s)
    yield operator_table(report, report.operators[:HEAVIEST])
    yield Lines("", (LEGEND,))
    yield parameter_table(report, report.parameters[:HEAVIEST])
    yield recomputed_lines(report, HEAVIEST)
