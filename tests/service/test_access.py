"""Who may ask, how much, and under which names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.access import Rate, RefusedError
from service.app import create_app
from service.settings import LOOPBACK, Limits, Settings
from service.store.items import Items, NewItem
from tests.service.conftest import LIMITS

TOKENS = {hashlib.sha256(f"token-of-{name}".encode()).hexdigest(): name for name in ("ann", "bob")}
ANN, BOB = ({"Authorization": f"Bearer token-of-{name}"} for name in ("ann", "bob"))


def made(settings: Settings, **changes: object) -> TestClient:
    return TestClient(create_app(replace(settings, **changes)))  # type: ignore[arg-type]


@pytest.fixture
def guarded(settings: Settings) -> Iterator[TestClient]:
    with made(settings, tokens=TOKENS) as client:
        yield client


PATHS = ("models", "clusters", "plans", "traces", "jobs", "jobs/j_" + "0" * 32,
         "plans/p_" + "0" * 32 + "/views/summary")  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic token-of-ann"},
     {"Authorization": "Bearer "}, {"Authorization": "token-of-ann"}],
)  # fmt: skip
def test_nothing_is_told_without_a_token(
    guarded: TestClient, path: str, headers: dict[str, str]
) -> None:
    answer = guarded.get(f"/v1/{path}", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_health_and_schema_need_no_token(guarded: TestClient) -> None:
    for path in ("/health", "/ready", "/metrics", "/openapi.json"):
        assert guarded.get(path).status_code == 200


def test_one_token_sees_nothing_of_another(guarded: TestClient) -> None:
    content = b"a model"
    model = guarded.post("/v1/models?name=a.onnx", content=content, headers=ANN).json()
    engine = guarded.app.state.engine  # type: ignore[attr-defined]
    plan = Items(engine, 2**20, lambda: "ann").add(NewItem("plan", "a", b"{}", {}))
    for path in (f"models/{model['id']}", f"jobs/{model['job']}", f"plans/{plan.id}"):
        assert guarded.get(f"/v1/{path}", headers=ANN).status_code == 200
        theirs = guarded.get(f"/v1/{path}", headers=BOB)
        nobodys = guarded.get(f"/v1/{path[:-1]}{'0' if path[-1] != '0' else '1'}", headers=BOB)
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["message"][:20] == nobodys.json()["message"][:20]
    for path in ("jobs", "plans", "traces"):
        assert guarded.get(f"/v1/{path}", headers=BOB).json() == []
    assert guarded.get("/v1/models", headers=BOB).json()["uploaded"] == []
    view = f"/v1/plans/{plan.id}/views/summary"
    assert guarded.get(view, headers=BOB).status_code == 404
    for body in (
        {"model": model["id"]},
        {"model": "llama3-8b", "options": {"cluster": "c_" + "0" * 32}},
    ):
        assert guarded.post("/v1/searches", json=body, headers=BOB).status_code == 404
    assert guarded.delete(f"/v1/jobs/{model['job']}", headers=BOB).status_code == 404


def test_a_page_under_another_name_for_this_machine_is_not_served(settings: Settings) -> None:
    with made(settings, hosts=LOOPBACK) as client:
        for host in ("localhost", "LOCALHOST:8400", "127.0.0.1:8400", "[::1]:8400"):
            assert client.get("/v1/plans", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example:8400", "", "localhost@evil.example"):
            assert client.get("/v1/plans", headers={"Host": host}).status_code == 421


def test_pages_of_others_may_not_ask(client: TestClient) -> None:
    own, theirs = {"Origin": "http://testserver"}, {"Origin": "http://evil.example"}
    assert client.get("/v1/plans", headers=own).status_code == 200
    for origin in (theirs, {"Origin": "null"}):
        assert (
            client.post("/v1/models?name=a.onnx", content=b"a", headers=origin).status_code == 403
        )


def test_each_owner_has_a_rate() -> None:
    rate = Rate(60)
    assert [rate.take("ann", 0.0) for _ in range(60)] == [0.0] * 60
    assert rate.take("ann", 0.0) == pytest.approx(1.0)
    assert rate.take("bob", 0.0) == 0.0
    assert rate.take("ann", 1.0) == 0.0


def test_too_many_requests_are_told_when_to_come_back(settings: Settings) -> None:
    with made(settings, limits=Limits(requests_per_minute=2)) as client:
        answers = [client.get("/v1/plans") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_wrong_tokens_are_throttled_and_good_ones_are_not(settings: Settings) -> None:
    limits = replace(LIMITS, wrong_tokens_per_minute=3)
    with made(settings, tokens=TOKENS, limits=limits) as client:
        assert client.get("/v1/plans", headers=ANN).status_code == 200
        wrong = [
            client.get("/v1/plans", headers={"Authorization": f"Bearer guess-{n}"})
            for n in range(5)
        ]
        assert [each.status_code for each in wrong] == [401, 401, 401, 429, 429]
        assert int(wrong[-1].headers["retry-after"]) >= 1
        assert client.get("/v1/plans", headers=BOB).status_code == 429
        assert client.get("/v1/plans", headers=ANN).status_code == 200
        assert client.get("/v1/plans").status_code == 401


def test_uploads_of_one_owner_do_not_hold_up_another(settings: Settings) -> None:
    limits = replace(LIMITS, uploads_at_once=1)
    with made(settings, tokens=TOKENS, limits=limits) as client:
        uploads = client.app.state.uploads  # type: ignore[attr-defined]
        uploads["ann"] = 1
        path = "/v1/models?name=a.onnx"
        assert client.post(path, content=b"a", headers=ANN).status_code == 429
        assert client.post(path, content=b"a", headers=BOB).status_code == 201
        assert uploads == {"ann": 1, "bob": 0}


def _keep(client: TestClient, owner: dict[str, str]) -> int:
    files = [client.post(f"/v1/models?name={n}.onnx", content=b"a" * 40, headers=owner)
             for n in "ab"]  # fmt: skip
    return files[-1].status_code


def _wait(client: TestClient, owner: dict[str, str]) -> int:
    bodies = [{"model": "gpt2", "options": {"devices": 8, "batch": batch}} for batch in (32, 64)]
    return [client.post("/v1/searches", json=b, headers=owner) for b in bodies][-1].status_code


def _read(client: TestClient, owner: dict[str, str]) -> int:
    return [client.get("/v1/plans", headers=owner) for _ in range(2)][-1].status_code


def _listen(client: TestClient, owner: dict[str, str]) -> int:
    name = "ann" if owner is ANN else "bob"
    try:
        return len([client.app.state.streams.place(name) for _ in range(2)])  # type: ignore[attr-defined]
    except RefusedError as refused:
        return refused.status


@pytest.mark.parametrize(
    ("limit", "one", "use"),
    [("kept_bytes", 50, _keep), ("waiting_jobs", 1, _wait), ("requests_per_minute", 1, _read),
     ("streams_per_owner", 1, _listen)],
)  # fmt: skip
@pytest.mark.parametrize("most", [1, 2])
def test_what_one_owner_uses_up_is_not_taken_from_another(
    settings: Settings,
    limit: str,
    one: int,
    most: int,
    use: Callable[[TestClient, dict[str, str]], int],
) -> None:
    """A quota of two takes two of each owner, though four of both; that of one refuses both."""
    limits = replace(LIMITS, **{limit: most * one})
    with made(settings, tokens=TOKENS, limits=limits) as client:
        found = [use(client, owner) for owner in (ANN, BOB)]
    assert [status < 400 for status in found] == [most == 2] * 2


def test_the_page_is_sent_packed_and_its_pieces_are_kept(
    built_page: Path, client: TestClient
) -> None:
    packed = 0
    for file in sorted(built_page.glob("*.js")):
        with client.stream("GET", f"/{file.name}") as answer:
            packed += sum(len(part) for part in answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-type"].startswith("text/javascript")
        assert client.get(f"/{file.name}").content == file.read_bytes()
        whole = client.get(f"/{file.name}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in whole.headers
        assert whole.content == file.read_bytes()
        kept = "immutable" in answer.headers["cache-control"]
        assert kept == (file.name != "main.js")
    assert packed <= 350 * 1024
    assert client.get("/").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("name", "status"),
    [("a" * 140 + ".onnx", 201), ("模" * 40 + ".onnx", 201), ("a" * 200 + ".onnx", 422),
     ("模" * 90 + ".onnx", 422), (".onnx", 422), ("a/b.onnx", 422), ("", 422)],
)  # fmt: skip
def test_names_that_no_file_can_have_are_refused_in_words(
    client: TestClient, name: str, status: int
) -> None:
    answer = client.post("/v1/models", params={"name": name}, content=b"a")
    assert answer.status_code == status
    if status == 422:
        message = answer.json()["message"]
        assert "fix: " in message
        assert "pattern" not in message
        assert "^" not in message


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_is_no_larger_than_allowed(client: TestClient, announced: bool) -> None:
    def parts(nbytes: int) -> Iterator[bytes]:
        for _ in range(nbytes // 1024):
            yield b"x" * 1024

    for path, most in (("/v1/models?name=a.onnx", LIMITS.upload_bytes),
                       ("/v1/searches", LIMITS.body_bytes)):  # fmt: skip
        content = b"x" * (most + 1024) if announced else parts(most + 1024)
        answer = client.post(path, content=content)
        assert answer.status_code == 413, path
        assert str(most) in answer.json()["message"]
    fitting = client.post("/v1/models?name=a.onnx", content=parts(LIMITS.upload_bytes))
    assert fitting.status_code == 201


def test_answers_tell_browsers_to_run_nothing_foreign(client: TestClient) -> None:
    headers = client.get("/v1/plans").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
