"""Plans on real numbers: as many processes of this machine as they have devices."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from executors.dtensor.tasks import Left, RankTask, read_left, write_arrays, write_task
from executors.host import HostFacts
from executors.measured import Measured
from executors.placement import Array, Spread, disagreement, whole
from executors.reference import mesh_of
from ir.plan import Plan
from ir.plan_file import plan_to_json

SHOWN_CHARACTERS = 2000
"""Of what a process that died wrote last."""
_MEASURING = {"torch": ("executors.dtensor.measure", 0), "jax": ("executors.xla.measure", 1)}
"""What runs in the processes, and how many there are; 0 for as many as devices."""
_NO_MEMORY = ("OutOfMemoryError", "not enough memory", "MemoryError", "out of memory")


class ProcessError(RuntimeError):
    """A process died, or did not end in time; the message says which and what it wrote."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the ranks of one plan ended with."""

    outputs: dict[str, Array] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    disagreement: dict[str, float] = field(default_factory=dict)
    """For each output the largest difference between ranks that should hold the same."""


def run_tasks(tasks: Sequence[RankTask], timeout_s: float = 1800.0) -> list[Found]:
    """Run plans of the same number of devices, one after the other, in as many processes.

    Raises:
        ProcessError: a process died or did not end in time.
    """
    (size,) = {task.plan.devices for task in tasks}
    with tempfile.TemporaryDirectory(prefix="dtensor") as name:
        folder = Path(name)
        for number, task in enumerate(tasks):
            write_task(task, folder / str(number))
        spawn("executors.dtensor.run", folder, size, timeout_s)
        return [_found(task.plan, folder / str(number)) for number, task in enumerate(tasks)]


def run_measured(
    plan: Plan, steps: int, seed: int, timeout_s: float, fixed: Mapping[str, Array] | None = None,
    backend: str = "torch",
) -> Measured:  # fmt: skip
    """Train a plan for some steps on random numbers, on processes of this machine; JAX has all
    devices in one.

    Args:
        plan: the plan.
        steps: how many are measured.
        seed: of the random numbers.
        timeout_s: most that all of it may take.
        fixed: numbers of constants and buffers that the model fixes; others are random too.
        backend: `torch` or `jax`.

    Raises:
        ProcessError: a process died, had too little memory or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="measured") as name:
        folder = Path(name)
        (folder / "plan.json").write_text(plan_to_json(plan))
        (folder / "options.json").write_text(json.dumps({"steps": steps, "seed": seed}))
        write_arrays(folder / "fixed.npz", fixed or {})
        module, size = _MEASURING[backend]
        spawn(module, folder, size or plan.devices, timeout_s)
        return Measured.from_record(json.loads((folder / "measured.json").read_text()))


def measured_host(size: int, timeout_s: float) -> HostFacts:
    """Measure this machine with so many processes.

    Raises:
        ProcessError: a process died or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="host") as name:
        folder = Path(name)
        spawn("executors.dtensor.host_bench", folder, size, timeout_s)
        return HostFacts.from_record(json.loads((folder / "host.json").read_text()))


def spawn(module: str, folder: Path, size: int, timeout_s: float) -> None:
    """Start a module of ours on all ranks and wait; the first that dies ends the others.

    Raises:
        ProcessError: a process died or did not end in time.
    """
    command = [sys.executable, "-m", "parallel_planner", module]
    command += [str(folder), "--size", str(size)]
    logs = [folder / f"log{rank}.txt" for rank in range(size)]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for rank, log in enumerate(logs):
            with log.open("wb") as file:
                each = [*command, "--rank", str(rank)]
                running.append(
                    subprocess.Popen(each, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603
                )
        _wait(running, logs, time.monotonic() + timeout_s)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()


def _wait(running: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], end_s: float) -> None:
    while any(process.poll() is None for process in running):
        for rank, process in enumerate(running):
            if process.poll():
                raise _death(rank, _status(process.returncode, logs[rank]), logs[rank])
        if time.monotonic() > end_s:
            late = next(rank for rank, p in enumerate(running) if p.poll() is None)
            raise _death(late, "did not end in time", logs[late])
        time.sleep(0.05)
    for rank, process in enumerate(running):
        if process.returncode:
            raise _death(rank, _status(process.returncode, logs[rank]), logs[rank])


def _status(code: int, log: Path) -> str:
    """How a process ended."""
    text = log.read_text(errors="replace")
    if code == -signal.SIGKILL or any(mark in text for mark in _NO_MEMORY):
        return "had too little memory"
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"


def _death(rank: int, what: str, log: Path) -> ProcessError:
    text = log.read_text(errors="replace")[-SHOWN_CHARACTERS:].strip()
    return ProcessError(f"the process of rank {rank} {what}\n{text}")


def _found(plan: Plan, folder: Path) -> Found:
    ranks = [read_left(folder, rank) for rank in range(plan.devices)]
    not_run = {name: why for _, missing in reversed(ranks) for name, why in missing.items()}
    names = [n for n in ranks[0][0] if all(n in left for left, _ in ranks)]
    out = Found(not_run=not_run)
    for name in names:
        spread = _spread(plan, [left[name] for left, _ in ranks])
        out.outputs[name] = whole(spread)
        out.disagreement[name] = disagreement(spread)
    return out


def _spread(plan: Plan, parts: Sequence[Left]) -> Spread:
    first = parts[0]
    return Spread(first.dims, first.layout, mesh_of(plan), tuple(p.part for p in parts))


def numbers_only(values: Mapping[str, Array]) -> dict[str, Array]:
    """Values without those that torch has no type for: text."""
    return {n: a for n, a in values.items() if a.dtype.kind in "biufc"}
