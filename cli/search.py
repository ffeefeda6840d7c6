"""`planner search`: a model and a machine become a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import explain_options, options
from cli import mindspore_options as mindspore
from cli import pipeline_options as pipelines
from cli.export import target_losses, target_writers
from cli.files import Writer, check_folder, write_files, writer_of
from cli.machine_files import machine_file
from cli.older_files import older_files
from cli.progress import Progress
from cli.remote import Server, remote_plan
from cli.rules import rules_file
from planner.requests.option_texts import device_count

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.explain import Infeasibility, WhyNot
    from planner.request import InfeasibleError
    from planner.requests.search_options import SearchOptions
    from planner.requests.searches import Question
    from planner.requests.sources import Document
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
    recompute: pipelines.Recompute = "auto",
    zero: pipelines.Zero = "auto",
    sequence_parallel: pipelines.SequenceParallel = "auto",
    context_parallel: pipelines.ContextParallel = "auto",
    ring_attention: pipelines.RingAttention = "off",
    overlap: pipelines.Overlap = "auto",
    profile: pipelines.Profile = "auto",
    interleave: pipelines.Interleave = "auto",
    offload: pipelines.Offload = "off",
    stage_meshes: pipelines.StageMeshes = "equal",
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
    cut_positions: options.CutPositions = False,
    rule: options.Rule = None,
    rules: options.Rules = None,
    pin: options.Pin = None,
    rest: options.Rest = "auto",
    keep_close_to: explain_options.KeepCloseTo = None,
    max_changes: explain_options.MaxChanges = None,
    why_not: explain_options.WhyNotTexts = None,
    shard: options.Shard = None,
    cost: options.Cost = "time",
    search_mode: mindspore.SearchMode = None,
    pipeline_stages: mindspore.PipelineStages = None,
    gradient_accumulation: mindspore.GradientAccumulation = None,
    enable_parallel_optimizer: mindspore.EnableParallelOptimizer = False,
    fully_use_devices: mindspore.FullyUseDevices = False,
    run_phase: mindspore.RunPhase = None,
    level: mindspore.Level = None,
    server: Server = None,
    output: options.OutputFolder = None,
    as_json: options.Json = False,
) -> None:
    """Find the fastest way to split a model over devices, within their memory."""
    if devices is not None:
        device_count(devices)
    from planner.request import InfeasibleError  # noqa: PLC0415
    from planner.requests.search_options import SearchOptions  # noqa: PLC0415  half a second of imports

    asked = SearchOptions(
        devices=devices, cluster=cluster, product=product, bind=tuple(bind or ()), batch=batch,
        global_batch=global_batch, micro_batch=micro_batch, pipeline=pipeline, sequence=sequence,
        recompute=recompute, zero=zero, sequence_parallel=sequence_parallel, interleave=interleave,
        context_parallel=context_parallel, offload=offload, ring_attention=ring_attention,
        stage_meshes=stage_meshes, overlap=overlap, profile=profile,
        search_mode=search_mode, pipeline_stages=pipeline_stages,
        gradient_accumulation=gradient_accumulation, run_phase=run_phase, level=level,
        enable_parallel_optimizer=enable_parallel_optimizer, fully_use_devices=fully_use_devices,
        phase=phase, optimizer=optimizer, dtype=dtype, memory=memory,
        dataset_strategy=dataset_strategy, target=target, solver=solver, time_limit=time_limit,
        effort=effort, attention=attention, all_to_all=all_to_all, cut_positions=cut_positions,
        rule=tuple(rule or ()),
        rules=rules_file(rules), pin=tuple(pin or ()), rest=rest, shard=_shard_file(shard),
        cost=cost,
        keep_close_to=explain_options.older_plan(keep_close_to), max_changes=max_changes,
    )  # fmt: skip
    found = _question(model, asked)
    explain_options.check_ways(found, why_not)
    if output is not None:
        check_folder(output)
    if server is not None:
        with Progress() as progress:
            there = remote_plan(server, model, asked, why_not or (), progress)
        if there.plan is None:
            assert there.error is not None
            _say_refusal(there.error)
            _say_remedies(there.error, there.why, as_json=as_json)
            raise typer.Exit(NO_PLAN_FITS)
        _deliver(there.plan, found.table, output, target, there.others, as_json=as_json)
        return
    try:
        with Progress() as progress:
            plan = found.plan(progress)
    except InfeasibleError as error:
        _say_refusal(error)
        from planner.explain.questions import with_fixes  # noqa: PLC0415

        why = explain_options.nothing_fits(found, asked, error)
        _say_remedies(with_fixes(error, why), why, as_json=as_json)
        raise typer.Exit(NO_PLAN_FITS) from error
    others = explain_options.other_ways(found, plan, why_not)
    _deliver(plan, found.table, output, target, others, as_json=as_json)


def _shard_file(file: Path | None) -> Document | None:
    """The file with calls of MindSpore's `shard`, if one is given."""
    from cli.rank_tables import table_text  # noqa: PLC0415
    from planner.requests.sources import Document  # noqa: PLC0415

    return None if file is None else Document(str(file), table_text(file, f"--shard {file}"))


def _question(model: Path, asked: SearchOptions) -> Question:
    """What is asked, with the files that it names; warnings go to stderr."""
    from planner.requests.searches import question  # noqa: PLC0415
    from planner.requests.sources import model_file  # noqa: PLC0415

    found = question(
        model_file(model), asked, machine_file(asked.cluster, f"--cluster {asked.cluster}")
    )
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return found


def _deliver(
    plan: Plan,
    table: TableMachine | None,
    output: Path | None,
    target: str,
    others: list[WhyNot],
    *,
    as_json: bool,
) -> None:
    files = [] if output is None else _written(output, _writers(plan, table, target))
    from planner.requests.searches import precision_notes  # noqa: PLC0415

    first = precision_notes(plan)
    if as_json:
        from planner.requests.plan_json import dumps, found  # noqa: PLC0415

        print(dumps(found(plan, files, first) | explain_options.in_json(others)))
        return
    from cli.plan_text import print_plan  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    losses = target_losses(plan, target) if len(files) > 1 else ()
    with page() as out:
        print_plan(plan, files, out, first=first, losses=losses)
    explain_options.print_answers(others)


def _written(folder: Path, writers: dict[str, Writer]) -> list[Path]:
    """Write the files of a plan; those of an older one that have no successor go."""
    older = older_files(folder, writers)
    files = write_files(folder, writers, older.ours)
    for path in older.ours:
        print(f"note: removed {path}, which was of the older plan", file=sys.stderr)
    for path in older.others:
        why = "it stays, for the older plan.json does not give it"
        print(f"warning: {path} is not of this plan; {why}", file=sys.stderr)
    return files


def _writers(plan: Plan, table: TableMachine | None, target: str) -> dict[str, Writer]:
    """The files of a plan by name; strategy files only if the target can apply the plan.

    MindSpore lays its mesh out in the order of the ranks, so it gets a rank table in that order.
    """
    from exporters.errors import ExportError  # noqa: PLC0415
    from planner.requests.searches import plan_bytes  # noqa: PLC0415
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415

    writers: dict[str, Writer] = {"plan.json": writer_of(plan_bytes(plan))}
    if table is not None and target == "mindspore":
        text = rank_table_text(table.table_in(plan.rank_order))
        writers["rank_table.json"] = writer_of(text)
    try:
        return writers | target_writers(plan, target)
    except ExportError as error:
        print(
            f"warning: no strategy file, {target} cannot apply this plan\n{error}",
            file=sys.stderr,
        )
        return writers


def _say_refusal(error: InfeasibleError) -> None:
    """Why nothing fits, before the look for what would: nobody has to wait for that."""
    from cli.plan_text import print_refusal  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415

    with page(sys.stderr) as out:
        print_refusal(error, out)


def _say_remedies(error: InfeasibleError, why: Infeasibility | None, *, as_json: bool) -> None:
    from cli.plan_text import print_remedies  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415
    from planner.requests.plan_json import dumps, nothing_fits  # noqa: PLC0415

    with page(sys.stderr) as out:
        print_remedies(error, out)
        for reason in () if why is None else why.reasons:
            if reason.kind != "memory":
                out.print(f"  reason: {reason.text}", soft_wrap=True)
    if as_json:
        told = {} if why is None else {"explanation": why.to_dict()}
        print(dumps(nothing_fits(error) | told))
