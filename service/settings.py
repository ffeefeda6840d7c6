"""What a service is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

LOCAL_OWNER = "local"
"""Who asks where no tokens are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one asker, one job and all together may take."""

    upload_bytes: int = 64 * 2**20
    """Of one model or cluster file."""
    body_bytes: int = 2**20
    """Of any other request."""
    body_s: float = 60.0
    """How long a request may take to arrive."""
    kept_bytes: int = 8 * 2**30
    """Of all that an owner keeps."""
    uploads_at_once: int = 4
    """Of one owner; further ones are refused."""
    uploads: int = 16
    """Of all owners."""
    waiting_jobs: int = 1000
    """Of one owner."""
    requests_per_minute: int = 30_000
    """Of one owner."""
    wrong_tokens_per_minute: int = 30
    """From one address; further requests from there are refused unread."""
    streams: int = 256
    """Event streams that are open, of all owners."""
    streams_per_owner: int = 32
    job_s: float = 900.0
    """Wall-clock time of one job."""
    check_s: float = 120.0
    """The same of a job that reads an upload."""
    job_bytes: int = 8 * 2**30
    """Memory of one job."""
    check_bytes: int = 768 * 2**20
    """The same of a job that reads an upload."""
    attempts: int = 20
    """Workers that may be lost over one job."""
    crashes: int = 5
    """Times that a job may end its own process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A service."""

    database: str
    """URL: SQLite or PostgreSQL."""
    data: Path
    """Folder of the database, if it is SQLite, and of the workers' own folders."""
    workers: int = 2
    """Processes for jobs; 0 leaves the work to other servers on the same database."""
    tokens: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Owners by the SHA-256 of their tokens; empty asks for no token."""
    hosts: tuple[str, ...] = ()
    """Names by which requests may call the server, without port; empty allows all."""
    limits: Limits = field(default_factory=Limits)
    nice: int = 10
    """How much the workers give way to the server."""


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of the own machine."""
