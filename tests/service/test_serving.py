"""The server and a worker in this process; `make test-system` runs them as processes."""

from __future__ import annotations

import json
import logging
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from service import serving
from service.logs import JsonLines
from service.settings import Limits
from service.store.jobs import Job
from service.work.tasks import TASKS
from service.work.worker import Orders, Worker
from tests.cli.conftest import planner
from tests.service.conftest import Hands

__all__ = ["planner"]

pytestmark = pytest.mark.fast


@pytest.fixture
def as_before() -> Iterator[None]:
    """What a server sets for its process is as it was when the test ends."""
    root, switch_s = logging.getLogger(), sys.getswitchinterval()
    handlers, level = list(root.handlers), root.level
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.setswitchinterval(switch_s)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.usefixtures("as_before")
def test_the_command_serves_until_it_is_told_to_end(
    planner: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[uvicorn.Server] = []
    answers: list[int] = []
    run, port, over = uvicorn.Server.run, free_port(), threading.Event()

    def asked() -> None:
        while not over.wait(0.01):
            if begun and begun[0].started and not begun[0].should_exit:
                answers.append(httpx.get(f"http://127.0.0.1:{port}/health").status_code)
                begun[0].should_exit = True

    def watched(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        begun.append(server)
        run(server, sockets)

    monkeypatch.setattr(serving._Server, "run", watched)
    client = threading.Thread(target=asked)
    client.start()
    done = planner("serve", "--port", port, "--data", tmp_path, "--workers", 0)
    over.set()
    client.join()
    assert (done.code, answers) == (0, [200]), done.err


def test_a_worker_ends_jobs_and_then_itself(
    hands: Hands, mlp_bytes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = hands.client.post("/v1/models", params={"name": "m.onnx"}, content=mlp_bytes)
    assert answer.status_code == 201
    orders = Orders(
        database=f"sqlite:///{tmp_path / 'jobs.sqlite'}", name="here", server=os.getppid(),
        kinds=(), folder=str(tmp_path), limits=Limits(attempts=1, crashes=1), nice=0,
    )  # fmt: skip
    worker, did = Worker(orders, TASKS), list[str]()

    def do(job: Job) -> None:
        did.append(job.kind)
        worker.stopping = True

    monkeypatch.setattr(worker, "_do", do)
    worker.run()
    assert len(did) == 1


def test_a_line_of_the_log_is_an_object() -> None:
    record = logging.makeLogRecord({"name": "here", "levelname": "INFO", "msg": "is %s",
                                    "args": ("so",), "job": 3})  # fmt: skip
    found = json.loads(JsonLines().format(record))
    assert (found["message"], found["logger"], found["job"]) == ("is so", "here", 3)
