"""The database and its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url

from planner.requests.errors import UserError
from service.store.tables import metadata

BUSY_MS = 30_000
"""How long a writer waits for another one, in SQLite."""
_POOL = {"pool_size": 8, "max_overflow": 40, "pool_timeout": 30}
_WRITES = "planner_writes"


def open_engine(url: str) -> Engine:
    """The database of this URL, with its tables.

    Raises:
        UserError: the URL is none of SQLite or PostgreSQL.
    """
    backend = make_url(url).get_backend_name()
    if backend == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_MS / 1000}, **_POOL)
        _prepare_sqlite(engine)
    elif backend == "postgresql":
        engine = create_engine(url, pool_pre_ping=True, **_POOL)
    else:
        raise UserError(
            f"no job store for {backend}",
            "--database",
            "use sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME",
        )
    with writing(engine) as connection:
        metadata.create_all(connection)
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes something: all of it or nothing."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state and changes nothing."""
    with engine.connect() as connection:
        yield connection


def add_once(connection: Connection, table: Table, **values: object) -> None:
    """Add a row, unless one with its key is there."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert(table).values(**values).on_conflict_do_nothing())


def _prepare_sqlite(engine: Engine) -> None:
    """Write-ahead log, so that readers never wait; a commit is on the disk when it returns.

    Writers take their lock at the beginning: a transaction that first reads and then writes could
    otherwise be refused in the middle.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
