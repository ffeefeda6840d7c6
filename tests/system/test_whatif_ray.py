"""A sweep whose workers are killed, and the same sweep on a local Ray."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from ir.graph import OpGraph
from planner.requests.errors import UserError
from planner.whatif.ray_engine import RayEngine
from planner.whatif.sweep import Store, run
from planner.whatif.tasks import PointTask, sweep_of
from planner.whatif.workbench import Done, Engine, LocalEngine
from tests.planner.whatif.sweeps import asked

AXES = "devices=2,4,bandwidth=0.5:2:5,latency=1,4"

pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc"),
    pytest.mark.filterwarnings("default"),  # Ray warns of its own parts
]


@dataclass
class _Killing:
    """Another engine, one of whose workers is killed after the first answer."""

    engine: Engine
    mark: bytes
    """In the command line of a worker."""
    killed: list[int] = field(default_factory=list)
    name: ClassVar[str] = "killing"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        for done in self.engine.run(graphs, tasks, keep_plans=keep_plans):
            if not self.killed:
                self.killed.append(_descendant(self.mark))
                os.kill(self.killed[0], signal.SIGKILL)
            yield done


def _descendant(mark: bytes) -> int:
    """A process that this one has begun, with a mark in its command line."""
    for _ in range(100):
        found = [pid for pid in _descendants(os.getpid()) if mark in _command(pid)]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("there is no worker")


def _descendants(pid: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(entry.parent.name))
    left = [pid]
    while left:
        children = parents.get(left.pop(), [])
        yield from children
        left += children


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    sweep = sweep_of(asked(AXES))
    engine = _Killing(LocalEngine(2), b"spawn_main")
    points = run(sweep, engine, Store(tmp_path))
    assert engine.killed
    assert points == run(sweep, LocalEngine(1), Store(None))


def test_a_killed_ray_worker_loses_nothing_and_all_bytes_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    sweep = sweep_of(asked(AXES))
    assert len(sweep.points) == 20
    engine = _Killing(RayEngine(2), b"ray::_Worker")
    far = run(sweep, engine, Store(tmp_path / "ray"))
    near = run(sweep, LocalEngine(1), Store(tmp_path / "local"))
    assert engine.killed
    assert far == near
    files = sorted(path.relative_to(tmp_path / "local") for path in _files(tmp_path / "local"))
    assert [path.relative_to(tmp_path / "ray") for path in _files(tmp_path / "ray")] == files
    for path in files:
        assert (tmp_path / "ray" / path).read_bytes() == (tmp_path / "local" / path).read_bytes()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_address_without_a_cluster_is_an_error_with_a_way_out() -> None:
    pytest.importorskip("ray")
    sweep = sweep_of(asked("devices=2,4"))
    with pytest.raises(UserError, match=r"--address 127\.0\.0\.1:9"):
        run(sweep, RayEngine(1, "127.0.0.1:9"), Store(None))
