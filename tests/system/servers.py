"""Real servers of `planner serve`: started, killed, started again; on 127.0.0.1 alone."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from onnx import parser

START_S = 60.0
MLP = """<ir_version: 10, opset_import: ["": 20]>
mlp (bfloat16[64, 256] x) => (bfloat16[64, 256] y)
<bfloat16[256, 1024] up = ["location": "w"], bfloat16[1024, 256] down = ["location": "w"]>
{
    hidden = MatMul(x, up)
    active = Relu(hidden)
    y = MatMul(active, down)
}
"""


def mlp_bytes() -> bytes:
    """Two products, without weights."""
    content: bytes = parser.parse_model(MLP).SerializeToString()
    return content


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Server:
    """One server process with its workers."""

    data: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.data / "server.log"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cli", "serve", "--port", str(self.port),
                   "--data", str(self.data), *self.options]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        """End the server as if its machine had lost power; its workers notice by themselves."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it politely."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(30)

    def workers(self) -> list[int]:
        """Process ids of workers and of the tasks below them."""
        own = descendants(self.pid)
        return [pid for pid in own if b"service.work.worker" in cmdline(pid)]

    def logged(self) -> list[dict[str, object]]:
        """Lines of the log."""
        found = []
        for line in self.log.read_text().splitlines():
            if re.match(r'\{"time"', line):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue  # two processes wrote at once as one was killed
        return found


def descendants(pid: int) -> list[int]:
    """All processes below one, in the order of their birth."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        own = children.get(left.pop(), [])
        found += own
        left += own
    return sorted(found)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(data: Path, *options: str) -> Iterator[Server]:
    """A server, until the context ends."""
    server = Server(data, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
