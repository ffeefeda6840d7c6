"""`planner search`: a model and a machine become a plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli import options, other_ways
from cli.command_options import SearchCommand
from cli.declared import command
from cli.export import target_losses, target_writers
from cli.files import Writer, check_folder, write_files, writer_of
from cli.machine_files import machine_file
from cli.older_files import older_files
from cli.progress import Progress
from cli.remote import remote_plan
from planner.requests.options.searches import SearchOptions

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.explain import Infeasibility
    from planner.request import InfeasibleError
    from planner.requests.searches import Question
    from report.explanation import WhyNot
    from topology.rank_tables.machine import TableMachine

NO_PLAN_FITS = 1

EPILOG = """\b
Examples:
  planner search model.onnx --devices 16 --batch 64 -o plan
  planner search model.onnx --devices 8 --cluster dgx-h100 --target jax --bind batch=8..64/8,seq=512
  planner search llama3-70b --devices 64 --sequence 8192 --phase infer --memory 40GiB --json

\b
Exit status: 0 planned, 1 no plan fits into memory, 2 a fault in the command or the model."""


@command
def search(model: options.Model, asked: SearchOptions, here: SearchCommand) -> None:
    """Find the fastest way to split a model over devices, within their memory."""
    from planner.request import InfeasibleError  # noqa: PLC0415  half a second of imports

    found = _question(model, asked)
    other_ways.check_ways(found, here.why_not)
    if here.output is not None:
        check_folder(here.output)
    if here.server is not None:
        _search_there(here.server, model, asked, found.table, here)
        return
    try:
        with Progress() as progress:
            plan = found.plan(progress)
    except InfeasibleError as error:
        _say_refusal(error)
        from planner.explain.questions import with_fixes  # noqa: PLC0415

        why = other_ways.explained(found, asked, error)
        _say_remedies(with_fixes(error, why), why, as_json=here.as_json)
        raise typer.Exit(NO_PLAN_FITS) from error
    others = other_ways.other_ways(found, plan, here.why_not)
    _deliver(plan, found.table, asked.target, others, here)


def _search_there(
    server: str, model: Path, asked: SearchOptions, table: TableMachine | None, here: SearchCommand
) -> None:
    """A service searches; the files are written here."""
    with Progress() as progress:
        there = remote_plan(server, model, asked, here.why_not, progress)
    if there.plan is None:
        assert there.error is not None
        _say_refusal(there.error)
        _say_remedies(there.error, there.why, as_json=here.as_json)
        raise typer.Exit(NO_PLAN_FITS)
    _deliver(there.plan, table, asked.target, there.others, here)


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
    plan: Plan, table: TableMachine | None, target: str, others: list[WhyNot], here: SearchCommand
) -> None:
    files = [] if here.output is None else _written(here.output, _writers(plan, table, target))
    from planner.requests.searches import precision_notes  # noqa: PLC0415

    first = precision_notes(plan)
    if here.as_json:
        from planner.requests.plan_json import dumps, found  # noqa: PLC0415

        print(dumps(found(plan, files, first) | other_ways.in_json(others)))
        return
    from cli.plan_text import plan_parts  # noqa: PLC0415
    from cli.text import tell  # noqa: PLC0415  brings in rich

    losses = target_losses(plan, target) if len(files) > 1 else ()
    tell(plan_parts(plan, files, first=first, losses=losses))
    other_ways.print_answers(others)


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

    Cut counts lay the mesh out in the order of the ranks, so they get a rank table in that order.
    """
    from exporters.errors import ExportError  # noqa: PLC0415
    from ir.dialects import TARGETS  # noqa: PLC0415
    from planner.requests.searches import plan_bytes  # noqa: PLC0415
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415

    writers: dict[str, Writer] = {"plan.json": writer_of(plan_bytes(plan))}
    if table is not None and TARGETS[target].cut_counts:
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
    from cli.text import page, show  # noqa: PLC0415

    with page(sys.stderr) as out:
        show((error.reason(),), out)


def _say_remedies(error: InfeasibleError, why: Infeasibility | None, *, as_json: bool) -> None:
    from cli.text import page, show  # noqa: PLC0415
    from planner.requests.plan_json import dumps, infeasible  # noqa: PLC0415

    with page(sys.stderr) as out:
        show(error.remedy(), out)
        for reason in () if why is None else why.reasons:
            if reason.kind != "memory":
                out.print(f"  reason: {reason.text}", soft_wrap=True)
    if as_json:
        told = {} if why is None else {"explanation": why.to_dict()}
        print(dumps(infeasible(error) | told))
