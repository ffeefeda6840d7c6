"""What can be exported of a plan: forms, settings, and why a format cannot say it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from exporters.errors import ExportError
from exporters.formats import FORMATS, Format
from exporters.settings import Settings
from ir.plan import Plan
from planner.requests.errors import UserError


def exports_view(plan: Plan) -> dict[str, Any]:
    """Every format, with what it asks and what it refuses."""
    return {"formats": [_told(form, plan) for form in FORMATS.values()]}


def _told(form: Format, plan: Plan) -> dict[str, Any]:
    """A module comes before its values where a format has both, as the documents say."""
    forms = sorted(form.forms, key=lambda suffix: suffix != ".py")
    refusals = {suffix: _refusal(form, plan, suffix) for suffix in forms}
    fine = [suffix for suffix, refusal in refusals.items() if refusal is None]
    return {
        "format": form.name,
        "suffixes": fine or forms,
        "settings": [
            {"name": each.name, "values": each.values, "meaning": each.meaning}
            for each in form.settings
        ],
        "needs_model": any(each.name == "model" for each in form.settings),
        "refusal": None if fine else refusals[forms[0]],
    }


def _refusal(form: Format, plan: Plan, suffix: str) -> str | None:
    """What the format says that it cannot express, without any settings."""
    try:
        if form.of_primitives is not None:
            form.check(plan)
        elif form.made is not None:
            form.make(plan, Settings({}, form.settings))
        else:
            with tempfile.TemporaryDirectory(prefix="export-") as folder:
                form.writer(plan, None)(Path(folder) / f"plan{suffix}")
    except (ExportError, UserError) as error:
        return str(error)
    return None
