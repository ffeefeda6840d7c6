"""Runs a sweep: what is known is left aside, the rest is worked on, everything is kept."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ir.graph import OpGraph
from planner.whatif.axes import Place
from planner.whatif.engines import Engine
from planner.whatif.results import Result
from planner.whatif.store import Store
from planner.whatif.tasks import Sweep, Task
from planner.whatif.workbench import Done


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
    graphs: Mapping[str, OpGraph], tasks: Sequence[Task], engine: Engine, store: Store
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
