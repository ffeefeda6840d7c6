"""The page offers the exports that work, and asks for what the others need."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.formats import FORMATS
from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.requests.errors import user_errors
from service.store.items import Item
from service.views.exports import exports_view
from service.work.given import Given
from service.work.tasks.exports import export
from tests.service_views.plans_of import plan_of
from tests.service_views.test_chinese import plan as chinese_plan


def plan(name: str) -> Plan:
    return chinese_plan(name) if name in {"staged", "inference"} else plan_of(name)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["attention", "staged", "inference"])
def test_what_is_offered_can_be_saved_and_is_named_after_the_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    item_id, content = "p_" + 32 * "0", plan_to_json(plan(name)).encode()
    item = Item(item_id, "plan", "plan.json", "", 0, 0.0, {})
    told = exports_view(plan(name))["formats"]
    assert [each["format"] for each in told] == list(FORMATS)
    for each in told:
        for suffix in each["suffixes"]:
            request = {"plan": item_id, "format": each["format"], "suffix": suffix}
            asked = {**request, "settings": {}, "files": {}}
            made = _exported(Given(asked, {item_id: (item, content)}, print))
            if made is None:
                assert each["refusal"] or each["needs_model"], each
            else:
                assert each["refusal"] is None, each
                assert made.startswith(f"{plan(name).graph.name}-")


def _exported(given: Given) -> str | None:
    """The name of the file, or nothing where it is refused in words."""
    try:
        return str(export(given).result["name"])
    except user_errors():
        return None


def test_modules_come_before_values() -> None:
    told = {each["format"]: each["suffixes"] for each in exports_view(plan("attention"))["formats"]}
    assert told["jax"][0] == told["torch"][0] == ".py"
