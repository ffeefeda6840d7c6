"""Points become tasks: what is to be searched, with a name that says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from importers.errors import ModelError
from ir.graph import OpGraph
from ir.symbols import Symbol
from planner.asking.errors import UserError
from planner.asking.machines import JobMachine
from planner.asking.options import SearchOptions
from planner.asking.searching import question
from planner.asking.sources import Document, ModelSource
from planner.request import RequestError, SearchRequest
from planner.whatif.axes import NAMES, Axis, Place, places
from planner.whatif.machines import of_place
from planner.whatif.results import Result, digest, impossible
from topology.errors import TopologyError

FORMAT = 2
"""Counted up when equal requests may have other results: old results are then left aside."""
MOST_POINTS = 1_000_000

Bind = tuple[tuple[str, int | Symbol], ...]


@dataclass(frozen=True, slots=True)
class Task:
    """One search with its simulation: all that decides the result beside the model."""

    key: str
    """Name of the result: a hash of model, machine and request."""
    model: str
    """Which reading of the model."""
    machine: JobMachine
    request: SearchRequest


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points, and the tasks that answer them."""

    model: str
    axes: tuple[Axis, ...]
    points: tuple[tuple[Place, str], ...]
    """Every point with the key of its result."""
    tasks: tuple[Task, ...]
    """Every distinct one once, those that share most next to one another."""
    known: Mapping[str, Result]
    """Results that need no search."""
    graphs: Mapping[str, OpGraph]
    """Readings of the model by their digest."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is swept."""

    model: ModelSource
    options: SearchOptions
    """What all points have in common."""
    axes: tuple[Axis, ...]
    machine_files: Mapping[str, Document]
    """Texts of the clusters that are files, by name."""
    cut: bool = False
    """A step may be cut into micro-batches and stages: `batch` is then `--global-batch`."""


def sweep_of(asked: Asked) -> Sweep:
    """All points and tasks of a sweep.

    Raises:
        UserError: an option is wrong, or there are too many points.
        ModelError: the model cannot be read.
    """
    count = math.prod(len(axis.values) for axis in asked.axes)
    if count > MOST_POINTS:
        raise UserError(f"{count} points", "--vary", f"sweep over {MOST_POINTS} points at most")
    maker = Maker(asked)
    points = tuple((place, maker.key(place)) for place in places(asked.axes))
    tasks = sorted(maker.tasks.values(), key=_likeness)
    return Sweep(asked.model.name, asked.axes, points, tuple(tasks), maker.known, maker.graphs)


def task_at(asked: Asked, place: Place) -> tuple[Task, Mapping[str, OpGraph]] | None:
    """The task of a single point and the model that it reads; `None` if there is none."""
    maker = Maker(asked)
    key = maker.key(place)
    return (maker.tasks[key], maker.graphs) if key in maker.tasks else None


def _likeness(task: Task) -> tuple[object, ...]:
    request = task.request
    return (
        task.model, request.batch or request.global_batch or 0, task.machine.cluster.devices,
        task.machine.cluster.name, task.key,
    )  # fmt: skip


def search_options(asked: Asked, place: Place) -> SearchOptions:
    """What a single search of a point would be asked; factors on the machine aside."""
    cluster, batch = place.get("cluster"), place.count("batch") or asked.options.batch
    sizes = tuple(f"{name}={value}" for name, value in place.values if name not in NAMES)
    return replace(
        asked.options,
        bind=(*asked.options.bind, *sizes),
        devices=place.count("devices") or asked.options.devices,
        cluster=asked.options.cluster if cluster is None else str(cluster),
        sequence=place.count("sequence") or asked.options.sequence,
        batch=None if asked.cut else batch,
        global_batch=batch if asked.cut else None,
    )


class Maker:
    """Makes tasks; what several points share is looked up once.

    `tasks` has every distinct one by its name, `known` the results that need no search, `graphs`
    the readings of the model.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.tasks: dict[str, Task] = {}
        self.known: dict[str, Result] = {}
        self.graphs: dict[str, OpGraph] = {}
        self._readings: dict[Bind, str] = {}
        self._bases: dict[SearchOptions, Task | Result] = {}

    def key(self, place: Place) -> str:
        """Name of the result of a point."""
        options = search_options(self.asked, place)
        if options not in self._bases:
            self._bases[options] = self._base(options)
        base = self._bases[options]
        if isinstance(base, Result):
            key = digest(["impossible", base.message])
            self.known[key] = base
            return key
        task = named(replace(base, machine=_scaled(base.machine, place)))
        self.tasks.setdefault(task.key, task)
        return task.key

    def _base(self, options: SearchOptions) -> Task | Result:
        """The task of a point whose machine is as it stands."""
        named = self.asked.machine_files.get(options.cluster)
        try:
            found = question(self.asked.model, options, named)
        except (RequestError, TopologyError) as error:
            return impossible(error)
        try:
            model = self._model(found.request.bind)
        except ModelError as error:
            raise self._of_sequence(error, options) from error
        return Task("", model, found.machine, found.request)

    def _of_sequence(self, error: ModelError, options: SearchOptions) -> Exception:
        """The error in words of the sweep, where the model does not know the length asked for."""
        if options.sequence is None or error.where != "--bind" or "sequence" not in error.what:
            return error
        return UserError(
            "the model file fixes the length of its sequences",
            f"--vary sequence or --sequence {options.sequence}",
            "leave it out, or give a model by its sizes (planner sizes --list)",
        )

    def _model(self, bind: Bind) -> str:
        if bind not in self._readings:
            graph = self.asked.model.graph(dict(bind))
            self._readings[bind] = digest_of(graph)
            self.graphs[self._readings[bind]] = graph
        return self._readings[bind]


def named(task: Task) -> Task:
    """The task with its name."""
    machine, request = task.machine, task.request
    order = () if machine.table is None else machine.table.rank_order
    parts = [
        FORMAT, task.model, machine.cluster.to_dict(), machine.notes, order,
        request.to_dict(), request.time_limit_s,
    ]  # fmt: skip
    return replace(task, key=digest(parts))


def _scaled(machine: JobMachine, place: Place) -> JobMachine:
    return replace(machine, cluster=of_place(machine.cluster, place))


def digest_of(graph: OpGraph) -> str:
    """Digest of a model as it was read, with its readings at other sizes."""
    return digest([graph.digest(), [each.digest() for each in graph.variants], list(graph.notes)])
