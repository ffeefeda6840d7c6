"""The tools of `service.tools` over stdin and stdout, or over HTTP."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import anyio
from mcp.server.stdio import stdio_server

from service.client import Planner
from service.logs import log_as_json
from service.serving import serve_app
from service.settings import LOOPBACK
from service.tools import Door, tool_server

__all__ = ["serve_tools"]

MOST_BODY = 2**23
"""Bytes of a request over HTTP."""


def serve_tools(url: str, token: str | None, folder: Path | None, port: int | None) -> None:
    """Serve until the client or a signal ends it.

    Args:
        url: of the service that does the work.
        token: of a client that brings none, as over stdin.
        folder: whose files a client may name.
        port: to listen on, on the own machine alone; None for stdin and stdout.
    """
    log_as_json(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    clients = cache(lambda own: Planner(url, own))
    server = tool_server(Door(lambda own: clients(own or token), folder))
    if port is not None:
        app = server.streamable_http_app(max_request_body_size=MOST_BODY, host=LOOPBACK[0])
        serve_app(app, LOOPBACK[0], port)
        return

    async def speak() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(speak)
