"""The tasks of a sweep on a Ray cluster: for sweeps that outgrow one machine.

Each worker is an actor with a bench of its own. A task depends on nothing but itself, and its
answer goes to whoever started the sweep, so a worker that is lost is begun anew and its tasks are
done again.
"""

from __future__ import annotations

import importlib
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ir.graph import OpGraph
from planner.requests.collector import collect_rarely
from planner.requests.errors import UserError
from planner.whatif.tasks import PointTask
from planner.whatif.workbench import AHEAD, Done, Workbench

PATIENCE_S = 5.0
"""For the first answer of a cluster."""


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Actors of a Ray cluster."""

    workers: int | None = None
    """Actors; `None` for one on every processor of the cluster."""
    address: str | None = None
    """Of the cluster; `None` starts one on this machine for the time of the sweep."""
    name: ClassVar[str] = "ray"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        """Every task once; those of a worker that was lost are done again.

        Raises:
            UserError: Ray is not installed, or there is no cluster at the address.
        """
        if not tasks:
            return
        ray = _ray()
        self._connect(ray)
        try:
            count = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            shared = ray.put(dict(graphs))
            kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Worker)
            actors = [kind.remote(shared, keep_plans) for _ in range(min(count, len(tasks)))]
            yield from _handed_out(ray, actors, tasks)
        finally:
            ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            ray.init(num_cpus=self.workers, include_dashboard=False, **quiet)
            return
        try:
            _knock(self.address)
            ray.init(address=self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"there is no Ray cluster: {str(error).splitlines()[0]}",
                f"--address {self.address}",
                "start one with `ray start --head`, and give its HOST:PORT",
            ) from error


def _knock(address: str) -> None:
    """Find out at once whether anybody listens; Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()


def _handed_out(ray: Any, actors: Sequence[Any], tasks: Sequence[PointTask]) -> Iterator[Done]:
    """A few tasks at a time for every actor; the answers as they come."""
    queue = iter(tasks)
    waiting: dict[Any, Any] = {}

    def hand_out(actor: Any) -> None:
        task = next(queue, None)
        if task is not None:
            waiting[actor.done.remote(task)] = actor

    for _ in range(AHEAD):
        for actor in actors:
            hand_out(actor)
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for reference in ready:
            actor = waiting.pop(reference)
            hand_out(actor)
            yield ray.get(reference)


class _Worker:
    """What runs in the process of an actor."""

    def __init__(self, graphs: Mapping[str, OpGraph], keep_plans: bool) -> None:
        collect_rarely()
        self._bench = Workbench(graphs, keep_plans=keep_plans)

    def done(self, task: PointTask) -> Done:
        return self._bench.done(task)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            "Ray is not installed", "--engine ray", "pip install 'parallel-planner[ray]'"
        ) from error
