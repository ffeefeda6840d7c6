"""From options as text to the bytes of plan.json: the one way, whoever asks.

Of an element type that nobody chose it is said what the usual one would change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from costmodel.memory import Optimizer, parameter_bytes
from ir.dialects import TARGETS, target_with
from ir.dtypes import SHORT_NAMES
from ir.normalise import main_dtype
from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.repricing.other_size import retyped
from planner.request import Deadline, RequestError, SearchRequest
from planner.requests.errors import UserError
from planner.requests.machines import JobMachine, machine
from planner.requests.option_texts import with_sequence
from planner.requests.options.searches import SearchOptions
from planner.requests.search_options import check_degrees, with_own_names
from planner.requests.search_request import kept_close, search_request
from planner.requests.sources import Document, ModelSource
from planner.requests.symbols import split_symbols, told_by, with_open_batch, with_symbols
from planner.search import Report, search
from topology.cluster import Chip, Cluster
from topology.rank_tables.machine import TableMachine
from topology.units import format_bytes, format_flops, format_seconds

if TYPE_CHECKING:
    from planner.request import SearchRequest
    from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Question:
    """A request with everything that it refers to: ready to be searched."""

    model: ModelSource
    request: SearchRequest
    machine: JobMachine
    warnings: tuple[str, ...] = ()
    """What the user should know before the answer."""
    deadline: Deadline = field(default=Deadline.after(None), compare=False)
    """When the search and all that comes after it shall end."""

    @property
    def left(self) -> SearchRequest:
        """The request with the time that is left for it."""
        return replace(self.request, time_limit_s=self.deadline.left_s)

    @property
    def table(self) -> TableMachine | None:
        """The rank table of the job, if the machine was given as one."""
        return self.machine.table

    def plan(self, report: Report = lambda _: None) -> Plan:
        """The answer.

        Raises:
            RequestError: the request does not fit the model or the machine.
            InfeasibleError: nothing fits into memory.
        """
        report(f"reading {self.model.name}")
        graph = self.model.graph(dict(self.request.bind))
        return self.machine.noted(search(graph, self.machine.cluster, self.left, report))


def question(
    model: ModelSource, options: SearchOptions, machine_file: Document | None = None
) -> Question:
    """What these options ask.

    Args:
        model: what is planned.
        options: as text.
        machine_file: what `options.cluster` names, if that is no bundled machine.

    Raises:
        UserError: an option is wrong; other errors of `planner.requests.errors` likewise.
    """
    options = with_own_names(options)
    asked, computer = machine_asked(options, machine_file)
    deadline = Deadline.after(asked.time_limit_s)
    bind = with_sequence(options.bind, options.sequence)
    told = told_by(model, bind)
    bind = with_open_batch([*bind, *told], options.batch or options.global_batch, model)
    ranges, symbols = split_symbols(bind)
    request = search_request(replace(options, bind=tuple(ranges)))
    request = replace(request, calibration=asked.calibration)
    request = kept_close(request, options.keep_close_to, options.max_changes)
    request, notes = with_symbols(request, symbols, model, computer.cluster.devices)
    request, warnings = with_shards(request, options.shard, model, computer.cluster)
    said = (f"{text}: as the model says" for text in told)
    computer = replace(computer, notes=(*computer.notes, *said, *notes))
    return Question(model, request, computer, warnings, deadline)


def machine_asked(
    options: SearchOptions, machine_file: Document | None = None
) -> tuple[SearchRequest, JobMachine]:
    """What options ask without the model, and the machine: what can be refused before it is read.

    Raises:
        UserError: as `question`.
    """
    bind = with_sequence(options.bind, options.sequence)
    named = options.cluster if machine_file is None else machine_file
    asked = search_request(replace(options, bind=tuple(split_symbols(bind)[0])))
    computer = machine(named, options.devices, options.product, asked)
    check_degrees(options, computer.cluster.devices)
    if options.calibration is None:
        return asked, computer
    from planner.requests.calibrations import job_calibrated  # noqa: PLC0415  of steps of layouts

    return job_calibrated(asked, computer, named, options.calibration)


def plan_bytes(plan: Plan) -> bytes:
    """What stands in plan.json: the same for equal plans."""
    return plan_to_json(plan).encode()


def with_shards(
    request: SearchRequest, file: Document | None, model: ModelSource, cluster: Cluster
) -> tuple[SearchRequest, tuple[str, ...]]:
    """The request with the pins that the calls in a file stand for, and warnings.

    Raises:
        ShardError: the framework refuses a call.
        UserError: the target is another.
    """
    if file is None:
        return request, ()
    if not TARGETS[request.target].cut_counts:
        target = target_with(lambda each: each.cut_counts)
        what = f"shard is {TARGETS[target].framework}'s"
        raise UserError(what, f"--shard {file.name}", f"use --target {target}")
    from planner.pipeline.preparation import prepare  # noqa: PLC0415
    from planner.requests.shard import ShardError, check_calls, pins_of_calls, read_calls  # noqa: PLC0415

    context, calls = read_calls(file.text, file.name)
    graph, _ = prepare(model.graph(dict(request.bind)), cluster, request)
    issues = check_calls(graph, calls, context, cluster.devices)
    warnings = tuple(str(issue) for issue in issues if not issue.is_error)
    errors = [issue for issue in issues if issue.is_error]
    if errors:
        raise ShardError(*errors)
    pins = pins_of_calls(graph, calls, context, cluster.devices)
    strategy = request.dataset_strategy or context.dataset_strategy
    pinned = tuple(sorted({*request.pins, *pins}))
    return replace(request, pins=pinned, dataset_strategy=strategy), warnings


WIDE = "float32"
OWN_TYPE = f"{WIDE}, the element type of the model"
_USUAL = ("bf16", "fp16")
"""What a network is trained in, the better one first."""


def precision_notes(plan: Plan) -> tuple[str, ...]:
    """What the usual element type would change, where a plan computes in float32 because the model
    says so; else nothing.

    A plan of one stage is priced in the other type as it stands; of several stages the bytes and
    the rates are told, since to price all of them again would take long.
    """
    cluster = Cluster.from_dict(plan.cluster)
    usual = next((short for short in _USUAL if cluster.chip.supports(SHORT_NAMES[short])), None)
    if plan.request.get("dtype") is not None or main_dtype(plan.graph) != WIDE or usual is None:
        return ()
    change = _priced(plan, cluster, usual) or _told(plan, cluster.chip, usual)
    return (f"{OWN_TYPE}; with --dtype {usual} {change}",)


def _priced(plan: Plan, cluster: Cluster, short: str) -> str:
    """What the plan would take in the other type; nothing where it cannot be priced so."""
    if not plan.pipeline.is_single:
        return ""
    try:
        other = retyped(plan, cluster, SHORT_NAMES[short]).estimate
    except RequestError:
        return ""
    time, memory = format_seconds(other.step_time_s), format_bytes(other.peak_memory_bytes)
    return f"this plan takes {time} and {memory} per device"


def _told(plan: Plan, chip: Chip, short: str) -> str:
    """What differs between the two types."""
    usual, training = SHORT_NAMES[short], bool(plan.request.get("training"))
    optimizer = Optimizer(str(plan.request.get("optimizer")))
    kept = " instead of ".join(
        f"{parameter_bytes(dtype, optimizer, training=training).resident:g}"
        for dtype in (usual, WIDE)
    )
    rates = " instead of ".join(
        format_flops(chip.peak_flops[dtype]) for dtype in (usual, WIDE) if chip.supports(dtype)
    )
    return (
        "weights, activations and messages have 2 bytes per element instead of 4, a parameter "
        f"with gradient and optimizer state {kept} bytes, and the peak is {rates}"
    )
