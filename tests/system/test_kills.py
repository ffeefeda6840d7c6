"""Accepted jobs survive kill -9 of the server and of its workers, and each is finished once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine, text

from service.store.engine import open_engine, writing
from service.store.items import Items
from tests.system.servers import Server, mlp_bytes

JOBS = 100
KILLS = 20
LIMIT_S = 300.0
_TABLE = "CREATE TABLE finished (id TEXT, state TEXT)"
_ENDS = "new.state IN ('done', 'failed', 'cancelled') AND old.state <> new.state"
_COUNT = "INSERT INTO finished VALUES (new.id, new.state);"
_FUNCTION = f"""CREATE FUNCTION count_finished() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN {_COUNT} RETURN new; END $$"""
_TRIGGER = "CREATE TRIGGER count_finished AFTER UPDATE ON jobs"
_COUNTING = {
    "sqlite": (_TABLE, f"{_TRIGGER} WHEN {_ENDS} BEGIN {_COUNT} END"),
    "postgresql": (
        _TABLE,
        _FUNCTION,
        f"{_TRIGGER} FOR EACH ROW WHEN ({_ENDS}) EXECUTE FUNCTION count_finished()",
    ),
}
"""The database itself counts, whatever our code believes."""


def counted(database: str) -> Engine:
    engine = open_engine(database)
    with writing(engine) as connection:
        for statement in _COUNTING[engine.dialect.name]:
            connection.execute(text(statement))
    return engine


def asked(client: httpx.Client, model: str, number: int) -> str:
    """One of many different searches."""
    options = {"devices": 8, "batch": 64 * (number + 1), "optimizer": "sgd"}
    answer = client.post("/v1/searches", json={"model": model, "options": options})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"])


def kill_something(server: Server, chance: random.Random) -> None:
    """The server, or one of its workers or of the tasks below them."""
    workers = server.workers()
    if not workers or chance.random() < 0.4:
        server.kill()
        server.start()
        return
    try:
        os.kill(chance.choice(workers), signal.SIGKILL)
    except ProcessLookupError:
        kill_something(server, chance)


def wait_for(engine: Engine, count: int) -> None:
    """Until so many jobs are over: the kills come while the jobs run, on a busy machine too."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        with engine.connect() as connection:
            if connection.execute(text("SELECT count(*) FROM finished")).scalar_one() >= count:
                return
        time.sleep(0.1)
    raise AssertionError(f"{count} jobs are never done")


def settled(client: httpx.Client, until_s: float) -> list[dict[str, Any]]:
    """All jobs, once none of them waits or runs."""
    while time.monotonic() < until_s:
        found: list[dict[str, Any]] = client.get("/v1/jobs", params={"limit": 1000}).json()
        if all(job["state"] not in {"queued", "running"} for job in found):
            return found
        time.sleep(0.5)
    raise AssertionError("the jobs do not end")


def test_every_accepted_job_is_finished_once(database: str, tmp_path: Path) -> None:
    engine = counted(database)
    server = Server(tmp_path / "data", ("--database", database, "--workers", "2"))
    server.start()
    chance = random.Random(1)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            uploaded = client.post("/v1/models", params={"name": "m.onnx"}, content=mlp_bytes())
            model = uploaded.json()["id"]
            jobs = [asked(client, model, number) for number in range(JOBS)]
        for number in range(KILLS):
            wait_for(engine, number * JOBS // KILLS)
            time.sleep(chance.uniform(0.0, 1.0))
            kill_something(server, chance)
        with httpx.Client(base_url=server.url, timeout=60) as client:
            found = settled(client, time.monotonic() + LIMIT_S)
    finally:
        server.stop()
    states = {job["job"]: job["state"] for job in found}
    assert {states[job] for job in jobs} == {"done"}
    assert max(job["attempt"] for job in found) > 1, "nothing was ever interrupted"
    with engine.connect() as connection:
        once = connection.execute(text("SELECT id, count(*) FROM finished GROUP BY id")).all()
        orphans = connection.execute(
            text("SELECT count(*) FROM contents WHERE digest NOT IN (SELECT digest FROM items)")
        ).scalar_one()
    assert {count for _, count in once} == {1}
    assert {job for job, _ in once} >= set(jobs)
    assert orphans == 0, "half a result was left"
    check_plan(engine, found, tmp_path)
    engine.dispose()


def check_plan(engine: Engine, found: list[dict[str, Any]], folder: Path) -> None:
    """A plan that was interrupted again and again is that of the command line."""
    job = max(
        (job for job in found if job["kind"] == "search"), key=lambda job: str(job["attempt"])
    )
    request, result = job["request"], job["result"]
    (folder / "m.onnx").write_bytes(mlp_bytes())
    subprocess.run(
        [sys.executable, "-m", "cli", "search", str(folder / "m.onnx"), "--devices", "8",
         "--batch", str(request["options"]["batch"]), "--optimizer", "sgd",
         "-o", str(folder / "plan")],
        check=True, capture_output=True,
    )  # fmt: skip
    content = Items(engine, 2**40, lambda: "local").content(str(result["plan"]), "plan")
    assert content == (folder / "plan" / "plan.json").read_bytes()
