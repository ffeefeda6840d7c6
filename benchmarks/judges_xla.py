"""What XLA sends for plans beside what they promise: `python -m benchmarks.judges_xla`.

It needs the environment of the judges. Models are compiled at their full extents and not run; of
the mixture of experts two layers. One row for each kind of message and size of group.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence

from executors.jax import judge
from executors.judgement import Judgement
from ir.plan import Plan
from tests.judges.schemes import SCHEMES
from tests.judges.xla_models import FULL, Model

HEAD = ("model", "plan", "pass", "kind", "ranks", "predicted MB", "emitted MB", "difference")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--cluster", default="atlas-800t-a2")
    parser.add_argument("--models", nargs="+", default=list(FULL), choices=list(FULL))
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES), choices=list(SCHEMES))
    given = parser.parse_args(arguments)
    _line(HEAD)
    _line(["---"] * len(HEAD))
    for name in given.models:
        for training in (False, True):
            model = FULL[name]
            found = model.plans(
                given.devices, training=training, cluster=given.cluster, wanted=given.schemes
            )
            for scheme, plan in found.items():
                for row in _rows(model, plan):
                    _line((name, scheme, "training" if training else "forward", *row))


def _rows(model: Model, plan: Plan) -> Iterator[tuple[str, ...]]:
    start = time.monotonic()
    found = judge(plan, model.constants(plan), numbers=False, double=False)
    if found.not_run:
        yield ("not run", "", "", "", "; ".join(found.not_run.values()))
        return
    for item in found.comparisons:
        gap = item.emitted_bytes - item.predicted_bytes
        share = gap / max(item.emitted_bytes, item.predicted_bytes)
        sizes = (f"{b / 1e6:.3f}" for b in (item.predicted_bytes, item.emitted_bytes))
        yield (item.kind, str(item.group_size), *sizes, f"{share:+.2%}" if gap else "0")
    if not found.comparisons:
        yield ("none", "", "0", "0", "0")
    yield ("memory of a device", "", *_memory(found, plan), f"({time.monotonic() - start:.0f} s)")


def _memory(found: Judgement, plan: Plan) -> tuple[str, str]:
    emitted = f"{found.memory_bytes / 1e6:.0f}" if found.memory_bytes else ""
    return f"{plan.estimate.peak_memory_bytes / 1e6:.0f}", emitted


def _line(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    os.nice(5)
    main()
