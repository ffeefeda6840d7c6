"""The tables of the service. They hold the same in SQLite and in PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()

contents = Table(
    "contents",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""Bytes by their SHA-256."""

items = Table(
    "items",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("id", String(48), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(200), nullable=False),
    Column("digest", String(64), ForeignKey("contents.digest"), nullable=False),
    Column("nbytes", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("facts", Text, nullable=False),
    Index("items_by_kind", "owner", "kind", "created_at"),
)
"""What an owner has: models, clusters, plans, traces, exported files."""

jobs = Table(
    "jobs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(48), nullable=False, unique=True),
    Column("owner", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("key", String(64), nullable=False),
    Column("request", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("cancelled", Boolean, nullable=False, default=False),
    Column("cached", Boolean, nullable=False, default=False),
    Column("worker", String(64)),
    Column("attempt", Integer, nullable=False, default=0),
    Column("crashes", Integer, nullable=False, default=0),
    Column("lease_until", Double),
    Column("submitted_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("result", Text),
    Column("message", Text),
    Index("jobs_by_owner", "owner", "number"),
    Index(
        "jobs_to_do",
        "state",
        "priority",
        "number",
        sqlite_where=text("state IN ('queued', 'running')"),
        postgresql_where=text("state IN ('queued', 'running')"),
    ),
)
"""Work that was accepted. A row changes from `queued` to `running` to one of the last states."""

events = Table(
    "events",
    metadata,
    Column("job", String(48), ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", Text, nullable=False),
)
"""Progress of jobs, in order."""

views = Table(
    "views",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("item", String(48), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Views of plans that were made with them."""

answers = Table(
    "answers",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("result", Text, nullable=False),
)
"""Results by what was asked."""
