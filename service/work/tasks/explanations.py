"""Why a plan is as it is."""

from __future__ import annotations

from pydantic import TypeAdapter

from planner.explain.asked import answer_json, explained
from planner.requests.options.explanations import ExplanationOptions
from service.store.queue import Outcome
from service.work.given import Given

_OPTIONS = TypeAdapter(ExplanationOptions)


def explain(given: Given) -> Outcome:
    """What `planner explain --json` prints.

    Raises:
        UserError: an option is wrong, or the plan has no such operator.
    """
    asked = _OPTIONS.validate_python(given.request["options"])
    plan = given.plan(str(given.request["plan"]), staged=True)
    return Outcome(answer_json(explained(plan, asked, given.report)))
