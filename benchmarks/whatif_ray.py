"""A sweep on a local Ray against the same sweep by processes, with a worker killed on the way.

python -m benchmarks.whatif_ray [--points 1000] [--workers 2] [--model FILE]

Without a model the points are those of a chain of products, which take 25 ms each: what Ray needs
to begin and to end stands out. With `data/models/llama3_8b.onnx.gz` they are searches as people ask
for them.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ir.graph import OpGraph
from planner.requests.options.searches import SearchOptions
from planner.requests.sources import ModelSource, model_file
from planner.whatif.axes import parse_axes
from planner.whatif.ray_engine import RayEngine
from planner.whatif.sweep import Point, Store, run
from planner.whatif.tasks import Asked, PointTask, Sweep, sweep_of
from planner.whatif.workbench import Done, Engine, LocalEngine
from tests.builders import mlp

LAYERS = 48


@dataclass
class Killing:
    """An engine, one of whose Ray workers is killed half way."""

    engine: Engine
    name: ClassVar[str] = "killing"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        for number, done in enumerate(self.engine.run(graphs, tasks, keep_plans=keep_plans)):
            if number == len(tasks) // 2:
                os.kill(_worker(), signal.SIGKILL)
            yield done


def _worker() -> int:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        if entry.read_bytes().startswith(b"ray::_Worker"):
            return int(entry.parent.name)
    raise SystemExit("there is no Ray worker")


def sweep(points: int, model: Path | None) -> Sweep:
    """So many points of a model, or of a chain of products."""
    if model is None:
        source = ModelSource("mlp", lambda _: mlp(LAYERS, batch=64), lambda *_: {})
        axes = f"devices=2,4,8,16,bandwidth=0.25:4:{max(1, points // 20)},latency=0.5:2:5"
    else:
        source = model_file(model)
        factors = f"bandwidth=0.5:2:5,latency=0.5:2:{max(1, points // 200)}"
        axes = f"devices=8,16,32,64,batch=16:256:10,{factors}"
    return sweep_of(Asked(source, SearchOptions(), parse_axes(axes), {}))


def timed(what: Sweep, engine: Engine) -> tuple[tuple[Point, ...], float]:
    """All points, and the seconds that they took."""
    started = time.perf_counter()
    return run(what, engine, Store(None)), time.perf_counter() - started


def main() -> None:
    """Print times, overhead, and whether all results are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    what = sweep(options.points, options.model)
    print(f"{len(what.points)} points, {len(what.tasks)} searches, {options.workers} workers")
    local, local_s = timed(what, LocalEngine(options.workers))
    print(f"processes: {local_s:.1f} s")
    far, far_s = timed(what, RayEngine(options.workers))
    print(f"ray: {far_s:.1f} s, {100 * (far_s / local_s - 1):+.1f} %, equal: {far == local}")
    killed, killed_s = timed(what, Killing(RayEngine(options.workers)))
    more = f"{100 * (killed_s / local_s - 1):+.1f} %"
    print(f"ray, a worker killed half way: {killed_s:.1f} s, {more}, equal: {killed == local}")


if __name__ == "__main__":
    main()
