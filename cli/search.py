"""`planner search`: a model and a machine become a plan."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import options
from cli import pipeline_options as pipelines
from cli.arguments import device_count, with_sequence
from cli.export import target_losses, target_writers
from cli.files import Writer, check_folder, write_files
from cli.progress import Progress
from cli.rules import rules as given_rules

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.request import InfeasibleError, SearchRequest
    from topology.cluster import Cluster
    from topology.rank_tables.machine import TableMachine

NO_PLAN_FITS = 1

EPILOG = """\b
Examples:
  planner search model.onnx --devices 16 --batch 64 -o plan
  planner search model.onnx --devices 8 --cluster dgx-h100 --target jax --bind batch=8..64/8,seq=512
  planner search llama3-70b --devices 64 --sequence 8192 --phase infer --memory 40GiB --json

\b
Exit status: 0 planned, 1 no plan fits into memory, 2 a fault in the command or the model."""


def search(  # noqa: PLR0913  one parameter per option
    model: options.Model,
    *,
    devices: options.Devices = None,
    cluster: options.ClusterName = "atlas-800t-a2",
    product: options.Product = None,
    bind: options.Bind = None,
    batch: options.Batch = None,
    global_batch: pipelines.GlobalBatch = None,
    micro_batch: pipelines.MicroBatch = "auto",
    pipeline: pipelines.Pipeline = "auto",
    sequence: options.SequenceLength = None,
    phase: options.Phase = "train",
    optimizer: options.OptimizerName = "adamw",
    dtype: options.Dtype = None,
    memory: options.Memory = None,
    dataset_strategy: options.DatasetStrategy = None,
    target: options.Target = "mindspore",
    solver: options.Solver = "portfolio",
    time_limit: options.TimeLimit = 30.0,
    effort: options.Effort = 1,
    attention: options.Attention = "fused",
    all_to_all: options.AllToAll = True,
    rule: options.Rule = None,
    rules: options.Rules = None,
    pin: options.Pin = None,
    shard: options.Shard = None,
    cost: options.Cost = "time",
    output: options.OutputFolder = None,
    as_json: options.Json = False,
) -> None:
    """Find the fastest way to split a model over devices, within their memory."""
    if devices is not None:
        device_count(devices)
    from cli.search_request import machine, search_request  # noqa: PLC0415  half a second of imports
    from cli.shards import with_shards  # noqa: PLC0415
    from cli.symbols import split_symbols, with_symbols  # noqa: PLC0415
    from planner.request import InfeasibleError  # noqa: PLC0415

    ranges, symbols = split_symbols(with_sequence(bind, sequence))
    request = search_request(
        phase=phase, optimizer=optimizer, dtype=dtype, batch=batch,
        global_batch=global_batch, micro_batch=micro_batch, pipeline=pipeline,
        bind=ranges, memory=memory,
        dataset_strategy=dataset_strategy, target=target, solver=solver, time_limit=time_limit,
        effort=effort, attention=attention, all_to_all=all_to_all, rules=given_rules(rule, rules),
        pins=pin or [], cost=cost,
    )  # fmt: skip
    computer = machine(cluster, devices, product, request)
    request, notes = with_symbols(request, symbols, model, computer.cluster.devices)
    request = with_shards(request, shard, model, computer.cluster)
    computer = replace(computer, notes=(*computer.notes, *notes))
    if output is not None:
        check_folder(output)
    try:
        plan = computer.noted(_planned(model, computer.cluster, request))
    except InfeasibleError as error:
        _say_infeasible(error, as_json=as_json)
        raise typer.Exit(NO_PLAN_FITS) from error
    _deliver(plan, computer.table, output, target, as_json=as_json)


def _planned(model: Path, cluster: Cluster, request: SearchRequest) -> Plan:
    from importers.model_file import import_model_file  # noqa: PLC0415
    from planner.joint import search_whole  # noqa: PLC0415
    from planner.search import search  # noqa: PLC0415

    find = search if request.global_batch is None else search_whole
    with Progress() as progress:
        progress(f"reading {model.name}")
        return find(import_model_file(model, dict(request.bind)), cluster, request, progress)


def _deliver(
    plan: Plan, table: TableMachine | None, output: Path | None, target: str, *, as_json: bool
) -> None:
    files = [] if output is None else write_files(output, _writers(plan, table, target))
    applied = len(files) > 1 and plan.pipeline is None
    losses = target_losses(plan, target) if applied else ()
    if as_json:
        from cli.plan_json import dumps, found  # noqa: PLC0415

        print(dumps(found(plan, files)))
        return
    from cli.plan_text import print_plan  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_plan(plan, files, out, losses=losses)


def _writers(plan: Plan, table: TableMachine | None, target: str) -> dict[str, Writer]:
    """The files of a plan by name; strategy files only if the target can apply the plan.

    MindSpore lays its mesh out in the order of the ranks, so it gets a rank table in that order.
    """
    from exporters.errors import ExportError  # noqa: PLC0415
    from ir.plan_file import plan_to_json  # noqa: PLC0415
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415

    def write_plan(path: Path) -> None:
        path.write_text(plan_to_json(plan), encoding="utf-8")

    writers: dict[str, Writer] = {"plan.json": write_plan}
    if table is not None and target == "mindspore":
        text = rank_table_text(table.table_in(plan.rank_order))
        writers["rank_table.json"] = lambda path: _write_text(path, text)
    try:
        return writers | target_writers(plan, target)
    except ExportError as error:
        print(
            f"warning: no strategy file, {target} cannot apply this plan\n{error}",
            file=sys.stderr,
        )
        return writers


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _say_infeasible(error: InfeasibleError, *, as_json: bool) -> None:
    from cli.plan_json import dumps, nothing_fits  # noqa: PLC0415
    from cli.plan_text import print_infeasible  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415

    with page(sys.stderr) as out:
        print_infeasible(error, out)
    if as_json:
        print(dumps(nothing_fits(error)))
