"""How a service bears up: readers while searches run, and a long queue.

    python -m benchmarks.service_load --clients 200 --seconds 60 --jobs 500

Every client reads once a second, a different one of the plan, its summary, the lists and a job. The
time of a read is from the request to the last byte. All traffic goes to 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from tests.system.servers import Server, mlp_bytes

PAUSE_S = 1.0
LONGEST_S = 900.0
"""How long one job is waited for."""
GOLDEN = 0.6180339887498949
"""Multiples of it are spread evenly over an interval, however many there are."""
READERS = 4
"""Processes that the clients are spread over, so that they do not wait for one another."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Times of all reads."""

    seconds: tuple[float, ...]
    failures: int

    def told(self) -> str:
        """The figures that count, in milliseconds."""
        values = np.array(self.seconds) * 1e3
        parts = [f"p{q} {np.percentile(values, q):.1f} ms" for q in (50, 95, 99)]
        return f"{len(values)} reads, {self.failures} failed: {', '.join(parts)}"


def searched(client: httpx.Client, model: str, **options: object) -> str:
    """A search that was accepted."""
    answer = client.post("/v1/searches", json={"model": model, "options": options})
    answer.raise_for_status()
    return str(answer.json()["job"])


def ended(client: httpx.Client, job: str) -> dict[str, object]:
    """A job, once it is over.

    Raises:
        TimeoutError: it takes longer than anybody waits.
    """
    until_s = time.monotonic() + LONGEST_S
    while time.monotonic() < until_s:
        found: dict[str, object] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] not in {"queued", "running"}:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"job {job} takes more than {LONGEST_S:g} s")


async def reader(
    url: str, paths: list[str], offset: int, until_s: float, trust: ssl.SSLContext
) -> list[float]:
    """The times of one client's reads; a negative one failed."""
    times: list[float] = []
    await asyncio.sleep(PAUSE_S * (offset * GOLDEN % 1.0))
    async with httpx.AsyncClient(base_url=url, timeout=30, verify=trust) as client:
        for path in itertools.islice(itertools.cycle(paths), offset, None):
            if time.monotonic() > until_s:
                return times
            began_s = time.monotonic()
            try:
                good = (await client.get(path)).status_code == 200
            except httpx.HTTPError:
                good = False
            took_s = time.monotonic() - began_s
            times.append(took_s if good else -took_s)
            await asyncio.sleep(max(0.0, PAUSE_S - took_s))
    return times


async def readers(url: str, paths: list[str], clients: range, seconds: float) -> list[float]:
    """The times of the reads of some of the clients, by their numbers."""
    trust = (
        ssl.create_default_context()
    )  # 20 ms for each client otherwise, which all would wait for
    until_s = time.monotonic() + seconds
    found = await asyncio.gather(
        *(reader(url, paths, number, until_s, trust) for number in clients)
    )
    return [each for own in found for each in own]


def read_by_all(url: str, paths: list[str], clients: int, seconds: float) -> Reads:
    """Reads of clients in several processes."""
    share = clients // READERS
    command = [sys.executable, "-m", "benchmarks.service_load", "--read", url, *paths]
    each = [*command, "--clients", str(share), "--seconds", str(seconds), "--first"]
    processes = [
        subprocess.Popen([*each, str(share * number)], stdout=subprocess.PIPE, text=True)
        for number in range(READERS)
    ]
    lines = [line for process in processes for line in process.communicate()[0].split()]
    times = [float(line) for line in lines]
    return Reads(tuple(t for t in times if t >= 0), sum(t < 0 for t in times))


def reads_while_searching(server: Server, model: Path, clients: int, seconds: float) -> None:
    """Readers while two searches run without a pause."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        uploaded = client.post(
            "/v1/models", params={"name": model.name}, content=model.read_bytes()
        ).json()["id"]
        first = searched(client, uploaded, devices=16, batch=64)
        plan = ended(client, first)["result"]
        assert isinstance(plan, dict)
        plan_path = f"/v1/plans/{plan['plan']}"
        jobs = [searched(client, uploaded, devices=16, batch=64 * n) for n in range(2, 200)]
        paths = [plan_path, f"{plan_path}/views/summary", "/v1/plans", f"/v1/jobs/{first}",
                 "/v1/models", f"{plan_path}/views/graph"]  # fmt: skip
        for path in paths:
            client.get(path).raise_for_status()
        found = read_by_all(server.url, paths, clients, seconds)
        running = len(client.get("/v1/jobs", params={"state": "running"}).json())
        done = len(client.get("/v1/jobs", params={"state": "done", "limit": 1000}).json())
        print(f"{clients} clients for {seconds:g} s: {found.told()}; {running} searches ran at the "
              f"end, {done} jobs were done")  # fmt: skip
        for job in jobs:
            client.delete(f"/v1/jobs/{job}")


def long_queue(server: Server, count: int) -> None:
    """Many small jobs."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        uploaded = client.post(
            "/v1/models", params={"name": "mlp.onnx"}, content=mlp_bytes()
        ).json()["id"]
        began_s = time.monotonic()
        jobs = [searched(client, uploaded, devices=8, batch=64 * n) for n in range(1, count + 1)]
        accepted_s = time.monotonic() - began_s
        states = [ended(client, job)["state"] for job in jobs]
        print(f"{count} jobs: accepted in {accepted_s:.1f} s, {states.count('done')} done after "
              f"{time.monotonic() - began_s:.1f} s")  # fmt: skip


def main() -> None:
    """Read arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--model", type=Path, default=Path("data/models/llama3_8b.onnx.gz"))
    parser.add_argument("--database", default=None)
    parser.add_argument("--read", nargs="+", help="be one of the readers: URL and paths")
    parser.add_argument("--first", type=int, default=0, help="number of the first client")
    given = parser.parse_args()
    if given.read:
        url, *paths = given.read
        clients = range(given.first, given.first + given.clients)
        found = asyncio.run(readers(url, paths, clients, given.seconds))
        print(" ".join(f"{each:.6f}" for each in found))
        return
    options = () if given.database is None else ("--database", given.database)
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), ("--workers", "2", *options))
        server.start()
        try:
            reads_while_searching(server, given.model, given.clients, given.seconds)
            long_queue(server, given.jobs)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
