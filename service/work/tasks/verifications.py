"""A plan verified on virtual devices."""

from __future__ import annotations

from pydantic import TypeAdapter

from planner.requests.verification import VerificationOptions, verdict_record, verified
from service.store.queue import Outcome
from service.work.given import Given

_OPTIONS = TypeAdapter(VerificationOptions)


def verify(given: Given) -> Outcome:
    """What `planner verify --json` prints.

    Raises:
        UserError: an option is wrong, or the model is not the plan's.
    """
    options = _OPTIONS.validate_python(given.request["options"])
    plan = given.plan(str(given.request["plan"]), staged=True)
    model = given.model(str(given.request["model"]))
    verdict, notes = verified(model, plan, options, given.report)
    return Outcome({**verdict_record(verdict, notes), "passed": verdict.passed})
