"""From checked text to what the planner is asked; imports the planner, so it is imported late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from cli import arguments, options
from cli.errors import UserError
from cli.machine_files import is_file_name, is_rank_table, machine_text, named_machine
from costmodel.memory import Optimizer
from ir.plan import Plan
from planner.dialects import TARGETS
from planner.preparation import dialect_of
from planner.pricing import COSTS
from planner.request import SearchRequest
from planner.solvers import SOLVERS
from topology.cluster import Cluster
from topology.machine import Machine
from topology.rank_tables import RankTableReport
from topology.rank_tables.machine import TableMachine, machine_of_table


def search_request(  # noqa: PLR0913  one parameter per option
    *,
    phase: str,
    optimizer: str,
    dtype: str | None,
    batch: int | None,
    global_batch: int | None = None,
    micro_batch: str = "auto",
    pipeline: str = "auto",
    bind: Sequence[str],
    memory: str | None,
    dataset_strategy: str | None,
    target: str,
    solver: str,
    time_limit: float,
    effort: int,
    attention: str,
    all_to_all: bool,
    rules: tuple[tuple[str, str], ...],
    pins: Sequence[str],
    cost: str,
) -> SearchRequest:
    """The request in these options.

    Raises:
        UserError: one of them cannot be.
    """
    one_of = arguments.one_of
    if dtype is not None:
        one_of(dtype, options.DTYPES, "--dtype", "element type")
    return SearchRequest(
        training=one_of(phase, options.PHASES, "--phase", "phase") == "train",
        optimizer=Optimizer(
            one_of(optimizer, [o.value for o in Optimizer], "--optimizer", "optimizer")
        ),
        dtype=dtype,
        batch=None if batch is None else arguments.at_least_one(batch, "--batch"),
        **_whole(batch, global_batch, micro_batch, pipeline),
        memory_limit_bytes=arguments.memory_bytes(memory),
        dataset_strategy=arguments.dataset_strategy(dataset_strategy),
        target=one_of(target, TARGETS, "--target", "target"),
        solver=one_of(solver, SOLVERS, "--solver", "solver"),
        effort=arguments.at_least_one(effort, "--effort"),
        time_limit_s=arguments.time_limit_s(time_limit),
        fused_attention=one_of(attention, options.ATTENTION, "--attention", "form of attention")
        == "fused",
        all_to_all=all_to_all,
        bind=tuple(sorted(arguments.bindings(bind).items())),
        rules=rules,
        pins=arguments.pins(pins),
        cost=one_of(cost, COSTS, "--cost", "cost"),
    )


class _Whole(TypedDict):
    global_batch: int | None
    micro_batch: str
    pipeline: str


def _whole(batch: int | None, global_batch: int | None, micro_batch: str, pipeline: str) -> _Whole:
    """How a step may be cut."""
    for name, value, words in (("--micro-batch", micro_batch, ("auto",)),
                               ("--pipeline", pipeline, ("auto", "off"))):  # fmt: skip
        if value not in words and not (value.isascii() and value.isdecimal() and int(value) > 0):
            known = " or ".join((*words, "a number of 1 or more"))
            raise UserError(f"{value!r} is none of them", f"{name} {value}", f"use {known}")
        if value != "auto" and global_batch is None:
            raise UserError(
                "it cuts a global batch, and there is none", f"{name} {value}",
                f"--global-batch {batch or 'N'}" + (" in place of --batch" if batch else ""),
            )  # fmt: skip
    if global_batch is None:
        return _Whole(global_batch=None, micro_batch="auto", pipeline="auto")
    if batch is not None:
        raise UserError(
            "a global batch is a batch that may be cut into micro-batches: one of the two is too "
            "many", f"--batch {batch} --global-batch {global_batch}", "leave --batch out",
        )  # fmt: skip
    arguments.at_least_one(global_batch, "--global-batch")
    return _Whole(global_batch=global_batch, micro_batch=micro_batch, pipeline=pipeline)


@dataclass(frozen=True, slots=True)
class JobMachine:
    """What a job runs on."""

    cluster: Cluster
    """The planner's view."""

    notes: tuple[str, ...] = ()
    """What the view leaves out, in words."""

    table: TableMachine | None = None
    """The rank table, if the machine was given as one."""

    def noted(self, plan: Plan) -> Plan:
        """The plan with the notes, and with the ranks of the table, if there is one, for places."""
        order = plan.rank_order
        if self.table is not None:
            order = tuple(self.table.rank_order[place] for place in order)
        return replace(plan, rank_order=order, notes=(*plan.notes, *self.notes))


def machine(
    cluster: str, devices: int | None, product: str | None, request: SearchRequest
) -> JobMachine:
    """The part of a machine that a job takes, if the target runs on so many devices.

    Args:
        cluster: name of a bundled machine, or of a cluster file or rank table.
        devices: of the job; `None` takes all of a rank table, or of a cluster file with a size.
        product: for a rank table, whose rules it keeps; `None` infers it.
        request: says for which target.

    Raises:
        RequestError: the target does not run on so many devices.
        ClusterError: there is no such machine, or it has no such part.
        UserError: the file cannot be read, or an option does not go with it.
    """
    where = f"--cluster {cluster}"
    path = Path(cluster)
    text = machine_text(path, where) if is_file_name(cluster) else ""
    if text and is_rank_table(text, path):
        return _of_rank_table(text, where, devices, product, request)
    if product is not None:
        raise UserError(
            "only a rank table leaves the product open", f"--product {product}", "leave it out"
        )
    found = named_machine(cluster, where)
    count = _count(found, devices, where)
    _check_target(request, count)
    return JobMachine(found.cluster(count), found.notes(count))


def _count(found: Machine, devices: int | None, where: str) -> int:
    most = found.max_devices
    if devices is None and (most is None or found.is_open):
        raise UserError(
            "the number of devices is open", where, "say how many the job takes, as in --devices 16"
        )
    return devices if devices is not None else most or 0


def _check_target(request: SearchRequest, devices: int) -> None:
    dialect_of(request.target, devices, all_to_all=request.all_to_all)


def _of_rank_table(
    text: str, where: str, devices: int | None, product: str | None, request: SearchRequest
) -> JobMachine:
    found = machine_of_table(text, where, product)
    count = found.cluster.devices
    if devices not in {None, count}:
        raise UserError(
            f"the rank table has {count} devices, not {devices}",
            f"--devices {devices}",
            "leave --devices out",
        )
    _check_target(request, count)
    return JobMachine(found.cluster, _notes(found.report), found)


def _notes(report: RankTableReport) -> tuple[str, ...]:
    """How the table was understood."""
    how = "given" if report.inferred is None else f"inferred from {report.inferred}"
    warnings = [f"rank table: {each.code} {each.where}: {each.message}" for each in report.warnings]
    return (f"rank table of product {report.product} ({how})", *warnings)
