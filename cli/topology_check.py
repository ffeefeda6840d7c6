"""What `planner topology check` finds in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.errors import UserError
from cli.files import text_of
from cli.machine_files import machine_text
from planner.requests.machines import is_rank_table
from planner.requests.sources import Document
from topology.errors import ClusterError, Violation
from topology.loading import check_machine

if TYPE_CHECKING:
    from topology.rank_tables import RankTable
    from topology.rank_tables.card_answers import CardAnswer


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings in one file."""

    name: str
    kind: str
    errors: tuple[Violation, ...]
    warnings: tuple[Violation, ...]
    product: str | None = None
    inferred: str | None = None
    """What the product of a rank table was inferred from."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"status": "error" if self.errors else "ok"} | asdict(self)


@dataclass(frozen=True, slots=True)
class CardFiles:
    """Files in which servers tell of their cards, as options name them."""

    confs: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()


def checked(path: Path, product: str | None, files: CardFiles) -> Verdict:
    """All findings in a cluster file or a rank table.

    Raises:
        UserError: a file cannot be read, or options of rank tables are given for a cluster file.
        ClusterError: a file of a server has no name of one.
    """
    text = machine_text(path, str(path))
    asked = product is not None or files.confs or files.logs
    if asked or is_rank_table(Document(path.name, text)):
        return _rank_table(path, text, product, files)
    return _cluster(path, text)


def _cluster(path: Path, text: str) -> Verdict:
    try:
        _, found = check_machine(text, str(path))
    except ClusterError as fault:
        found = [Violation("E_TEXT", fault.where, f"{fault.what} ({fault.fix})")]
    errors = tuple(each for each in found if each.code.startswith("E_"))
    warnings = tuple(each for each in found if each.code.startswith("W_"))
    return Verdict(path.name, "cluster file", errors, warnings)


def _rank_table(path: Path, text: str, product: str | None, files: CardFiles) -> Verdict:
    from topology.rank_tables import check_rank_table  # noqa: PLC0415

    if "schema_version" in text:
        raise UserError(
            f"{path.name} is a cluster file, which has no product and no cards of servers",
            f"--product {product}" if product is not None else "--hccn-conf or --hccn-log",
            "leave the option out",
        )
    report = check_rank_table(text, product)
    if report.table is not None and (files.confs or files.logs):
        report = check_rank_table(text, product, _answers(files, report.table))
    return Verdict(
        name=path.name,
        kind="rank table",
        errors=report.errors,
        warnings=report.warnings,
        product=str(report.product),
        inferred=report.inferred,
    )


def _answers(files: CardFiles, table: RankTable) -> list[CardAnswer]:
    """What the servers of a table say."""
    from topology.rank_tables.card_answers import (  # noqa: PLC0415
        answers_of_conf,
        answers_of_transcript,
    )

    only = table.servers[0].server_id if len(table.servers) == 1 else None
    out: list[CardAnswer] = []
    for given in files.confs:
        where = f"--hccn-conf {given}"
        server, path = _named(given, only)
        if server is None:
            raise UserError("it names no server", where, "give SERVER=FILE")
        out += answers_of_conf(text_of(path, where, "name an hccn.conf"), server)
    for given in files.logs:
        server, path = _named(given, only)
        text = text_of(path, f"--hccn-log {given}", "name what hccn_tool printed")
        out += answers_of_transcript(text, server)
    return out


def _named(given: str, only: str | None) -> tuple[str | None, Path]:
    """The server and the file of `SERVER=FILE`, or of a file of the only server."""
    server, equals, path = given.partition("=")
    return (server, Path(path)) if equals and server else (only, Path(given))
