"""Plans, their exported files and the slices they mean: what the real MindSpore is asked about.

Run by the planner's Python. Each case is a folder with `plan.json`, both forms of the strategy
file, `apply_mindspore.py`, and `slices.npz`: every parameter whole, and as each rank keeps it.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exporters.mindspore.apply import apply_module
from exporters.mindspore.checkpoint import check_strategy, strategy_checkpoint
from exporters.mindspore.strategy import write
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json, read_plan
from planner.pipeline.one_batch import search_batch
from planner.request import InfeasibleError, SearchRequest
from tests.exporters.mindspore_rules import Slice, planned_slices
from tests.exporters.random_plans import drawn, known_space
from tests.exporters.small_networks import language_model, twisted_model, wide_perceptron
from topology.catalogue import named_cluster

Array = NDArray[np.float32]

NETWORKS: tuple[Callable[[], OpGraph], ...] = (wide_perceptron, language_model, twisted_model)
SIZES = (2, 4, 8, 16)
RANDOM_PLANS = 3


def write_cases(folder: Path) -> None:
    """One folder for each network, number of devices and plan: `language_model-16-searched`."""
    for make in NETWORKS:
        for devices in SIZES:
            for name, plan in _plans(make, devices):
                _write_case(folder / f"{make.__name__}-{devices}-{name}", plan)


def _plans(make: Callable[[], OpGraph], devices: int) -> Iterator[tuple[str, Plan]]:
    """The searched plan where memory is short, and random ones that MindSpore can follow."""
    space = known_space(make, devices)
    yield "searched", _searched(make(), devices)
    found = 0
    for seed in range(300):
        draw = random.Random(seed)
        plan = space.plan(drawn(draw), draw)
        if not check_strategy(plan):
            yield f"random{found}", plan
            found += 1
        if found == RANDOM_PLANS:
            return


def _searched(graph: OpGraph, devices: int) -> Plan:
    """The fastest plan in about the least memory that there is one for."""
    cluster = named_cluster("atlas-800t-a2", devices)
    plan = search_batch(graph, cluster, SearchRequest(dtype="fp16"))
    with contextlib.suppress(InfeasibleError):
        while True:
            limit = 0.8 * plan.estimate.peak_memory_bytes
            request = SearchRequest(dtype="fp16", memory_limit_bytes=limit)
            plan = search_batch(graph, cluster, request)
    return plan


def _write_case(folder: Path, plan: Plan) -> None:
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan_to_json(plan_from_json(plan_to_json(plan))))
    again = read_plan(folder / "plan.json")
    for name in ("strategy.ckpt", "strategy.json"):
        write(folder / name, strategy_checkpoint(again))
    (folder / "apply_mindspore.py").write_text(apply_module(again))
    np.savez(folder / "slices.npz", allow_pickle=False, **_slices(again))


def _slices(plan: Plan) -> dict[str, Array]:
    """What each rank keeps by the plan's own layouts; the exporter has no part in it."""
    out: dict[str, Array] = {}
    draw = np.random.default_rng(7)
    for planned in plan.parameters:
        tensor = plan.graph.tensors[planned.name]
        name = tensor.source or tensor.name
        whole = draw.standard_normal(tensor.dims, dtype=np.float32)
        if tensor.stored_permutation:
            whole = whole.transpose(np.argsort(tensor.stored_permutation))
        out[f"whole/{name}"] = whole
        kept = planned_slices(plan, planned.layout, tensor.dims, tensor.stored_permutation)
        for rank, ranges in enumerate(kept):
            out[f"{rank}/{name}"] = _cut(whole, ranges)
    return out


def _cut(whole: Array, ranges: Slice) -> Array:
    return whole[tuple(slice(first, end) for first, end in ranges)]


if __name__ == "__main__":
    write_cases(Path(sys.argv[1]))
