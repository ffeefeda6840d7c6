"""A sweep with processes of its own leaves none behind, whoever is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.client import Planner
from tests.system.servers import Server, cmdline, descendants, running

MODEL = Path("data/models/llama3_8b.onnx.gz")
PATIENCE_S = 60.0


def searching(server: Server) -> list[int]:
    """Processes that search for points of sweeps."""
    return [pid for pid in descendants(server.pid) if b"spawn_main" in cmdline(pid)]


def kill_workers(server: Server, _: Planner, __: str) -> None:
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)


def cancel(_: Server, planner: Planner, job: str) -> None:
    planner.cancel(job)


@pytest.mark.parametrize("end", [kill_workers, cancel])
def test_processes_of_a_sweep_end_with_it(
    end: Callable[[Server, Planner, str], None], tmp_path: Path
) -> None:
    with running(tmp_path, "--workers", "1") as server, Planner(server.url) as planner:
        model = planner.upload_model(MODEL)
        body = {
            "model": model, "options": {"batch": 64}, "workers": 2,
            "sweep": {"devices": "8,16,32,64", "vary": ["bandwidth=0.5:2:50"]},
        }  # fmt: skip
        job = planner.submit("sweeps", body)
        until_s = time.monotonic() + PATIENCE_S
        while len(found := searching(server)) < 2:
            assert time.monotonic() < until_s
            time.sleep(0.2)
        end(server, planner, job)
        while any(b"spawn_main" in cmdline(pid) for pid in found):
            assert time.monotonic() < until_s
            time.sleep(0.2)
        planner.cancel(job)
