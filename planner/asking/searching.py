"""From options as text to the bytes of plan.json: the one way, whoever asks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.asking.decisions import decisions, with_own_names
from planner.asking.machines import JobMachine, machine
from planner.asking.options import SearchOptions
from planner.asking.request import search_request
from planner.asking.rules import rules
from planner.asking.shards import with_shards
from planner.asking.sources import Document, ModelSource
from planner.asking.symbols import split_symbols, told_by, with_open_batch, with_symbols
from planner.asking.texts import device_count, with_sequence
from planner.asking.wishes import kept_close, split_pins
from planner.deadline import Deadline
from planner.request import SearchRequest
from planner.search import Report, search
from topology.rank_tables.machine import TableMachine


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
        UserError: an option is wrong; other errors of `planner.asking.faults` likewise.
    """
    options = with_own_names(options)
    if options.devices is not None:
        device_count(options.devices)
    bind = with_sequence(options.bind, options.sequence)
    named = options.cluster if machine_file is None else machine_file
    asked = _request(options, split_symbols(bind)[0])
    deadline = Deadline.after(asked.time_limit_s)
    computer = machine(named, options.devices, options.product, asked)
    told = told_by(model, bind)
    bind = with_open_batch([*bind, *told], options.batch or options.global_batch, model)
    ranges, symbols = split_symbols(bind)
    request = kept_close(_request(options, ranges), options.keep_close_to, options.max_changes)
    request, notes = with_symbols(request, symbols, model, computer.cluster.devices)
    request, warnings = with_shards(request, options.shard, model, computer.cluster)
    said = (f"{text}: as the model says" for text in told)
    computer = replace(computer, notes=(*computer.notes, *said, *notes))
    return Question(model, request, computer, warnings, deadline)


def _request(options: SearchOptions, bind: list[str]) -> SearchRequest:
    pins, soft_pins = split_pins(options.pin)
    found = search_request(
        phase=options.phase,
        optimizer=options.optimizer,
        dtype=options.dtype,
        batch=options.batch,
        global_batch=options.global_batch,
        micro_batch=options.micro_batch,
        pipeline=options.pipeline,
        decisions=decisions(options),
        bind=bind,
        memory=options.memory,
        dataset_strategy=options.dataset_strategy,
        target=options.target,
        solver=options.solver,
        time_limit=options.time_limit,
        effort=options.effort,
        attention=options.attention,
        all_to_all=options.all_to_all,
        rules=rules(options.rule, options.rules),
        pins=pins,
        cost=options.cost,
    )
    return replace(found, soft_pins=soft_pins, rest=options.rest)


def plan_bytes(plan: Plan) -> bytes:
    """What stands in plan.json: the same for equal plans."""
    return plan_to_json(plan).encode()
