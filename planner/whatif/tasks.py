"""Points become tasks: what is to be searched, with a name that says so, and what is known then, a
record small enough to be kept for every point of a sweep.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from importers.errors import ModelError
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from ir.plan_enums import MemoryCause
from ir.published import expected_s, expected_upper_s
from ir.symbols import Symbol
from ir.throughput import rates_of
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.requests.errors import UserError
from planner.requests.machines import JobMachine
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from planner.requests.sources import Document, ModelSource
from planner.whatif.axes import NAMES, Axis, Place, of_place, places
from topology.cluster import Cluster
from topology.errors import TopologyError

FORMAT = 4
"""Counted up when equal requests may have other results: old results are then left aside."""
MOST_POINTS = 1_000_000

Bind = tuple[tuple[str, int | Symbol], ...]


@dataclass(frozen=True, slots=True)
class PointTask:
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
    tasks: tuple[PointTask, ...]
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


def task_at(asked: Asked, place: Place) -> tuple[PointTask, Mapping[str, OpGraph]] | None:
    """The task of a single point and the model that it reads; `None` if there is none."""
    maker = Maker(asked)
    key = maker.key(place)
    return (maker.tasks[key], maker.graphs) if key in maker.tasks else None


def _likeness(task: PointTask) -> tuple[object, ...]:
    request = task.request
    return (
        task.model, request.batch or request.global_batch or 0, task.machine.cluster.devices,
        task.machine.cluster.name, task.key,
    )  # fmt: skip


def search_options(asked: Asked, place: Place) -> SearchOptions:
    """What a single search of a point would be asked; factors on the machine aside."""
    cluster = place.get("cluster")
    sizes = tuple(f"{name}={value}" for name, value in place.values if name not in NAMES)
    return replace(
        asked.options,
        bind=(*asked.options.bind, *sizes),
        devices=place.count("devices") or asked.options.devices,
        cluster=asked.options.cluster if cluster is None else str(cluster),
        sequence=place.count("sequence") or asked.options.sequence,
        batch=place.count("batch") or asked.options.batch,
    )


class Maker:
    """Makes tasks; what several points share is looked up once.

    `tasks` has every distinct one by its name, `known` the results that need no search, `graphs`
    the readings of the model.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.tasks: dict[str, PointTask] = {}
        self.known: dict[str, Result] = {}
        self.graphs: dict[str, OpGraph] = {}
        self._readings: dict[Bind, str] = {}
        self._bases: dict[SearchOptions, PointTask | Result] = {}

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

    def _base(self, options: SearchOptions) -> PointTask | Result:
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
        return PointTask("", model, found.machine, found.request)

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


def named(task: PointTask) -> PointTask:
    """The task with its name."""
    machine, request = task.machine, task.request
    order = () if machine.table is None else machine.table.rank_order
    parts = [
        FORMAT, task.model, machine.cluster.to_dict(), machine.notes, order,
        request.to_dict(), request.time_limit_s, request.pipeline,
    ]  # fmt: skip
    return replace(task, key=digest(parts))


def _scaled(machine: JobMachine, place: Place) -> JobMachine:
    return replace(machine, cluster=of_place(machine.cluster, place))


def digest_of(graph: OpGraph) -> str:
    """Digest of a model as it was read, with its readings at other sizes."""
    return digest([graph.digest(), [each.digest() for each in graph.variants], list(graph.notes)])


_STATES = (MemoryCause.WEIGHTS, MemoryCause.OPTIMIZER_STATE)
OK, TOO_LARGE, IMPOSSIBLE = "ok", "does not fit", "impossible"


@dataclass(frozen=True, slots=True)
class Result:
    """A point that was planned, or why it was not."""

    status: str
    """`ok`, `does not fit` (into the memory), or `impossible` (the request contradicts the model or
    the machine)."""
    message: str = ""
    """Why there is no plan."""
    step_s: float = math.inf
    """Of a step, as the planner estimates it."""
    low_s: float | None = None
    """Nine of ten such steps take between this and `high_s` on real machines; `None` where no
    published run is like it, and in results of before."""
    high_s: float | None = None
    upper_s: float | None = None
    """Three of four take no longer."""
    simulated_s: float | None = None
    """Of the same step event by event; `None` where the plan cannot be simulated."""
    bound_s: float = 0.0
    """No plan of the space takes less."""
    gap: float = math.inf
    """Relative distance of the plan from that."""
    peak_bytes: float = math.inf
    """Per device; where nothing fits, of the smallest plan that was found."""
    limit_bytes: float = 0.0
    """Per device."""
    samples: float = 0.0
    """Of a step."""
    tokens: float = 0.0
    """Of a step; 0 where the model has none."""
    utilisation: float | None = None
    """Model FLOPs over what the devices could do in the step."""
    peak: str = ""
    """What one device could do, with the type of the products, such as `989 TFLOP/s bf16`."""
    outline: str = ""
    """The plan in a few words."""
    signature: str = ""
    """Equal for plans that split everything alike."""
    chip: str = ""
    server_devices: int = 1
    """Devices that are lost together."""
    state_bytes: float = 0.0
    """Weights and optimizer state of a device: what it writes into a checkpoint."""
    stages: int = 1
    micro_batches: int = 1
    time_by_cause: Mapping[str, float] = field(default_factory=dict)
    """Seconds; sums to the step."""
    truncated: bool = False
    """The time limit cut the search short: another run may find another plan."""

    @property
    def is_planned(self) -> bool:
        return self.status == OK

    def to_json(self) -> str:
        """One line; equal results give equal text."""
        record = {k: _plain(v) for k, v in asdict(self).items()}
        return json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """What `to_json` wrote.

        Raises:
            ValueError: the text is no result.
        """
        record = json.loads(text)
        if not isinstance(record, dict):
            raise TypeError("a result is an object")
        return cls(**{k: _number(k, v) for k, v in record.items()})


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value


def _number(name: str, value: Any) -> Any:
    return float(value) if name.endswith(("_s", "_bytes", "gap")) and value == "inf" else value


def planned(plan: Plan, simulated_s: float | None) -> Result:
    """The result of a point with a plan, and with its simulated step if there is one."""
    estimate, pipeline = plan.estimate, plan.pipeline
    cluster, rates = Cluster.from_dict(plan.cluster), rates_of(plan)
    low_s, high_s = expected_s(estimate) or (None, None)
    return Result(
        OK,
        step_s=estimate.step_time_s,
        low_s=low_s,
        high_s=high_s,
        upper_s=expected_upper_s(estimate),
        simulated_s=simulated_s,
        bound_s=plan.bound.bound_s,
        gap=plan.bound.gap,
        peak_bytes=estimate.peak_memory_bytes,
        limit_bytes=estimate.memory_limit_bytes,
        samples=rates.load.samples,
        tokens=rates.load.tokens,
        utilisation=rates.utilisation,
        peak=rates.load.peak_text,
        outline=outline_of(plan),
        signature=signature_of(plan),
        chip=cluster.chip.name,
        server_devices=server_devices(cluster),
        state_bytes=sum(estimate.memory_by_cause.get(cause, 0.0) for cause in _STATES),
        stages=len(pipeline.stages),
        micro_batches=pipeline.micro_batches,
        time_by_cause=dict(estimate.time_by_cause),
        truncated=plan.bound.truncated,
    )


def server_devices(cluster: Cluster) -> int:
    """Devices of a server: all but the outermost tier, which joins servers if there are several."""
    tiers = cluster.tiers
    return cluster.devices // tiers[0].size if len(tiers) > 1 else cluster.devices


def too_large(error: InfeasibleError) -> Result:
    """The result of a point where nothing fits."""
    return Result(
        TOO_LARGE,
        message=error.what,
        peak_bytes=error.needed_bytes,
        limit_bytes=error.available_bytes,
    )


def impossible(error: Exception) -> Result:
    """The result of a point that contradicts itself; the first line says how."""
    return Result(IMPOSSIBLE, message=str(error).splitlines()[0])


def digest(record: object) -> str:
    """Name of a result: a hash of everything that it depends on."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def signature_of(plan: Plan) -> str:
    """Equal for plans that split everything alike, whatever it takes on their machines."""
    state = hashlib.sha256(repr((plan.mesh, plan.rank_order, plan.recomputed)).encode())
    for op in plan.operators:
        state.update(repr((op.name, op.split, op.stage)).encode())
    for tensor in plan.tensors:
        state.update(f"{tensor.name} {tensor.layout} {tensor.used}".encode())
        state.update(f" {tensor.states}".encode() if tensor.states else b"")
    if not plan.pipeline.is_single:
        stages = [(stage.start, stage.end, *stage.mesh) for stage in plan.pipeline.stages]
        state.update(repr((plan.pipeline.micro_batches, stages)).encode())
    return state.hexdigest()[:12]


def outline_of(plan: Plan) -> str:
    """The degrees of most of the plan, and what else was chosen."""
    words = [str(degrees_of(plan))]
    if not plan.pipeline.is_single:
        words.append(f"{plan.pipeline.micro_batches} micro-batches")
    if plan.recomputed:
        words.append(f"{len(plan.recomputed)} tensors recomputed")
    return ", ".join(words)
