"""Times MindSpore's own strategy searches and the planner's on the same networks, and compares what
they chose under both cost models.

    python benchmarks/mindspore_search.py --tools DIR

DIR holds `mindspore_nets.py`, which builds the networks, and `mindspore_cpu.py`, which lets the
package for CPUs run its parallel passes for devices that are not there. Every compilation is a
process of its own, one after the other; imports are not counted on either side.

whole: from the network to strategies; MindSpore's is its whole front end, forward only, the
planner's makes the plan with its evidence and a strategy file too. search: the search alone.
step: seconds of a training step by the planner's cost model. their cost: by MindSpore's formulas.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.mindspore_graphs import GRAPHS
from benchmarks.mindspore_runs import Runs, Theirs
from benchmarks.mindspore_strategies import StrategyCost, strategy_cost
from exporters.mindspore.checkpoint import strategy_checkpoint
from ir.graph import OpGraph
from ir.mindspore_forms.readers import operators
from ir.normalise import add_ends
from ir.plan import Plan
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Setting
from planner.pipeline.preparation import dialect_of, input_layouts
from planner.request import Cuts, SearchRequest
from planner.search import search
from planner.solvers import Budget, solver_by_name
from topology.catalogue import named_cluster
from topology.cluster import Cluster

MODES = ("recursive_programming", "sharding_propagation", "dynamic_programming")
NETWORKS = ("mlp", "tf2", "tf8", "tf24", "tf48", "resnet50")
LAYERS = {"mlp": 3, "resnet50": 0}
"""Of networks whose name does not end in them."""
FEW_LAYERS = 8
"""Layers up to which dynamic programming ends in reasonable time, and from which the searches alone
are compared.
"""
COSTS = ("time", "mindspore")
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Ours:
    """The planner, minimising one of the two costs."""

    cost: str
    whole_s: float
    search_s: float
    strategy: Mapping[str, Cuts]


@dataclass(frozen=True, slots=True)
class Bench:
    """What is compared, and how."""

    runs: Runs
    repeat: int
    cluster: Cluster
    request: SearchRequest

    def rows(self, name: str) -> Iterator[str]:
        """The table's lines of a network, and what does not hold."""
        network, layers = named(name)
        graph = GRAPHS[network](layers)
        modes = MODES if layers <= FEW_LAYERS else MODES[:2]
        theirs = self.runs.searches(network, layers, graph, modes)
        ours = [self.ours(graph, cost) for cost in COSTS]
        ended = add_ends(graph, training=True)
        price = partial(strategy_cost, ended, self.setting(ended))
        costs = {o.cost: price(o.strategy) for o in ours}
        for own in ours:
            who = f"planner, --cost {own.cost}"
            yield line(name, who, own.whole_s, own.search_s, costs[own.cost])
        for other in theirs:
            cost = min(map(price, other.strategies), key=lambda c: (c.slices, c.step_time_s))
            yield line(name, other.mode, other.compile_s, other.search_s, cost)
            yield from broken(other, cost, ours, costs, alone=layers >= FEW_LAYERS)

    def ours(self, graph: OpGraph, cost: str) -> Ours:
        """The planner on a graph: the least of some runs, after a first that is not counted."""
        plan, _ = self.planned(graph, cost)
        self.search_s(graph, cost)
        whole = [self.planned(graph, cost)[1] for _ in range(self.repeat)]
        alone = [self.search_s(graph, cost) for _ in range(self.repeat)]
        return Ours(cost, min(whole), min(alone), strategy_in(plan, graph))

    def planned(self, graph: OpGraph, cost: str) -> tuple[Plan, float]:
        """The plan, and the seconds that it and its strategy file took."""
        start = time.perf_counter()
        plan = search(graph, self.cluster, replace(self.request, cost=cost))
        strategy_checkpoint(plan)
        return plan, time.perf_counter() - start

    def search_s(self, graph: OpGraph, cost: str) -> float:
        """Seconds from a graph of MindSpore's primitives to a choice for each."""
        start = time.perf_counter()
        ended = add_ends(graph, training=True)
        problem = lower(analyse(ended, training=True), self.setting(ended, cost)).problem
        solver_by_name("portfolio").solve(problem, Budget())
        return time.perf_counter() - start

    def setting(self, graph: OpGraph, cost: str = "time") -> Setting:
        """The problem of a graph with its ends, without a memory limit."""
        dialect = dialect_of("mindspore", self.cluster.devices, all_to_all=False)
        mesh = dialect.meshes(self.cluster)[0]
        layouts = input_layouts(graph, mesh, dialect, self.request)
        optimizer = self.request.optimizer
        return Setting(self.cluster, mesh, dialect, True, optimizer, layouts, math.inf, cost=cost)


def named(name: str) -> tuple[str, int]:
    """Network and layers: `tf24` is the Transformer of 24 layers.

    >>> named("tf24"), named("mlp")
    (('tf', 24), ('mlp', 3))
    """
    return (name, LAYERS[name]) if name in LAYERS else ("tf", int(name.removeprefix("tf")))


def strategy_in(plan: Plan, graph: OpGraph) -> dict[str, Cuts]:
    """The cuts that a plan gives to the operators of a graph, in composites too."""
    known = {op.name for op in graph.ops}
    found = (each for each in operators(plan) if each.form.name and each.op.name in known)
    return {each.op.name: each.cuts for each in found}


def line(name: str, who: str, whole_s: float, search_s: float, cost: StrategyCost) -> str:
    """One line of the table."""
    gib = cost.peak_memory_bytes / 2**30
    return (
        f"{name:10} {who:26} {whole_s:9.3f} {search_s:9.3f} {1e3 * cost.step_time_s:10.3f} "
        f"{cost.slices:14.6e} {gib:7.2f}"
    )


def broken(
    other: Theirs,
    cost: StrategyCost,
    ours: Sequence[Ours],
    costs: Mapping[str, StrategyCost],
    *,
    alone: bool,
) -> Iterator[str]:
    """What must hold beside one of MindSpore's searches and does not."""
    if costs["time"].step_time_s > cost.step_time_s * (1 + ROUNDING):
        yield f"  FAILS: {other.mode} has the shorter step"
    if costs["mindspore"].slices > cost.slices * (1 + ROUNDING):
        yield f"  FAILS: {other.mode} has the lower cost by MindSpore's formulas"
    for own in ours:
        if own.whole_s >= other.compile_s:
            yield f"  FAILS: {other.mode} compiles faster than --cost {own.cost} plans"
        if alone and own.search_s >= other.search_s:
            yield f"  FAILS: {other.mode} searches faster than --cost {own.cost}"


def main() -> None:
    """Print the table, a network when it is done; exit with 1 if something does not hold."""
    parser = argparse.ArgumentParser(description="MindSpore's searches beside the planner's.")
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--python", type=Path, default=Path(".venv-mindspore/bin/python"))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the least counts")
    parser.add_argument("--time-limit", type=float, default=300, help="seconds of a compilation")
    options = parser.parse_args()
    runs = Runs(options.tools, options.python, options.devices, options.repeat, options.time_limit)
    cluster = named_cluster("atlas-800t-a2", options.devices)
    request = SearchRequest(dataset_strategy="full_batch", all_to_all=False)
    bench = Bench(runs, options.repeat, cluster, request)
    sys.stdout.write(
        f"{'network':10} {'who':26} {'whole s':>9} {'search s':>9} {'step ms':>10} "
        f"{'their cost':>14} {'GiB':>7}\n"
    )
    fails = False
    for name in options.networks.split(","):
        for text in bench.rows(name):
            fails |= "FAILS" in text
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    sys.exit(int(fails))


if __name__ == "__main__":
    main()
