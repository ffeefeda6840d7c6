"""Search plans of many models and verify their small copies on virtual devices.

    python benchmarks/verification.py --models data/models --devices 2,4,8,16

A line for each model, target, phase and number of devices. Exit status 1 if a plan is not verified.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from executors.reference import given_tensors
from executors.rescaling import rescaled
from executors.shrink import shrunk
from executors.values import numbers
from executors.verdict import Verdict, verify
from importers.onnx import import_onnx
from importers.onnx_constants import constant_values
from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import InfeasibleError, SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

BIND = {"gpt2_small_dyn": {"batch": 16, "seq": 512}, "llama2_7b_dyn": {"batch": 16, "seq": 2048}}
OWN_BATCH = frozenset({"gpt_small_train_step", "llama3_8b_decode_kv", *BIND})


@dataclass(frozen=True)
class Case:
    """One search."""

    path: Path
    graph: OpGraph
    target: str
    training: bool
    devices: int

    @property
    def name(self) -> str:
        return self.path.name.split(".")[0]

    def plan(self, batch: int, memory_bytes: float | None) -> Plan:
        """The searched plan; raises `InfeasibleError` if none fits."""
        request = SearchRequest(
            training=self.training,
            target=self.target,
            batch=None if self.name in OWN_BATCH else batch,
            memory_limit_bytes=memory_bytes,
            time_limit_s=None,
        )
        return search(self.graph, named_cluster("atlas-800t-a2", self.devices), request)


def judged(case: Case, plan: Plan) -> tuple[Verdict, int]:
    """The verdict on the small copy of a plan, and how many operators that has."""
    small = rescaled(shrunk(plan).plan, plan)
    names = given_tensors(small)
    known = constant_values(case.path, names, BIND.get(case.name))
    return verify(small, numbers(small.graph, names, known)), len(small.graph.ops)


def line(case: Case, options: argparse.Namespace) -> tuple[str, bool]:
    """What is printed of a case, and whether it is well."""
    phase = "train" if case.training else "infer"
    head = f"{case.name:24} {case.target:9} {phase} {case.devices:3}"
    limit = None if options.memory is None else options.memory * 2**30
    started = time.monotonic()
    try:
        plan = case.plan(options.batch, limit)
    except InfeasibleError:
        return f"{head} does not fit", True
    verdict, operators = judged(case, plan)
    worst = max((o.error for o in verdict.outputs), default=float("inf"))
    word = "verified" if verdict.passed else "NOT VERIFIED"
    seconds = time.monotonic() - started
    numbers_ = (
        f"{operators:5} operators {len(verdict.outputs):4} outputs {verdict.messages:5} messages"
    )
    return f"{head} {word} {numbers_} error {worst:.1e} {seconds:6.1f} s", verdict.passed


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All cases, model by model."""
    chosen = options.only.split(",") if options.only else None
    for path in sorted(options.models.glob("*.onnx.gz")):
        name = path.name.split(".")[0]
        if chosen is not None and name not in chosen:
            continue
        graph = import_onnx(path, BIND.get(name))
        for target in options.targets.split(","):
            for phase in options.phases.split(","):
                for devices in options.devices.split(","):
                    yield Case(path, graph, target, phase == "train", int(devices))


def main() -> None:
    """Verify and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("data/models"))
    parser.add_argument("--only", default="", help="comma-separated names of models")
    parser.add_argument("--devices", default="2,4,8,16")
    parser.add_argument("--targets", default="generic,mindspore")
    parser.add_argument("--phases", default="infer,train")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--memory", type=float, help="GiB of a device; the chip's without it")
    options = parser.parse_args()
    count = well = 0
    for case in cases(options):
        text, fine = line(case, options)
        print(text, flush=True)
        count, well = count + 1, well + fine
    print(f"{well} of {count} are well")
    sys.exit(0 if well == count else 1)


if __name__ == "__main__":
    main()
