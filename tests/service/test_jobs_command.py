"""`planner jobs`, and what a command says when it is interrupted while a service works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.remote import connected
from service.client import Planner
from tests.cli.conftest import planner
from tests.service.conftest import Hands

__all__ = ["planner"]
THERE = ["--server", "http://127.0.0.1:1"]


@pytest.fixture
def served(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Hands:
    monkeypatch.setattr("service.client.httpx.Client", lambda **_: hands.client)
    monkeypatch.setattr(hands.client, "close", lambda: None)
    return hands


@pytest.mark.fast
def test_a_job_is_listed_watched_and_fetched(
    served: Hands, planner: Callable[..., Any], mlp_bytes: bytes, tmp_path: Path
) -> None:
    model = served.upload("models", "mlp.onnx", mlp_bytes)
    job = served.post("/v1/searches", model=model, options={"devices": 2})["job"]
    listed = planner("jobs", "list", *THERE)
    assert "mlp.onnx" in listed.out
    assert job[:12] in listed.out
    assert json.loads(planner("jobs", "list", "--json", *THERE).out)["jobs"][0]["job"] == job
    assert "search done" in planner("jobs", "watch", job[:10], *THERE).out
    out = tmp_path / "out"
    assert planner("jobs", "fetch", job, "-o", out, *THERE).code == 0
    result = json.loads((out / "result.json").read_text())
    there = served.client.get(f"/v1/plans/{result['plan']}").content
    assert (out / "plan.json").read_bytes() == there


def test_a_job_is_cancelled_and_what_failed_ends_with_one(
    served: Hands, planner: Callable[..., Any]
) -> None:
    body = {"model": "llama3-8b", "options": {"devices": 8}}
    job = served.client.post("/v1/searches", json=body).json()["job"]
    assert "cancelled" in planner("jobs", "cancel", job, *THERE).out
    assert planner("jobs", "watch", job, *THERE).code == 1
    assert planner("jobs", "watch", "j_nothing", *THERE).code == 2
    assert "PLANNER_SERVER" in planner("jobs", "list").err


def test_an_interrupted_command_says_how_to_go_on(
    served: Hands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"model": "llama3-8b", "options": {"devices": 8}}
    job = served.client.post("/v1/searches", json=body).json()["job"]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Planner, "_watched", interrupted)
    with pytest.raises(KeyboardInterrupt), connected(THERE[1]) as there:
        there.wait(job)
    told = capsys.readouterr().err
    for word in ("watch", "fetch", "cancel"):
        assert f"planner jobs {word} {job} --server {THERE[1]}" in told
