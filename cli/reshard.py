"""`planner reshard`: a checkpoint for other ranks than those that saved it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.declared import command
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
from cli.reshard_options import FORMATS, ReshardCommand
from planner.requests.option_texts import memory_bytes

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


@command
def reshard(here: ReshardCommand) -> None:
    """Merge, split or move a checkpoint to the ranks of another layout, in bounded memory."""
    _check_options(here)
    old = None if here.before is None else read_layout(here.before)
    new = None if here.after is None else read_layout(here.after)
    if here.source is None:
        from cli.reshard_text import print_migration  # noqa: PLC0415

        gone = () if here.lost is None else rank_numbers(here.lost, "--lost")
        print_migration(_two_plans(old, new), gone, as_json=here.as_json)
        return
    request = _request(new, here)
    limit = memory_bytes(here.memory)
    assert limit is not None
    move = _planned(here.source, (old, new), request, here)
    from cli.reshard_text import print_dry_run, print_outcome  # noqa: PLC0415

    if here.dry_run:
        machine = _machine(here.cluster, (new, old), move, request)
        print_dry_run(move, machine, as_json=here.as_json)
        return
    assert here.out is not None
    outcome = _done(move, here.out, int(limit), verify=here.verify)
    print_outcome(outcome, move, here.out, as_json=here.as_json)


def _check_options(here: ReshardCommand) -> None:
    chosen = sum(bool(each) for each in (here.after, here.single, here.like))
    if chosen != 1:
        what = "one target is needed" if not chosen else "there is more than one target"
        raise UserError(what, "--to, --single, --like", "give one of them")
    if here.source is None and not here.dry_run:
        raise UserError("no checkpoint is given", "--in", "name its folder or file")
    if here.out is None and not here.dry_run:
        raise UserError("no place for the new checkpoint is given", "--out", "name a new folder")
    if here.lost is not None and here.source is not None:
        fix = "leave --in out: the slices of lost devices come from the checkpoint"
        raise UserError("--lost is for a dry run of two plans", "--lost", fix)


def _two_plans(old: GivenLayout | None, new: GivenLayout | None) -> tuple[GivenLayout, GivenLayout]:
    if old is None or new is None or old.plan is None or new.plan is None:
        what = "without a checkpoint both layouts must be plans"
        raise UserError(what, "--from, --to", "name two plan.json, or a checkpoint with --in")
    return old, new


def _request(new: GivenLayout | None, here: ReshardCommand) -> Request:
    from executors.checkpoint.pairing import Request  # noqa: PLC0415
    from ir.dtypes import SHORT_NAMES  # noqa: PLC0415

    return Request(
        target=None if new is None else new.slicing,
        like=() if here.like is None else rank_numbers(here.like, "--like"),
        ties=ties_of(here.tie),
        weights_only=here.weights_only,
        dtype=SHORT_NAMES[here.dtype] if here.dtype is not None else "",
    )


def _planned(
    path: Path,
    layouts: tuple[GivenLayout | None, GivenLayout | None],
    request: Request,
    here: ReshardCommand,
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

    form, name = here.form, here.file_name
    if not name or "/" in name or name.startswith("."):
        raise UserError(f"{name!r} is no name of a file", "--file-name", "write checkpoint")
    old, new = layouts
    source = read_source(path)
    slicing = whole_slicing(str(path)) if old is None else old.slicing
    tensors = source_tensors(source, slicing)
    _check_like(request, slicing.ranks)
    request = replace(request, renames=_renames(here, (old, new), tensors))
    wanted = wanted_tensors(tensors, request)
    first = source.files[0]
    form = form or (first.form if first.form in FORMATS else FORMATS[0])
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
    here: ReshardCommand,
    layouts: tuple[GivenLayout | None, GivenLayout | None],
    tensors: dict[str, SourceTensor],
) -> tuple[Rename, ...]:
    reverse = here.reverse_names
    stacked = stacks_for(here.stack, tensors)
    if here.names is None:
        return stacked
    model = layouts[1] if reverse else layouts[0]
    if reverse and model is None:
        fix = "pass --to, whose parameters have the model's names"
        raise UserError("the model's names are not known", "--reverse-names", fix)
    known = list(tensors) if model is None else list(model.slicing.grids)
    axes = part_axes(None if model is None else model.plan)
    return (*renames_for(here.names, known, reverse=reverse, axes=axes), *stacked)


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
