"""What a plan is opened with is there before anybody asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ir.plan_file import plan_to_json
from service.store.items import Items
from service.version import code_hash
from service.views import ready
from service.views.cache import body_of
from service.views.graph import Level, graph_view
from service.views.summary import summary_view
from tests.service.conftest import Hands
from tests.service_views.plans_of import plan_of

pytestmark = pytest.mark.fast

FIRST = ("summary", "graph", "graph?level=folded")


def read_plans(client: TestClient) -> int:
    """How many plans the service itself has read."""
    return len(client.app.state.views.plans._values)  # type: ignore[attr-defined]


def shown(client: TestClient, plan: str, path: str) -> bytes:
    answer = client.get(f"/v1/plans/{plan}/views/{path}")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_first_views_come_with_the_plan_and_are_those_that_the_plan_has(hands: Hands) -> None:
    plan = plan_of("layers")
    plan_id = hands.upload("plans", "plan.json", plan_to_json(plan).encode())
    made = {path: shown(hands.client, plan_id, path) for path in FIRST}
    assert read_plans(hands.client) == 0, "the service has read the plan for them"
    folded = body_of(graph_view(plan, Level.FOLDED))
    assert list(made.values()) == [body_of(summary_view(plan)), folded, folded]
    shown(hands.client, plan_id, "memory")
    assert read_plans(hands.client) == 1


def test_a_search_keeps_them_too(hands: Hands, mlp_bytes: bytes) -> None:
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    job = hands.post("/v1/searches", model=model, options={"devices": 8, "target": "generic"})
    summary = json.loads(shown(hands.client, job["result"]["plan"], "summary"))
    assert summary["devices"] == 8
    assert read_plans(hands.client) == 0


def test_views_of_another_planner_are_made_anew(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = hands.upload("plans", "plan.json", plan_to_json(plan_of("layers")).encode())
    monkeypatch.setattr(ready, "planner_code", lambda: "another one")
    shown(hands.client, plan_id, "summary")
    assert read_plans(hands.client) == 1


def test_a_view_that_cannot_be_made_costs_no_plan(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> dict[str, object]:
        raise ZeroDivisionError

    with monkeypatch.context() as at:
        at.setattr(ready, "FIRST", {("summary",): ("summary", broken)})
        plan_id = hands.upload("plans", "plan.json", plan_to_json(plan_of("layers")).encode())
    assert json.loads(shown(hands.client, plan_id, "summary"))["devices"] == 16


def test_a_plan_that_is_gone_shows_nothing_more(hands: Hands) -> None:
    content = plan_to_json(plan_of("layers")).encode()
    plan_id = hands.upload("plans", "plan.json", content)
    shown(hands.client, plan_id, "summary")
    assert hands.client.delete(f"/v1/plans/{plan_id}").status_code == 204
    assert hands.client.get(f"/v1/plans/{plan_id}/views/summary").status_code == 404
    store = Items(hands.client.app.state.engine, 0, lambda: "local")  # type: ignore[attr-defined]
    assert store.view(plan_id, ready.kept_name(("summary",))) is None


def test_another_line_of_code_or_fact_is_another_planner(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "data" / "chips").mkdir(parents=True)
    hashes = [code_hash(tmp_path)]
    for name in ("ir/plan.py", "data/chips/chip.yaml"):
        (tmp_path / name).write_text("one")
        hashes.append(code_hash(tmp_path))
        (tmp_path / name).write_text("two")
        hashes.append(code_hash(tmp_path))
    (tmp_path / "ir" / "notes.txt").write_text("nothing")
    assert len(set(hashes)) == 5
    assert code_hash(tmp_path) == hashes[-1]
