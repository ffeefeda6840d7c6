"""What a plan is opened with is there before anybody asks."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from ir.plan_file import plan_to_json
from service.views.ready import Readiness
from tests.service.conftest import Hands
from tests.service_views.plans_of import plan_of

pytestmark = pytest.mark.fast


def readiness(client: TestClient) -> Readiness:
    state = client.app.state  # type: ignore[attr-defined]
    return Readiness(state.items, state.views)


def upload(client: TestClient, content: bytes) -> str:
    answer = client.post("/v1/plans?name=plan.json", content=content)
    return str(answer.json()["id"])


def kept(client: TestClient) -> set[str]:
    """Plans of which views are there."""
    views = client.app.state.views.views  # type: ignore[attr-defined]
    return {key[0] for key in views._values}


def test_the_newest_plan_is_made_ready_once_it_has_been_read(hands: Hands) -> None:
    client, ready = hands.client, readiness(hands.client)
    plan = upload(client, plan_to_json(plan_of("layers")).encode())
    ready.prepare()
    assert plan not in kept(client), "a job reads an upload first"
    hands.work()
    ready.prepare()
    assert plan in kept(client)
    views = client.app.state.views  # type: ignore[attr-defined]
    before = dict(views.views._values)
    for path in ("summary", "graph?level=folded", "graph"):
        assert client.get(f"/v1/plans/{plan}/views/{path}").status_code == 200
    assert dict(views.views._values) == before


def test_a_refused_plan_is_passed_over_and_a_newer_one_is_not(hands: Hands) -> None:
    client, ready = hands.client, readiness(hands.client)
    broken = upload(client, b"{}")
    with pytest.raises(Exception, match="plan"):
        hands.work()
    ready.prepare()
    good = upload(client, plan_to_json(plan_of("attention")).encode())
    hands.work()
    ready.prepare()
    assert {good} == kept(client) - {broken}
    assert broken not in kept(client)
