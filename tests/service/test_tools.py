"""Tools of the Model Context Protocol, asked by the protocol's own client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp.client.client import Client

from planner.requests.options.explanations import ExplanationOptions
from planner.requests.options.recipes import RecipeOptions
from planner.requests.options.searches import SearchOptions
from planner.requests.options.simulations import RankingOptions, SimulationOptions
from service.door import serve_tools
from service.tools import Door, tool_server
from tests.cli.conftest import planner
from tests.service.conftest import Hands
from tests.service.test_client import working
from tests.service.test_questions import RECIPE

__all__ = ["planner"]
Answer = TypeVar("Answer")
JOB = {"devices": 16, "batch": 64, "cluster": "h100", "top": 3}


def asked(
    hands: Hands, question: Callable[[Client], Awaitable[Answer]], folder: Path | None = None
) -> Answer:
    """What a client finds at a server in this process."""

    async def talk() -> Answer:
        server = tool_server(Door(lambda _: hands.planner, folder))
        async with Client(server) as client:
            return await question(client)

    with working(hands):
        return anyio.run(talk)


def called(hands: Hands, name: str, folder: Path | None = None, **given: Any) -> dict[str, Any]:
    """The result of a tool, which is also its text."""
    found = asked(hands, lambda client: client.call_tool(name, given), folder)
    assert not found.is_error, found.content
    result: dict[str, Any] = found.structured_content
    assert json.loads(found.content[0].text) == result  # type: ignore[union-attr]
    return result


def refused(hands: Hands, name: str, folder: Path | None = None, **given: Any) -> str:
    """What a tool says that does not do it."""
    found = asked(hands, lambda client: client.call_tool(name, given), folder)
    assert found.is_error
    return str(found.content[0].text)  # type: ignore[union-attr]


@pytest.mark.fast
def test_inputs_are_the_options_of_the_commands(hands: Hands) -> None:
    """Every option of a command is one of its tool, with the same help."""
    listed = asked(hands, lambda client: client.list_tools())
    schemas = {tool.name: tool.input_schema for tool in listed.tools}
    records = {
        "search": SearchOptions, "layouts": RankingOptions, "recipe": RecipeOptions,
        "explain": ExplanationOptions, "simulate": SimulationOptions,
    }  # fmt: skip
    assert set(schemas) == {*records, "price", "compare", "upload", "plans"}
    for name, record in records.items():
        options = schemas[name]["$defs"][record.__name__]["properties"]
        assert set(options) == {each.name for each in fields(record)}
        assert all(option["description"] for option in options.values())
        assert "priority" not in schemas[name]["properties"]
    assert schemas["price"]["required"] == ["model", "layout"]


@pytest.mark.fast
def test_results_are_those_of_the_service(hands: Hands) -> None:
    found = called(hands, "layouts", model="llama3-8b", options=JOB)
    job = hands.post("/v1/layouts", model="llama3-8b", options=JOB)
    assert found == {k: v for k, v in job["result"].items() if k != "facts"}
    priced = called(
        hands, "price", model="llama3-8b",
        layout={"layout": found["best"][0]["layout"], "cluster": "h100"},
    )  # fmt: skip
    assert priced["step_time_s"] > 0
    files = [{"name": "train.sh", "text": RECIPE}]
    found = called(hands, "recipe", files=files, options={"cluster": "h100"})
    assert found["best"]["fits"]


def test_a_plan_is_made_explained_simulated_and_compared(
    hands: Hands, mlp_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    model = called(hands, "upload", tmp_path, kind="models", path="mlp.onnx")["id"]
    plans = [
        called(hands, "search", model=model, options={"devices": devices})["plan"]
        for devices in (2, 4)
    ]
    assert {each["id"] for each in called(hands, "plans")["plans"]} == set(plans)
    explained = called(hands, "explain", plan=plans[0])
    simulated = called(hands, "simulate", plan=plans[0], options={"overlap": "none"})
    assert simulated["step_time_s"] == pytest.approx(explained["step_time_s"])
    assert called(hands, "compare", plan=plans[0], other=plans[1])["same_model"]


@pytest.mark.fast
def test_what_is_wrong_is_said_as_a_result(hands: Hands, tmp_path: Path) -> None:
    """So that an assistant can mend it."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.json").write_text("{}")
    inside = tmp_path / "inside"
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("nothing", {}, "there is no tool"),
        ("price", {"model": "llama3-8b"}, "layout is missing"),
        ("price", {"plan": "p_" + "0" * 32}, "plan is not taken"),
        ("layouts", {"model": "llama3-8b", "options": {"devices": "many"}}, "options.devices"),
        ("layouts", {"model": "nobody", "options": JOB}, "nobody"),
        ("search", {"model": "llama3-8b", "option": {}}, "option"),
        ("explain", {"plan": "p_" + "0" * 32}, "no plan"),
        ("upload", {"kind": "models"}, "a text or a path"),
        ("upload", {"kind": "models", "text": "{}"}, "what is it called"),
        ("upload", {"kind": "models", "path": "../secret.json"}, "no file in the folder"),
        ("upload", {"kind": "models", "path": str(tmp_path / "secret.json")}, "no file in the"),
    ]
    for name, given, part in cases:
        assert part in refused(hands, name, inside, **given), (name, given)
    assert "--files" in refused(hands, "upload", kind="models", path="x.json")


def test_a_call_that_is_given_up_ends_its_job(hands: Hands) -> None:
    """Nobody works on: the job is cancelled while it waits."""

    async def talk() -> None:
        async with Client(tool_server(Door(lambda _: hands.planner))) as client:
            with anyio.move_on_after(1.0):
                await client.call_tool("layouts", {"model": "llama3-8b", "options": JOB})

    anyio.run(talk)
    (job,) = hands.client.get("/v1/jobs").json()
    assert job["state"] == "cancelled"


@pytest.mark.fast
def test_http_answers_to_names_of_the_own_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web page that leads its own name to 127.0.0.1 gets nothing."""
    apps: list[tuple[Any, str]] = []
    monkeypatch.setattr("service.door.serve_app", lambda app, host, _: apps.append((app, host)))
    monkeypatch.setattr("service.door.log_as_json", lambda _: None)
    serve_tools("http://127.0.0.1:1", None, None, 8401)
    ((app, host),) = apps
    assert host == "127.0.0.1"
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with TestClient(app, base_url="http://127.0.0.1:8401") as client:
        codes = [
            client.post("/mcp", json=body, headers={"Host": name}).status_code
            for name in ("evil.example:8401", "127.0.0.1:8401")
        ]
    assert codes[0] == 421
    assert codes[1] != 421


@pytest.mark.fast
def test_the_command_says_what_is_wrong(planner: Callable[..., Any], tmp_path: Path) -> None:
    run = planner("mcp", "--files", tmp_path / "nowhere")
    assert (run.code, "is no folder" in run.err) == (2, True)
