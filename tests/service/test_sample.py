"""The bundled plan is the one that a search finds, and is there at once."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.sample import MODEL, OPTIONS, sample_plan
from tests.service.conftest import Hands
from tests.service.sample_plan import searched


def test_it_is_what_the_search_finds_today() -> None:
    is_same = sample_plan().content == searched()
    assert is_same, "make sample"


@pytest.mark.fast
def test_it_is_there_at_once_and_as_often_as_it_is_wanted_once(client: TestClient) -> None:
    first, again = (client.post("/v1/plans/sample") for _ in range(2))
    assert first.status_code == 201
    assert first.json() == again.json()
    (listed,) = client.get("/v1/plans").json()
    assert listed == first.json()
    assert client.get(f"/v1/plans/{listed['id']}").content == sample_plan().content
    summary = client.get(f"/v1/plans/{listed['id']}/views/summary").json()
    assert (summary["devices"], summary["batch"]) == (OPTIONS["devices"], OPTIONS["batch"])
    assert summary["step_time_s"] == listed["step_time_s"]


def test_the_search_for_it_ends_at_the_same_plan(hands: Hands) -> None:
    sample = hands.client.post("/v1/plans/sample").json()
    job = hands.post("/v1/searches", model=MODEL, options=OPTIONS)
    assert job["result"]["plan"] == sample["id"]
    assert [plan["id"] for plan in hands.client.get("/v1/plans").json()] == [sample["id"]]
