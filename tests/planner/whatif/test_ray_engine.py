"""Tasks on the actors of a Ray cluster, of which a stand-in is here; `make test-system` has Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from planner.requests.errors import UserError
from planner.whatif import ray_engine
from planner.whatif.ray_engine import RayEngine

pytestmark = pytest.mark.fast


class StandIn:
    """As much of Ray as the engine uses, in this process."""

    def __init__(self) -> None:
        self.actors = 0

    def init(self, **given: Any) -> None:
        if "address" in given:
            raise RuntimeError("nobody is there\nat all")

    def shutdown(self) -> None: ...

    def put(self, value: Any) -> Any:
        return value

    def get(self, value: Any) -> Any:
        return value

    def wait(self, waiting: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return waiting[:num_returns], waiting[num_returns:]

    def remote(self, **_: Any) -> Any:
        return lambda _kind: SimpleNamespace(remote=self._actor)

    def _actor(self, *_: Any) -> Any:
        self.actors += 1
        return SimpleNamespace(done=SimpleNamespace(remote=lambda task: f"{task} done"))


def test_every_task_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = StandIn()
    monkeypatch.setattr(ray_engine, "_ray", lambda: ray)
    tasks: Any = [f"task {i}" for i in range(20)]
    found: Any = list(RayEngine(workers=3).run({}, tasks, keep_plans=False))
    assert sorted(found) == sorted(f"{task} done" for task in tasks)
    assert ray.actors == 3
    with pytest.raises(UserError, match="no Ray cluster: nobody is there"):
        list(RayEngine(address="here").run({}, tasks, keep_plans=False))
