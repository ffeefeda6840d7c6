"""The paths of the service, and what it says to nonsense."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from onnx import parser

from planner.requests.errors import is_user_error
from service.store.jobs import Jobs
from service.store.queue import Queue
from tests.cli.conftest import MLP
from tests.service.conftest import Hands

NOUNS = ("models", "clusters", "searches", "simulations", "sweeps", "verifications", "plans",
         "exports", "traces", "jobs")  # fmt: skip
NOBODYS = "0" * 32


def test_every_noun_has_a_path(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert [n for n in NOUNS if not any(p.startswith(f"/v1/{n}") for p in paths)] == []
    assert {"/health", "/ready", "/metrics"} <= set(paths)


def test_a_search_from_upload_to_plan(hands: Hands, mlp_bytes: bytes) -> None:
    client, model = hands.client, hands.upload("models", "mlp.onnx", mlp_bytes)
    facts = client.get(f"/v1/models/{model}").json()
    assert (facts["state"], facts["nodes"]) == ("ready", 3)
    job = hands.post("/v1/searches", model=model, options={"devices": 4}, priority=3)
    assert (job["state"], job["cached"], job["priority"]) == ("done", False, 3)
    (listed,) = client.get("/v1/plans").json()
    assert listed["id"] == job["result"]["plan"]
    assert listed["step_time_s"] == job["result"]["step_time_s"]
    plan = client.get(f"/v1/plans/{listed['id']}").json()
    assert plan["estimate"]["step_time_s"] == listed["step_time_s"]
    again = client.post("/v1/searches", json={"model": model, "options": {"devices": 4}}).json()
    assert (again["state"], again["cached"]) == ("done", True)
    other = client.post("/v1/searches", json={"model": model, "options": {"devices": 2}}).json()
    assert other["state"] == "queued"


@pytest.mark.parametrize("rows", ["64", "n"])
def test_an_upload_says_what_it_holds_whatever_it_leaves_open(hands: Hands, rows: str) -> None:
    content = parser.parse_model(MLP.replace("ROWS", rows)).SerializeToString()
    facts = hands.client.get(f"/v1/models/{hands.upload('models', 'mlp.onnx', content)}").json()
    assert (facts["parameters"], facts["parameter_elements"]) == (2, 2 * 256 * 1024)
    assert [each["name"] for each in facts["open_dims"]] == ([] if rows == "64" else ["n"])


@pytest.mark.fast
def test_progress_is_streamed_and_ends_with_the_job(hands: Hands, mlp_bytes: bytes) -> None:
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    body = {"model": model, "options": {"devices": 4}}
    job_id = hands.client.post("/v1/searches", json=body).json()["job"]
    queue = Queue(hands.client.app.state.engine, "hands", 5, 2**30)  # type: ignore[attr-defined]
    job = queue.claim()
    assert job is not None
    queue.report(job, [(1, json.dumps({"text": "one"})), (2, json.dumps({"text": "two"}))])
    queue.fail(job, "no luck")
    path = f"/v1/jobs/{job_id}/events"
    with hands.client.stream("GET", path, headers={"Last-Event-ID": "1"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines[:3] == ["id: 2", "event: progress", 'data: {"text": "two"}']
    assert lines[3] == "event: job"
    assert json.loads(lines[4].removeprefix("data: "))["message"] == "no luck"


@pytest.mark.fast
def test_a_waiting_job_is_cancelled(client: TestClient) -> None:
    body = {"model": "llama3-8b", "options": {"devices": 8}}
    job = client.post("/v1/searches", json=body).json()["job"]
    assert client.delete(f"/v1/jobs/{job}").json()["state"] == "cancelled"
    assert client.get("/v1/jobs?state=cancelled").json()[0]["job"] == job


@pytest.mark.parametrize(
    "name",
    ["../etc/passwd.onnx", "/etc/passwd.onnx", "..%2f..%2fx.onnx", ".onnx", "a/b.onnx",
     "a\\b.onnx", "a\x00.onnx", "a\n.onnx", "x" * 150 + ".onnx", "passwd", "a.exe", "..", ""],
)  # fmt: skip
def test_names_that_could_lead_somewhere_are_refused(client: TestClient, name: str) -> None:
    for kind in ("models", "clusters", "plans"):
        answer = client.post(f"/v1/{kind}", params={"name": name}, content=b"x")
        assert answer.status_code == 422, name


PLACES = ("/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "./cluster.yaml", "a.yaml",
          "x.onnx", "table.json", "~/x.yaml", "\x00", "C:\\x.yaml")  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_no_name_in_a_request_is_looked_for_in_the_file_system(
    client: TestClient, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "x.onnx", "table.json", "cluster.yaml"):
        (tmp_path / name).write_text("schema_version: 1")
    bodies: list[dict[str, Any]] = [
        {"model": place},
        {"model": "llama3-8b", "options": {"devices": 8, "cluster": place}},
        {"model": "llama3-8b", "options": {"devices": 8, "shard": place}},
        {"model": "llama3-8b", "options": {"devices": 8, "rules": place}},
    ]
    for body in bodies:
        answer = client.post("/v1/searches", json=body)
        assert answer.status_code == 422, body
        assert "schema_version" not in answer.text


def test_settings_of_exports_open_no_file(hands: Hands, mlp_bytes: bytes, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("10.0.0.1\n")
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    plan = hands.post("/v1/searches", model=model, options={"devices": 8})["result"]["plan"]
    for more in (
        {"format": "launch", "settings": {"hosts": str(secret)}},
        {"format": "launch", "settings": {"rank_table": str(secret)}},
        {"format": "mindspore-operators", "settings": {"model": str(secret)}},
        {"format": "mindspore", "names": str(secret)},
    ):
        hands.client.post("/v1/exports", json={"plan": plan, **more})
        with pytest.raises(Exception, match="fix: ") as fault:
            hands.work()
        assert is_user_error(fault.value)
        assert "10.0.0.1" not in str(fault.value)
        (job,) = hands.client.get("/v1/jobs?state=running").json()
        engine = hands.client.app.state.engine  # type: ignore[attr-defined]
        own = Jobs(engine, 100, lambda: "local")
        Queue(engine, "hands", 5, 2**30).cancel(own.find(job["job"]))


MALFORMED = {
    "empty.onnx.gz": gzip.compress(b""),
    "noise.onnx": bytes(range(256)) * 100,
    "deep.json": b"[" * 100_000,
    "nested.onnx": b"\x3a\xff\xff\xff\xff\x0f" * 1000,
    "text.mlir": b"module {" * 10_000,
    "cut.pt2": b"PK\x03\x04" + b"\0" * 100,
    "noise.mindir": bytes(reversed(range(256))) * 100,
    "nul.stablehlo": b"\0" * 1000,
}


@pytest.mark.parametrize("name", [*MALFORMED, "bomb.onnx.gz"])
def test_a_malformed_model_is_refused_with_words(name: str, hands: Hands) -> None:
    content = MALFORMED.get(name) or gzip.compress(b"\0" * 2**27, 9)
    answer = hands.client.post("/v1/models", params={"name": name}, content=content)
    assert answer.status_code == 201
    with pytest.raises(Exception, match=r".") as fault:
        hands.work()
    assert is_user_error(fault.value), repr(fault.value)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"a: &a [x]\nb: " + b"[*a, *a, *a, *a, *a, *a, *a, *a]\n" * 3,
     b"{" * 5000, b"- " * 20_000, b"schema_version: 1\nname: [",
     b"!!python/object/apply:os.system ['true']"],
)  # fmt: skip
def test_a_malformed_cluster_is_refused_with_words(content: bytes, hands: Hands) -> None:
    hands.client.post("/v1/clusters", params={"name": "c.yaml"}, content=content)
    with pytest.raises(Exception, match=r".") as fault:
        hands.work()
    assert is_user_error(fault.value), repr(fault.value)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("searches", {"model": "llama3-8b", "options": {"devicez": 8}}),
        ("searches", {"model": "llama3-8b", "options": {"devices": "many"}}),
        ("searches", {"model": "llama3-9b"}),
        ("searches", {"model": "llama3-8b", "priority": 10}),
        ("searches", {}),
        ("searches", []),
        ("simulations", {"plan": "p_1"}),
        ("simulations", {"plan": f"p_{NOBODYS}", "options": {"samples": None}}),
        ("exports", {"plan": f"p_{NOBODYS}", "format": "nonsense"}),
        ("verifications", {"plan": f"p_{NOBODYS}", "options": {"scale": "huge"}}),
    ],
)
def test_nonsense_is_answered_with_what_is_wrong(
    client: TestClient, path: str, body: object
) -> None:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 422
    assert answer.json()["status"] == "error"
    assert answer.json()["message"]


@pytest.mark.fast
def test_plans_that_were_not_read_yet_are_not_shown(hands: Hands) -> None:
    answer = hands.client.post("/v1/plans", params={"name": "plan.json"}, content=b"{}").json()
    assert hands.client.get(f"/v1/plans/{answer['id']}").status_code == 404
    assert hands.client.get(f"/v1/plans/{answer['id']}/views/summary").status_code == 404


@pytest.mark.fast
def test_what_is_forgotten_is_gone_and_is_made_again(hands: Hands, mlp_bytes: bytes) -> None:
    client, model = hands.client, hands.upload("models", "mlp.onnx", mlp_bytes)
    plan = hands.post("/v1/searches", model=model, options={"devices": 4})["result"]["plan"]
    before = client.get(f"/v1/plans/{plan}").content
    assert client.delete(f"/v1/plans/{plan}").status_code == 204
    assert client.get(f"/v1/plans/{plan}").status_code == 404
    assert client.delete(f"/v1/plans/{plan}").status_code == 404
    again = hands.post("/v1/searches", model=model, options={"devices": 4})
    assert (again["cached"], again["result"]["plan"]) == (False, plan)
    assert client.get(f"/v1/plans/{plan}").content == before


@pytest.mark.fast
def test_metrics_count_requests_by_route_and_jobs_by_state(client: TestClient) -> None:
    client.get(f"/v1/plans/p_{NOBODYS}")
    client.post("/v1/searches", json={"model": "llama3-8b", "options": {"devices": 8}})
    text = client.get("/metrics").text
    assert 'route="/v1/plans/{plan_id}",status="404"' in text
    assert NOBODYS not in text
    assert 'planner_jobs{kind="search",state="queued"} 1.0' in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devices": 12}, "12"), ({"devices": 0}, "0 is less than 1"),
        ({"devices": 2**30}, "is more than 1048576"), ({"devices": 4, "memory": "much"}, "much"),
    ],
)  # fmt: skip
def test_what_no_model_can_make_good_is_refused_before_it_is_a_job(
    client: TestClient, options: dict[str, object], words: str
) -> None:
    answer = client.post("/v1/searches", json={"model": "llama3-8b", "options": options})
    assert answer.status_code == 422
    assert words in answer.json()["message"]
    assert client.get("/v1/jobs").json() == []


def test_a_thousand_jobs_are_listed_page_by_page(client: TestClient) -> None:
    store = Jobs(client.app.state.engine, 100, lambda: "local")  # type: ignore[attr-defined]
    made = [store.accept("search", f"{n}", {"n": n}).id for n in range(15)]
    found: list[str] = []
    while True:
        more = {"before": found[-1]} if found else {}
        answer = client.get("/v1/jobs", params={"limit": 4, **more})
        assert answer.headers["x-total-count"] == "15"
        if not answer.json():
            break
        found += [job["job"] for job in answer.json()]
    assert found == made[::-1]
    assert client.get("/v1/jobs", params={"kind": "sweep"}).json() == []
    assert client.get("/v1/jobs", params={"before": "j_" + "0" * 32}).status_code == 404


def test_a_job_names_its_model_and_a_list_leaves_tables_out(hands: Hands, mlp_bytes: bytes) -> None:
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    done = hands.post("/v1/searches", model=model, options={"devices": 2})
    assert done["names"] == {model: "mlp.onnx"}
    (listed,) = hands.client.get("/v1/jobs", params={"kind": "search"}).json()
    assert listed["names"] == {model: "mlp.onnx"}
    assert listed["result"]["gap"] == done["result"]["gap"]
    assert "baselines" in done["result"]
    assert "baselines" not in listed["result"]


def test_labels_and_tags_are_kept_and_a_name_comes_back(hands: Hands, mlp_bytes: bytes) -> None:
    client = hands.client
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    path = f"/v1/models/{model}"
    assert client.patch(path, json={"label": "mine", "tags": ["a", "b"]}).json()["label"] == "mine"
    assert client.patch(path, json={"label": ""}).json()["tags"] == ["a", "b"]
    (listed,) = client.get("/v1/models").json()["uploaded"]
    assert (listed["label"], listed["tags"], listed["state"]) == ("", ["a", "b"], "ready")
    assert client.patch("/v1/models/m_" + "0" * 32, json={}).status_code == 404
    assert client.patch(path, json={"state": "refused"}).status_code == 422


def test_a_job_that_is_over_is_forgotten_and_what_it_made_stays(
    hands: Hands, mlp_bytes: bytes
) -> None:
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    done = hands.post("/v1/searches", model=model, options={"devices": 2})
    path = f"/v1/jobs/{done['job']}"
    assert hands.client.delete(path).json()["state"] == "done"
    assert hands.client.get(path).status_code == 200
    assert hands.client.delete(path, params={"forget": True}).status_code == 200
    assert hands.client.get(path).status_code == 404
    assert hands.client.get(f"/v1/plans/{done['result']['plan']}").status_code == 200
