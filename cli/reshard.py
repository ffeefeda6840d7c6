"""`planner reshard`: a checkpoint for other ranks than those that saved it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli import options
from cli import reshard_options as given
from cli.errors import UserError
from cli.reshard_layouts import (
    GivenLayout,
    part_axes,
    rank_numbers,
    read_layout,
    renames_for,
    stacks_for,
    ties_of,
)
from planner.requests.option_texts import DTYPES, memory_bytes, one_of

if TYPE_CHECKING:
    from executors.checkpoint.moving import Move, Outcome
    from executors.checkpoint.pairing import Rename, Request
    from executors.checkpoint.source import Source
    from executors.checkpoint.tensors import SourceTensor
    from topology.cluster import Cluster

EPILOG = """\b
Examples:
  planner reshard --in ckpt --from train/plan.json --to infer/plan.json --out served
  planner reshard --in ckpt --from strategy.ckpt --single --out whole
  planner reshard --in model.safetensors --to plan/plan.json --out sliced
  planner reshard --in ckpt --from strategy.ckpt --like 0-7 --out one_replica
  planner reshard --from old/plan.json --to new/plan.json --lost 8-15 --dry-run

A move that was killed goes on where it was when it is asked for again.

\b
Exit status: 0 done, 2 a fault in the command, the layouts or the checkpoint."""


def reshard(  # noqa: PLR0913  one parameter per option
    *,
    source: given.In = None,
    before: given.From = None,
    after: given.To = None,
    single: given.Single = False,
    like: given.Like = None,
    out: given.Out = None,
    memory: given.HostMemory = "1GiB",
    dry_run: given.DryRun = False,
    names: given.Names = None,
    reverse_names: given.ReverseNames = False,
    stack: given.Stack = None,
    tie: given.Tie = None,
    weights_only: given.WeightsOnly = False,
    dtype: given.NewDtype = None,
    form: given.FileFormat = None,
    file_name: given.FileName = "checkpoint",
    verify: given.Verify = True,
    cluster: given.LinkCluster = None,
    lost: given.Lost = None,
    as_json: options.Json = False,
) -> None:
    """Merge, split or move a checkpoint to the ranks of another layout, in bounded memory."""
    _check_options(source, out, (after, single, like), dry_run=dry_run, lost=lost)
    old = None if before is None else read_layout(before)
    new = None if after is None else read_layout(after)
    if source is None:
        from cli.reshard_text import print_changeover  # noqa: PLC0415

        gone = () if lost is None else rank_numbers(lost, "--lost")
        print_changeover(_two_plans(old, new), gone, as_json=as_json)
        return
    request = _request(new, like, tie, weights_only=weights_only, dtype=dtype)
    limit = memory_bytes(memory)
    assert limit is not None
    move = _planned(
        source, (old, new), request, (names, reverse_names, stack or []), (form, file_name)
    )
    from cli.reshard_text import print_dry_run, print_outcome  # noqa: PLC0415

    if dry_run:
        machine = _machine(cluster, (new, old), move, request)
        print_dry_run(move, machine, as_json=as_json)
        return
    assert out is not None
    print_outcome(_done(move, out, int(limit), verify=verify), move, out, as_json=as_json)


def _check_options(
    source: Path | None,
    out: Path | None,
    targets: tuple[Path | None, bool, str | None],
    *,
    dry_run: bool,
    lost: str | None,
) -> None:
    chosen = sum(bool(each) for each in targets)
    if chosen != 1:
        what = "one target is needed" if not chosen else "there is more than one target"
        raise UserError(what, "--to, --single, --like", "give one of them")
    if source is None and not dry_run:
        raise UserError("no checkpoint is given", "--in", "name its folder or file")
    if out is None and not dry_run:
        raise UserError("no place for the new checkpoint is given", "--out", "name a new folder")
    if lost is not None and source is not None:
        fix = "leave --in out: the slices of lost devices come from the checkpoint"
        raise UserError("--lost is for a dry run of two plans", "--lost", fix)


def _two_plans(old: GivenLayout | None, new: GivenLayout | None) -> tuple[GivenLayout, GivenLayout]:
    if old is None or new is None or old.plan is None or new.plan is None:
        what = "without a checkpoint both layouts must be plans"
        raise UserError(what, "--from, --to", "name two plan.json, or a checkpoint with --in")
    return old, new


def _request(
    new: GivenLayout | None,
    like: str | None,
    tie: list[str] | None,
    *,
    weights_only: bool,
    dtype: str | None,
) -> Request:
    from executors.checkpoint.pairing import Request  # noqa: PLC0415
    from ir.dtypes import SHORT_NAMES  # noqa: PLC0415

    if dtype is not None:
        one_of(dtype, DTYPES, "--dtype", "element type")
    return Request(
        target=None if new is None else new.slicing,
        like=() if like is None else rank_numbers(like, "--like"),
        ties=ties_of(tie or ()),
        weights_only=weights_only,
        dtype=SHORT_NAMES[dtype] if dtype is not None else "",
    )


def _planned(
    path: Path,
    layouts: tuple[GivenLayout | None, GivenLayout | None],
    request: Request,
    naming: tuple[str | None, bool, list[str]],
    files: tuple[str | None, str],
) -> Move:
    """Everything that there is to do; the contents of tensors are not read."""
    from dataclasses import replace  # noqa: PLC0415

    from executors.checkpoint.moving import Move  # noqa: PLC0415
    from executors.checkpoint.outputs import planned_outputs  # noqa: PLC0415
    from executors.checkpoint.pairing import wanted_tensors  # noqa: PLC0415
    from executors.checkpoint.source import read_source  # noqa: PLC0415
    from executors.checkpoint.tensors import source_tensors  # noqa: PLC0415
    from executors.checkpoint.torch_outputs import (  # noqa: PLC0415
        distributed_outputs,
        stored_once,
    )
    from ir.slicing import whole_slicing  # noqa: PLC0415

    form, name = files
    if form is not None:
        one_of(form, given.FORMATS, "--format", "format")
    if not name or "/" in name or name.startswith("."):
        raise UserError(f"{name!r} is no name of a file", "--file-name", "write checkpoint")
    old, new = layouts
    source = read_source(path)
    slicing = whole_slicing(str(path)) if old is None else old.slicing
    tensors = source_tensors(source, slicing)
    _check_like(request, slicing.ranks)
    request = replace(request, renames=_renames(naming, (old, new), tensors))
    wanted = wanted_tensors(tensors, request)
    first = source.files[0]
    form = form or (first.form if first.form in given.FORMATS else given.FORMATS[0])
    metadata = _metadata(source, form)
    if form == "distcp":
        wanted = stored_once(wanted, request.ranks)
        return Move(source, wanted, distributed_outputs(wanted, request.ranks))
    outputs = planned_outputs(wanted, request.ranks, form, metadata, name)
    return Move(source, wanted, outputs)


def _check_like(request: Request, ranks: int) -> None:
    bad = [rank for rank in request.like if rank >= ranks]
    if bad:
        what = f"the checkpoint has no rank {bad[0]}"
        raise UserError(what, "--like", f"name ranks from 0 to {ranks - 1}")


def _metadata(source: Source, form: str) -> dict[str, str]:
    """What stands in the headers of the old files, where all say the same."""
    held = [file.metadata for file in source.files]
    same = {k: v for k, v in held[0].items() if all(other.get(k) == v for other in held)}
    if not same and form == "safetensors" and source.files[0].form == "ckpt":
        return {"format": "ms"}
    return same


def _renames(
    naming: tuple[str | None, bool, list[str]],
    layouts: tuple[GivenLayout | None, GivenLayout | None],
    tensors: dict[str, SourceTensor],
) -> tuple[Rename, ...]:
    rules, reverse, stacks = naming
    stacked = stacks_for(stacks, tensors)
    if rules is None:
        return stacked
    model = layouts[1] if reverse else layouts[0]
    if reverse and model is None:
        fix = "pass --to, whose parameters have the model's names"
        raise UserError("the model's names are not known", "--reverse-names", fix)
    known = list(tensors) if model is None else list(model.slicing.grids)
    axes = part_axes(None if model is None else model.plan)
    return (*renames_for(rules, known, reverse=reverse, axes=axes), *stacked)


def _done(move: Move, out: Path, limit_bytes: int, *, verify: bool) -> Outcome:
    from cli.progress import Progress  # noqa: PLC0415
    from executors.checkpoint.checksums import verify as verified  # noqa: PLC0415
    from executors.checkpoint.moving import carry_out, tile_bytes_within  # noqa: PLC0415

    tile_bytes_within(limit_bytes)
    with Progress() as progress:

        def report(stage: str, done: int, total: int) -> None:
            progress(f"{stage}: {100 * done // max(total, 1)} % of {total >> 20} MiB")

        if verify:
            verified(move.source, lambda done, total: report("verifying", done, total))
        return carry_out(
            move,
            out,
            memory_bytes=limit_bytes,
            report=lambda done, total: report("writing", done, total),
        )


def _machine(
    name: str | None,
    layouts: tuple[GivenLayout | None, GivenLayout | None],
    move: Move,
    request: Request,
) -> Cluster | None:
    """The cluster that a dry run prices messages on; none where nobody says one."""
    from cli.simulation_arguments import cluster_of  # noqa: PLC0415
    from topology.cluster import Cluster  # noqa: PLC0415

    ranks = max(request.ranks, 1 + max(move.source.places, default=0))
    if name is not None:
        return cluster_of(name, ranks)
    found = [layout.plan for layout in layouts if layout is not None and layout.plan is not None]
    clusters = [Cluster.from_dict(plan.cluster) for plan in found]
    return next((cluster for cluster in clusters if cluster.devices >= ranks), None)
