"""`planner serve`: the planner as a service, with a page."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.declared import command
from cli.errors import UserError
from cli.files import text_of
from planner.requests.option_texts import memory_bytes, time_limit_s
from planner.requests.options.option import Group, Option

SHORTEST_TOKEN = 16
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

EPILOG = """\b
Examples:
  planner serve
  planner serve --port 8400 --data /var/lib/planner --workers 4
  planner serve --host 0.0.0.0 --token-file tokens.txt \\
      --database postgresql+psycopg://planner@db/planner

\b
A line of the token file is a name and a token of 16 characters or more: alice 0f3c...
What one name has, no other sees. On 127.0.0.1 no token is needed unless a file is given.

\b
Exit status: 0 ended by a signal, 2 a fault in the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeCommand:
    """Of `planner serve`."""

    # fmt: off
    host: Annotated[str, Option(
        group=Group.MACHINE, value="ADDRESS", help="Address to listen on.",
    )] = "127.0.0.1"
    port: Annotated[int, Option(
        group=Group.MACHINE, value="N", least=0, most=65535, help="Port; 0 takes a free one.",
    )] = 8400
    data: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="DIR", usual="of the user's application data",
        help="Folder of the job store and of work in progress.",
    )] = None
    workers: Annotated[int, Option(
        group=Group.MACHINE, value="N", least=0, most=256,
        help="Jobs that run at once, and one short one more; 0 only accepts them.",
    )] = 2
    token_file: Annotated[Path | None, Option(
        group=Group.MACHINE, value="FILE",
        help="Names and their tokens, one pair on each line; # begins a comment.",
    )] = None
    database: Annotated[str | None, Option(
        group=Group.OUTPUT, value="URL", variable="PLANNER_DATABASE",
        usual="SQLite in the data folder",
        help="Where jobs and results are kept: sqlite:///FILE or postgresql+psycopg://...",
    )] = None
    upload_limit: Annotated[str, Option(
        group=Group.MACHINE, value="SIZE", help="Largest file of a model.",
    )] = "64MiB"
    job_memory: Annotated[str, Option(
        group=Group.MACHINE, value="SIZE", help="Memory that one job may take.",
    )] = "8GiB"
    job_time: Annotated[float, Option(
        group=Group.MACHINE, value="SECONDS", unit="seconds", least=1,
        help="Time that one job may take.",
    )] = 900.0
    # fmt: on


@command
def serve(here: ServeCommand) -> None:
    """Serve the planner over HTTP: jobs in the background, their results kept, and a page."""
    host, port = here.host, here.port
    tokens = {} if here.token_file is None else read_tokens(here.token_file)
    if not tokens and not _is_loopback(host):
        raise UserError(
            "whoever reaches this address could ask anything",
            f"--host {host}",
            "name tokens with --token-file, or listen on 127.0.0.1",
        )
    from service.serving import serve as run  # noqa: PLC0415  seconds of imports
    from service.settings import LOOPBACK, Limits, Settings  # noqa: PLC0415

    folder = (here.data or Path(typer.get_app_dir("planner"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    limits = Limits(
        upload_bytes=_bytes(here.upload_limit), job_bytes=_bytes(here.job_memory),
        job_s=time_limit_s(here.job_time),
    )  # fmt: skip
    settings = Settings(
        database=here.database or f"sqlite:///{folder / 'planner.sqlite'}", data=folder,
        workers=here.workers, tokens=tokens, limits=limits,
        hosts=(*LOOPBACK, host.lower()) if _is_loopback(host) else (),
    )  # fmt: skip
    run(settings, host, port)


def _bytes(text: str) -> int:
    found = memory_bytes(text)
    assert found is not None
    return int(found)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_tokens(file: Path) -> dict[str, str]:
    """Names by the SHA-256 of their tokens.

    Raises:
        UserError: the file cannot be read, or a line is no name and token.
    """
    where = f"--token-file {file}"
    lines = text_of(file, where, "name a text file").splitlines()
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or len(words[1]) < SHORTEST_TOKEN:
            raise UserError(
                f"line {number} is no name and token", where,
                f"write such as: alice TOKEN, of {SHORTEST_TOKEN} characters or more",
            )  # fmt: skip
        found[hashlib.sha256(words[1].encode()).hexdigest()] = words[0]
    if not found:
        raise UserError(f"{file} has no tokens", where, "write such as: alice TOKEN")
    return found
