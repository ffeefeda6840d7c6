"""Plans whose every decision is drawn at random from the space that the planner searches."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ir.dialects import TARGETS
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind, Setting
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import input_layouts, prepare
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

Pick = Callable[[str, list[tuple[int, ...]]], int]
"""Index of the assignment that an operator shall have, by its name."""


def drawn(draw: random.Random) -> Pick:
    """Split every operator at random."""
    return lambda _, found: draw.randrange(len(found))


def split_like(*factors: int) -> Pick:
    """Give the mesh axes to these factors where an operator has them all, else repeat it."""

    def pick(_: str, found: list[tuple[int, ...]]) -> int:
        return found.index(factors) if factors in found else found.index((-1,) * len(factors))

    return pick


@dataclass(frozen=True, slots=True)
class PlanSpace:
    """One model on so many devices: the searched plan, and any other plan of the same space."""

    best: Plan
    lowered: Lowered

    def plan(self, pick: Pick, rest: random.Random | None = None) -> Plan:
        """The plan with the operators split as picked; with `rest`, weights rest in any layout."""
        nodes = self.lowered.nodes
        choice = [0] * len(nodes)
        for index, node in enumerate(nodes):
            if node.candidates is not None:
                choice[index] = pick(node.name, list(node.candidates.assignments))
        used = {t.name: t.used for t in PlanBuilder(self.lowered, choice).tensors()}
        for index, node in enumerate(nodes):
            if node.kind is NodeKind.PARAMETER and node.layouts is not None:
                choice[index] = self._resting(index, used[node.name], rest)
        evidence = PlanBuilder(self.lowered, choice)
        return replace(self.best, operators=evidence.operators(), tensors=evidence.tensors())

    def _resting(self, index: int, used: NamedLayout | None, rest: random.Random | None) -> int:
        port = self.lowered.nodes[index].layouts
        assert port is not None
        assert used is not None
        evidence = PlanBuilder(self.lowered, ())
        named = [evidence.named(port.states[state].forward) for state in port.of]
        if rest is None:
            return named.index(used)
        return rest.choice(
            [i for i, each in enumerate(named) if _extends(each, used, evidence.names)]
        )


def _extends(layout: NamedLayout, used: NamedLayout, axes: Sequence[str]) -> bool:
    """Whether a layout is another one, or that with dimension 0 split over the innermost copies."""
    if not used.dims:
        return layout == used
    share = layout.dims[0][len(used.dims[0]) :]
    copies = [axis for axis in axes if all(axis not in dim for dim in used.dims)]
    extended = ((*used.dims[0], *share), *used.dims[1:])
    return layout.dims == extended and (not share or tuple(copies[-len(share) :]) == share)


def plan_space(graph: OpGraph, devices: int, cluster: str = "atlas-800t-a2") -> PlanSpace:
    """The space of training plans for MindSpore."""
    request, machine = (
        SearchRequest(dtype="fp16", time_limit_s=None),
        named_cluster(cluster, devices),
    )
    dialect = TARGETS[request.target]
    ready, _ = prepare(graph, machine, request)
    mesh = dialect.meshes(machine)[0]
    arriving = input_layouts(ready, mesh, dialect, request)
    limit = float(machine.usable_memory_bytes)
    setting = Setting(machine, mesh, dialect, True, request.optimizer, arriving, limit)
    lowered = lower(analyse(ready, training=True), setting)
    return PlanSpace(search(graph, machine, request), lowered)


@cache
def known_space(make: Callable[[], OpGraph], devices: int) -> PlanSpace:
    """As `plan_space`, made once for each graph."""
    return plan_space(make(), devices)
