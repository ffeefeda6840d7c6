"""The server's worker processes: started, started again when they die, stopped with the server."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import asdict

from service.settings import Settings
from service.work.worker import Orders

STOP_S = 10.0
PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
"""Between looks at workers that die again and again."""
EXPRESS = ("model", "cluster", "plan", "export", "simulation")
"""Short jobs. One worker more takes only these, so that they never wait for long searches."""
LOG = logging.getLogger("service.supervisor")


class Supervisor:
    """Keeps so many workers alive."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.data / "work"
        self._workers: list[tuple[tuple[str, ...], subprocess.Popen[str]]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Start all workers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._tidy()
        if self._settings.workers:
            kinds = [()] * self._settings.workers + [EXPRESS]
            self._workers = [(each, self._started(each)) for each in kinds]
        self._thread.start()

    def stop(self) -> None:
        """Let the workers give their jobs back, and end them."""
        self._stopping.set()
        self._thread.join()
        for _, worker in self._workers:
            worker.terminate()
        for _, worker in self._workers:
            try:
                worker.wait(STOP_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _tidy(self) -> None:
        """Remove folders of tasks whose workers were killed long ago."""
        before = time.time() - 2 * self._settings.limits.job_s
        for folder in self._folder.glob("job-*"):
            if folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)

    def _watch(self) -> None:
        pause_s = PAUSE_S
        while not self._stopping.wait(pause_s):
            lost = 0
            for index, (kinds, worker) in enumerate(self._workers):
                status = worker.poll()
                if status is not None:
                    lost += 1
                    LOG.warning("worker lost", extra={"pid": worker.pid, "status": status})
                    self._workers[index] = (kinds, self._started(kinds))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if lost else PAUSE_S

    def _started(self, kinds: tuple[str, ...]) -> subprocess.Popen[str]:
        orders = Orders(
            database=self._settings.database,
            name=f"{socket.gethostname()[:24]}-{uuid.uuid4().hex[:16]}",
            server=os.getpid(),
            kinds=kinds,
            folder=str(self._folder),
            limits=self._settings.limits,
            nice=self._settings.nice,
        )
        command = [sys.executable, "-P", "-m", "parallel_planner", "service.work.worker"]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)  # noqa: S603
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(asdict(orders)) + "\n")
        worker.stdin.close()
        return worker
