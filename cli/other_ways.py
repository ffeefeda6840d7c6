"""Other ways than the chosen plan: why not, and why nothing fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.machine_files import machine_file
from cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ir.plan import Plan
    from planner.explain import Infeasibility
    from planner.request import InfeasibleError
    from planner.requests.options.searches import SearchOptions
    from planner.requests.searches import Question
    from report.explanation import WhyNot


def check_ways(found: Question, texts: Sequence[str]) -> None:
    """Find out before the work begins whether every restriction is one.

    Raises:
        RequestError: it is none, or the request cannot have it.
    """
    from planner.requests.search_request import with_restriction  # noqa: PLC0415

    for text in texts:
        with_restriction(found.request, text, "--why-not")


def other_ways(found: Question, plan: Plan, texts: Sequence[str]) -> list[WhyNot]:
    """What comes of each restriction on a search that was just made."""
    if not texts:
        return []
    from planner.explain import why_not_search  # noqa: PLC0415  brings in the planner

    graph = found.model.graph(dict(found.request.bind))
    with Progress() as progress:
        return [
            why_not_search(graph, found.machine.cluster, found.request, plan, text, progress)
            for text in texts
        ]


def explained(found: Question, asked: SearchOptions, error: InfeasibleError) -> Infeasibility:
    """Why nothing fits, with changes that were tried."""
    from planner.explain.questions import explain_infeasible  # noqa: PLC0415  brings in the planner

    file = machine_file(asked.cluster, f"--cluster {asked.cluster}")
    with Progress() as progress:
        return explain_infeasible(found, asked, file, error, progress)


def in_json(found: Sequence[WhyNot]) -> dict[str, object]:
    """What `--json` says of them; nothing where none was asked for."""
    return {"why_not": [each.to_dict() for each in found]} if found else {}


def print_answers(found: Sequence[WhyNot]) -> None:
    """Each as text for people."""
    if not found:
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.explanation_tables import why_not_parts  # noqa: PLC0415

    tell(part for each in found for part in why_not_parts(each))
