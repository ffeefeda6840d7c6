"""Runs a sweep. Results and plans stand in a folder, each under its task's name: done once."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_from_json
from ir.whole_file import write_whole
from planner.whatif.axes import Place
from planner.whatif.tasks import PointTask, Result, Sweep
from planner.whatif.workbench import Done, Engine

RESULTS, PLANS = "results", "plans"


class Store:
    """Keeps what was found; in memory alone if there is no folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.wants_plans = folder is not None
        """Whether plans are kept beside results. In memory they are where somebody asks for it."""
        self._found: dict[str, Result] = {}
        self._plans: dict[str, bytes] = {}
        if folder is not None:
            for name in (RESULTS, PLANS):
                (folder / name).mkdir(parents=True, exist_ok=True)

    def known(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results that are there; damaged ones are left out, to be made again."""
        found: dict[str, Result] = {}
        for key in keys:
            result = self._found.get(key) or self._read(key)
            if result is not None:
                found[key] = result
        return found

    def keep(self, done: Done) -> None:
        """Write one answer: its plan first, for a result says that the plan is there."""
        self._found[done.key] = done.result
        if self.wants_plans and self.folder is None and done.plan is not None:
            self._plans[done.key] = done.plan
        if self.folder is None or done.result.truncated:
            return
        if done.plan is not None:
            write_whole(self.folder / PLANS / f"{done.key}.json.gz", done.plan)
        write_whole(self.folder / RESULTS / f"{done.key}.json", done.result.to_json().encode())

    def plan(self, key: str) -> Plan | None:
        """The plan of a point, if it is kept."""
        content = self._plans.get(key)
        path = self.plan_path(key)
        with contextlib.suppress(OSError, EOFError, ValueError):
            packed = path.read_bytes() if content is None and path is not None else content
            if packed is not None:
                return plan_from_json(gzip.decompress(packed).decode())
        return None

    def plan_path(self, key: str) -> Path | None:
        """Where the plan of a point is kept, if it is."""
        if self.folder is None:
            return None
        path = self.folder / PLANS / f"{key}.json.gz"
        return path if path.is_file() else None

    def _read(self, key: str) -> Result | None:
        if self.folder is None:
            return None
        path = self.folder / RESULTS / f"{key}.json"
        with contextlib.suppress(OSError, ValueError, TypeError):
            result = Result.from_json(path.read_text(encoding="utf-8"))
            if not result.is_planned or self.plan_path(key) is not None:
                return result
        return None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a sweep with its result."""

    place: Place
    key: str
    """Name of the result: equal points share it."""
    devices: int
    """0 where the machine has no such part."""
    result: Result


@dataclass(frozen=True, slots=True)
class Count:
    """How far a sweep is."""

    done: int
    """Searches that are answered, those of earlier runs among them."""
    known: int
    """Of these, the ones that were answered before this run."""
    whole: int
    """Distinct searches of the sweep."""
    of: str = "searches"
    """What is counted, where it is something else."""


Watch = Callable[[Count], None]
"""Is told how far a sweep is."""


def run(
    sweep: Sweep, engine: Engine, store: Store, watch: Watch = lambda _: None
) -> tuple[Point, ...]:
    """Results of all points, in their order.

    Args:
        sweep: what is asked.
        engine: who works.
        store: what is known, and where answers are kept as they come.
        watch: is told how far it is.
    """
    known = store.known(task.key for task in sweep.tasks)
    left = [task for task in sweep.tasks if task.key not in known]
    count = len(known)
    watch(Count(count, len(known), len(sweep.tasks)))
    results = {**sweep.known, **known}
    for done in kept(sweep.graphs, left, engine, store):
        results[done.key] = done.result
        count += 1
        watch(Count(count, len(known), len(sweep.tasks)))
    devices = {task.key: task.machine.cluster.devices for task in sweep.tasks}
    return tuple(
        Point(place, key, devices.get(key, 0), results[key]) for place, key in sweep.points
    )


def kept(
    graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], engine: Engine, store: Store
) -> Iterator[Done]:
    """Answers as they come, each kept.

    Args:
        graphs: readings of the model.
        tasks: none of which is known.
        engine: who works.
        store: where answers are kept.
    """
    answers = engine.run(graphs, tasks, keep_plans=store.wants_plans)
    try:
        for done in answers:
            store.keep(done)
            yield done
    finally:
        if isinstance(answers, Generator):
            answers.close()  # Workers go on with no answer that nobody waits for.
