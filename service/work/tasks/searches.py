"""A search: the same composition as on the command line, so the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from ir.plan import Plan
from planner.explain import why_not_search
from planner.explain.questions import explain_infeasible, with_fixes
from planner.request import InfeasibleError
from planner.requests.options.searches import SearchOptions
from planner.requests.plan_json import found, infeasible
from planner.requests.search_request import with_restriction
from planner.requests.searches import Question, plan_bytes, precision_notes, question
from service.facts import plan_facts
from service.store.items import NewItem, is_item_id
from service.store.queue import Outcome
from service.views.ready import first_views
from service.work.given import Given

_OPTIONS = TypeAdapter(SearchOptions)


def search(given: Given) -> Outcome:
    """A plan, or the reasons why none fits.

    Raises:
        UserError: the request is wrong; other errors of `planner.requests.errors` likewise.
    """
    options = _with_older(given, _OPTIONS.validate_python(given.request["options"]))
    model = given.model(str(given.request["model"]))
    machine_file = given.machine_file(options.cluster)
    asked = question(model, options, machine_file)
    ways = [str(text) for text in given.request.get("why_not", ())]
    for text in ways:
        with_restriction(asked.request, text, "--why-not")
    try:
        plan = asked.plan(given.report)
    except InfeasibleError as error:
        given.report(error.what)
        why = explain_infeasible(asked, options, machine_file, error, given.report)
        told = {"explanation": why.to_dict()}
        return Outcome({**infeasible(with_fixes(error, why)), **told, "plan": None})
    summary: dict[str, Any] = found(plan, first=precision_notes(plan)) | _other_ways(
        asked, plan, ways, given
    )
    content = plan_bytes(plan)
    facts = plan_facts(plan, model.name, str(given.request["model"]))
    return Outcome(
        {**summary, "plan": "$plan", "warnings": list(asked.warnings)},
        (NewItem("plan", model.name, content, facts),),
        keep=not plan.bound.truncated,
        views=first_views(plan),
    )


def _other_ways(asked: Question, plan: Plan, ways: Sequence[str], given: Given) -> dict[str, Any]:
    """What each other way would cost more; nothing where none was asked for."""
    if not ways:
        return {}
    graph, cluster = asked.model.graph(dict(asked.request.bind)), asked.machine.cluster
    answers = (
        why_not_search(graph, cluster, asked.request, plan, text, given.report) for text in ways
    )
    return {"why_not": [each.to_dict() for each in answers]}


def _with_older(given: Given, options: SearchOptions) -> SearchOptions:
    """The options with the text of the older plan, where its id stands for it."""
    older = options.keep_close_to
    if older is None or older.text or not is_item_id(older.name):
        return options
    return replace(options, keep_close_to=given.document(older.name, "plan"))
