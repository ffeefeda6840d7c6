"""The server process."""

from __future__ import annotations

import logging
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from service.app import create_app
from service.logs import log_as_json
from service.page import missing_page, page_folder
from service.protocol import MOST_CONNECTIONS, PatientProtocol
from service.settings import LOOPBACK, Settings

KEEP_ALIVE_S = 15
SHUTDOWN_S = 5
SWITCH_S = 0.0005
"""A thread that works long gives way after so much: a short answer waits for several of them."""
LOG = logging.getLogger("service.server")
_POLL_S = 0.02


class _Server(uvicorn.Server):
    """Says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                name = f"[{host}]" if ":" in host else host
                LOG.info("serving", extra={"url": f"http://{name}:{port}"})


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until a signal ends it."""
    log_as_json(logging.INFO)
    _raise_open_files()
    sys.setswitchinterval(SWITCH_S)
    if page_folder() is None:
        LOG.warning(missing_page())
    _Server(_config(create_app(settings), host, port)).run()


@contextmanager
def served_here(settings: Settings) -> Iterator[str]:
    """A service of the own machine in a thread of this process; its URL."""
    server = _Server(_config(create_app(settings), LOOPBACK[0], 0))
    with socket.socket() as listening:
        listening.bind((LOOPBACK[0], 0))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(_POLL_S)
        try:
            yield f"http://{LOOPBACK[0]}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def serve_app(app: ASGIApp, host: str, port: int) -> None:
    """Serve any application with the same limits until a signal ends it."""
    _Server(_config(app, host, port)).run()


def _config(app: ASGIApp, host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        app, host=host, port=port, http=PatientProtocol, ws="none",
        log_config=None, access_log=False, proxy_headers=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=SHUTDOWN_S, lifespan="on",
    )  # fmt: skip


def _raise_open_files() -> None:
    """Room for all connections, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + 512
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
