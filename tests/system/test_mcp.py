"""`planner mcp` as a process, over stdin and over HTTP, asked by the protocol's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

COMMAND = (sys.executable, "-m", "cli", "mcp")
ASKED = {"model": "llama3-8b", "options": {"devices": 8, "batch": 64, "cluster": "h100", "top": 1}}


def ranked(server: Any) -> dict[str, Any]:
    """The layouts that a server of the protocol finds."""

    said: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)

    async def talk() -> dict[str, Any]:
        async with Client(server) as client:
            found = await client.call_tool("layouts", ASKED, progress_callback=hear)
            assert not found.is_error, found.content
            assert "choosing the fastest layouts" in said
            result: dict[str, Any] = found.structured_content
            return result

    return anyio.run(talk)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    words = [*COMMAND, "--http", "--port", "0", "--data", str(tmp_path / "http")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        urls = [json.loads(process.stderr.readline()) for _ in range(6)]
        serving = [each["url"] for each in urls if each.get("message") == "serving"]
        yield f"{serving[-1]}/mcp"
        process.terminate()


def test_stdin_and_http_give_the_same(tmp_path: Path, url: str) -> None:
    words = [*COMMAND[1:], "--data", str(tmp_path / "stdio")]
    near = StdioServerParameters(command=COMMAND[0], args=words, env=dict(os.environ))
    found = ranked(near)
    assert found["best"]
    assert ranked(url) == found
