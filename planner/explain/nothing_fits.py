"""Why nothing fits, with changes that were tried: what everybody is told who asks."""

from __future__ import annotations

from planner.asking.machines import machine
from planner.asking.options import SearchOptions
from planner.asking.searching import Question
from planner.asking.sources import Document
from planner.explain.infeasible import Infeasibility, why_infeasible
from planner.request import InfeasibleError
from planner.search import Report
from topology.cluster import Cluster


def why_nothing_fits(
    found: Question, asked: SearchOptions, machine_file: Document | None,
    error: InfeasibleError, report: Report = lambda _: None,
) -> Infeasibility:  # fmt: skip
    """Reasons, and changes that were tried; after Ctrl-C those that were tried until then.

    Args:
        found: what was asked.
        asked: the same as text.
        machine_file: what `asked.cluster` names, if that is no bundled machine.
        error: how the search ended.
        report: receives progress.
    """
    named = asked.cluster if machine_file is None else machine_file

    def grow(devices: int) -> Cluster:
        return machine(named, devices, asked.product, found.request).cluster

    graph = found.model.graph(dict(found.request.bind))
    if not error.interrupted:
        report("nothing fits: looking for the least change with which something does")
    request = found.left
    return why_infeasible(graph, found.machine.cluster, request, error, grow, report=report)


def with_fixes(error: InfeasibleError, found: Infeasibility) -> InfeasibleError:
    """The error with the changes that were tried in place of those that were only reckoned."""
    remedies = tuple(fix.text for fix in found.fixes) or error.remedies
    return InfeasibleError(
        error.what, error.needed_bytes, error.available_bytes, error.contributors, remedies,
        error.baselines, interrupted=found.interrupted,
        out_of_time=found.out_of_time or error.out_of_time,
    )  # fmt: skip
