"""`planner mcp`: the planner as tools of the Model Context Protocol, for assistants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.command_options import SERVER
from cli.declared import command
from cli.errors import UserError
from planner.requests.options.option import Group, Option

EPILOG = """\b
Examples:
  planner mcp
  planner mcp --files models
  planner mcp --http --port 8401
  planner mcp --server http://planner.example:8400

\b
Tools: search, price, simulate, layouts, recipe, explain, compare, upload, plans. An editor starts
the first form and speaks over stdin and stdout. docs/service.md has the lines for its settings.

\b
Exit status: 0 ended by the client or a signal, 2 a fault in the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCommand:
    """Of `planner mcp`."""

    # fmt: off
    http: Annotated[bool, Option(
        group=Group.MACHINE, help="Listen on 127.0.0.1 (streamable HTTP, path /mcp) in place of "
        "stdin and stdout.",
    )] = False
    port: Annotated[int, Option(
        group=Group.MACHINE, value="N", least=0, most=65535,
        help="With --http; 0 takes a free one.",
    )] = 8401
    files: Annotated[Path | None, Option(
        group=Group.MODEL, value="DIR", usual="none",
        help="Folder whose files a client may name when it uploads.",
    )] = None
    data: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="DIR", usual="that of planner serve",
        help="Folder of the job store and of work in progress.",
    )] = None
    workers: Annotated[int, Option(
        group=Group.MACHINE, value="N", least=1, most=256, help="Jobs that run at once.",
    )] = 2
    server: Annotated[str | None, SERVER] = None
    # fmt: on


@command
def mcp(here: McpCommand) -> None:
    """Offer the planner to assistants: tools of the Model Context Protocol."""
    if here.files is not None and not here.files.is_dir():
        raise UserError(f"{here.files} is no folder", f"--files {here.files}", "name a folder")
    try:
        from service.door import serve_tools  # noqa: PLC0415  seconds of imports
    except ModuleNotFoundError as error:
        raise UserError(
            "the protocol's package is not installed", "planner mcp",
            "pip install 'parallel-planner[mcp]'",
        ) from error  # fmt: skip
    with _service(here) as url:
        token = os.environ.get("PLANNER_TOKEN")
        serve_tools(url, token, here.files, here.port if here.http else None)


@contextmanager
def _service(here: McpCommand) -> Iterator[str]:
    """The service that does the work: the one that is named, or one of this process."""
    if here.server is not None:
        yield here.server
        return
    from service.serving import served_here  # noqa: PLC0415
    from service.settings import LOOPBACK, Settings  # noqa: PLC0415

    folder = (here.data or Path(typer.get_app_dir("planner"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        database=f"sqlite:///{folder / 'planner.sqlite'}", data=folder, workers=here.workers,
        hosts=LOOPBACK,
    )  # fmt: skip
    with served_here(settings) as url:
        yield url
