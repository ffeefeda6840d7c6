"""A service in this process, and hands that do its jobs here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from onnx import parser

from service.app import create_app
from service.client import Planner as ServicePlanner
from service.settings import Limits, Settings
from service.store.jobs import Job
from service.store.queue import Queue
from service.work.given import Given, items_named
from service.work.tasks import TASKS
from tests.cli.conftest import MLP

LIMITS = Limits(upload_bytes=2**20, body_bytes=2**16, waiting_jobs=20)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a service without workers and without tokens."""
    return Settings(
        database=f"sqlite:///{tmp_path / 'jobs.sqlite'}", data=tmp_path, workers=0, limits=LIMITS
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as found:
        yield found


@pytest.fixture
def hands(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hands:
    return Hands(client, tmp_path, monkeypatch)


class Hands:
    """A worker without processes: what it does is the same, but nothing confines it."""

    def __init__(self, client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self._folder, self._monkeypatch = folder / "task", monkeypatch
        self._folder.mkdir()
        self._queue = Queue(client.app.state.engine, "hands", 5, 2**30)  # type: ignore[attr-defined]

    @property
    def planner(self) -> ServicePlanner:
        """A client of the service; of whose HTTP a test client is depends on what is installed."""
        return ServicePlanner(http=cast("Any", self.client))

    def work(self) -> int:
        """Do all jobs that wait; how many there were."""
        count = 0
        while (job := self._queue.claim()) is not None:
            self._do(job)
            count += 1
        return count

    def _do(self, job: Job) -> None:
        items = self._queue.inputs(job.owner, sorted(items_named(job.request)))
        lines: list[str] = []
        with self._monkeypatch.context() as at:
            at.chdir(self._folder)
            outcome = TASKS[job.kind](Given(job.request, items, lines.append))
        self._queue.finish(job, outcome)

    def post(self, path: str, **body: object) -> dict[str, Any]:
        """Ask, work, and look: the job as it ended."""
        answer = self.client.post(path, json=body)
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.client.get(f"/v1/jobs/{answer.json()['job']}").json()
        return found

    def upload(self, kind: str, name: str, content: bytes) -> str:
        """Upload, and have it read; its id."""
        answer = self.client.post(f"/v1/{kind}", params={"name": name}, content=content)
        assert answer.status_code == 201, answer.text
        self.work()
        return str(answer.json()["id"])


@pytest.fixture(scope="session")
def mlp_bytes() -> bytes:
    """Two products of 64 rows, without weights."""
    content: bytes = parser.parse_model(MLP.replace("ROWS", "64")).SerializeToString()
    return content


Planner = Callable[..., Any]
