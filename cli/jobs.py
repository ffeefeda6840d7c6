"""`planner jobs`: what a service has accepted, how far it is, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.command_options import Output, ServedCommand
from cli.declared import Grouped, command
from cli.errors import UserError
from cli.files import write_files
from cli.options import Argument
from cli.remote import connected
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from report.tables import Table
    from service.client import Planner

FAILED = 1
ID_LETTERS = 34
EPILOG = """\b
Examples:
  planner jobs list --server http://127.0.0.1:8400
  planner jobs watch j_1f0c --server http://127.0.0.1:8400
  planner jobs fetch j_1f0c -o plan
  planner jobs cancel j_1f0c"""

app = typer.Typer(
    help="Jobs of a service: list, watch, fetch and cancel them.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
JobId = Annotated[str, Argument(value="JOB", help="Id of a job, or how it begins, such as j_1f0c.")]


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobs(ServedCommand):
    """Of `planner jobs list`."""

    state: Annotated[str | None, Option(
        group=Group.SEARCH, choices=("queued", "running", "done", "failed", "cancelled"),
        noun="state", usual="any", help="Those in this state alone.",
    )] = None
    limit: Annotated[int, Option(
        group=Group.SEARCH, value="N", least=1, most=1000, help="The newest so many.",
    )] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedJob(ServedCommand):
    """Of `planner jobs fetch`."""

    output: Annotated[Path, Output(
        value="DIR", help="Folder for the files.",
    )]
# fmt: on


@app.command("list", cls=Grouped)
@command
def list_jobs(here: ListedJobs) -> None:
    """List the newest jobs."""
    with connected(_named(here.server)) as planner:
        found = planner.jobs(here.state, here.limit)
    if here.as_json:
        print(json.dumps({"status": "ok", "jobs": found}, indent=1))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell((_table(found),))


@app.command(cls=Grouped)
@command
def watch(job: JobId, here: ServedCommand) -> None:
    """Follow a job until it is over; what is asked with Ctrl-C is only to look no longer."""
    with connected(_named(here.server)) as planner:
        found = _ended(planner, _full(planner, job))
    _print(found, as_json=here.as_json)


@app.command(cls=Grouped)
@command
def fetch(job: JobId, here: FetchedJob) -> None:
    """Write what came of a job: the plan, the file of an export, and result.json."""
    with connected(_named(here.server)) as planner:
        found = _ended(planner, _full(planner, job))
        files = _files(planner, found)
    if found["state"] == "done":
        write_files(here.output, {name: _writer(content) for name, content in files.items()})
        found = {**found, "files": [str(here.output / name) for name in files]}
    _print(found, as_json=here.as_json)


@app.command(cls=Grouped)
@command
def cancel(job: JobId, here: ServedCommand) -> None:
    """End a job: at once if it waits, within seconds if it runs."""
    with connected(_named(here.server)) as planner:
        found = planner.cancel(_full(planner, job))
    if here.as_json:
        print(json.dumps({"status": "ok", **found}, indent=1))
    else:
        over = found["state"] in {"done", "failed", "cancelled"}
        print(f"{found['job']}: {found['state'] if over else 'ends within seconds'}")


def _named(server: str | None) -> str:
    if server is None:
        raise UserError("jobs are those of a service", "--server", "name it, or set PLANNER_SERVER")
    return server


def _full(planner: Planner, job: str) -> str:
    """The id that begins so.

    Raises:
        UserError: none does, or several do.
    """
    if len(job) == ID_LETTERS:
        return job
    found = [each["job"] for each in planner.jobs(None, 1000) if each["job"].startswith(job)]
    if len(found) != 1:
        what = f"{len(found) or 'no'} jobs begin with {job[:80]!r}"
        raise UserError(what, "JOB", "`planner jobs list` has the ids")
    return str(found[0])


def _ended(planner: Planner, job: str) -> dict[str, Any]:
    """The job once it is over, whatever came of it."""
    from cli.progress import Progress  # noqa: PLC0415
    from service.client import ServiceError  # noqa: PLC0415  brings in httpx

    with Progress() as progress:
        try:
            planner.wait(job, lambda event: progress(str(event["text"])))
        except ServiceError as error:
            if error.status:
                raise
    return planner.job(job)


def _files(planner: Planner, job: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a result by their names here."""
    result = job["result"] or {}
    files = {"result.json": json.dumps(result, indent=1).encode()}
    if result.get("plan") and job["kind"] == "search":
        files["plan.json"] = planner.plan(result["plan"])
    for key, name in (("archive", "sweep.zip"), ("plot", "plot"), ("export", "export")):
        if result.get(key):
            files[Path(str(result.get("name", name))).name] = planner.file(result[key])
    if result.get("trace"):
        files["trace.json"] = planner.trace(result["trace"])
    return files


def _writer(content: bytes) -> Any:
    return lambda path: path.write_bytes(content)


def _print(job: Mapping[str, Any], *, as_json: bool) -> None:
    """How a job ended; one that failed ends the command with 1."""
    is_done = job["state"] == "done"
    if as_json:
        print(json.dumps({"status": "ok" if is_done else "error", **job}, indent=1))
    else:
        print(f"{job['job']}: {job['kind']} {job['state']}")
        if job["message"]:
            print(job["message"])
        for path in job.get("files", ()):
            print(f"  {path}")
    if not is_done:
        raise typer.Exit(FAILED)


def _table(jobs: list[dict[str, Any]]) -> Table:
    from report.tables import Table, Unit  # noqa: PLC0415

    number, seconds = Unit.NUMBER, Unit.SECONDS
    columns = (
        "job", "kind", "model", "state", ("devices", number), ("step", seconds),
        ("duration", seconds),
    )  # fmt: skip
    return Table.of("Jobs", columns, [_row(job) for job in jobs])


def _row(job: Mapping[str, Any]) -> tuple[object, ...]:
    request, result = job["request"], job["result"] or {}
    about = str(request.get("model") or request.get("plan") or request.get("cluster") or "")
    began, ended = job["started_at"], job["finished_at"] or time.time()
    return (
        job["job"], job["kind"], job["names"].get(about, about), job["state"],
        request.get("options", {}).get("devices") or "", result.get("step_time_s") or "",
        ended - began if began else "",
    )  # fmt: skip
