"""What operators and parameters load: the parts of their time, by what they travel beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.overlap import Loads
from costmodel.redistribution import UNREACHABLE_S
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Setting
from planner.lowering.optimizer_states import StateOptions
from planner.pipeline.preparation import dialect_for, input_layouts, prepare
from planner.problem import EdgeTable, NodeTable
from planner.request import SearchRequest
from tests.builders import mlp
from topology.catalogue import named_cluster

SETTINGS: dict[str, dict[str, Any]] = {
    "one batch": {},
    "micro-batches": {"micro_batches": 4},
    "states in parts": {"micro_batches": 4, "states": StateOptions("auto")},
    "steady": {"micro_batches": 4, "steady": True, "states": StateOptions("1")},
    "computed again": {"recompute": True},
}


def lowered(target: str, devices: int, **changes: Any) -> Lowered:
    graph = mlp(6, batch=64)
    ops = (replace(op, scope=f"layers.{n // 2}") for n, op in enumerate(graph.ops))
    graph, cluster = graph.with_ops(ops), named_cluster("atlas-800t-a2", devices)
    request = SearchRequest(target=target)
    dialect = dialect_for(request, devices)
    mesh = dialect.meshes(cluster)[0]
    ready, _ = prepare(graph, cluster, request)
    layouts = input_layouts(ready, mesh, dialect, request)
    setting = Setting(cluster, mesh, dialect, True, request.optimizer, layouts, 1e12, overlap=True)
    return lower(analyse(ready, training=True), replace(setting, **changes))


@pytest.mark.fast
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_the_loads_of_one_tier_sum_to_the_time(target: str, name: str) -> None:
    """Over one tier every message is on its links: what is sent once counts by its share."""
    found = lowered(target, 8, **SETTINGS[name])
    at, setting = Loads(1), found.setting
    weights = np.ones(at.count)
    weights[at.sync] = weights[at.updated] = 1 / setting.once_per
    problem = found.problem
    tables: list[NodeTable | EdgeTable] = [*problem.node_tables, *problem.edge_tables]
    assert sum(table.loads is not None for table in tables) > 2
    for table in tables:
        if table.loads is not None:
            own = np.tensordot(weights, table.loads, axes=1)
            fine = table.time_s < UNREACHABLE_S
            np.testing.assert_allclose(own[fine], table.time_s[fine], rtol=1e-9, atol=1e-15)
            assert (table.loads[Loads.FIXED][~fine] >= UNREACHABLE_S).all()
            assert (table.loads >= 0).all()


@pytest.mark.fast
@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_a_message_is_on_the_links_of_every_tier_that_it_crosses(target: str) -> None:
    found = lowered(target, 16)
    at, pricer = Loads(2), found.pricer
    number = max(n for n, edge in enumerate(found.edges) if edge.kind.parameter)
    edge, table = (
        found.edges[number],
        found.problem.edge_tables[found.problem.edge_table_of[number]],
    )
    assert table.loads is not None
    rows, columns = (found.nodes[end].columns.assignment for end in (edge.source, edge.target))
    seen = 0
    for source, target_row in np.ndindex(table.time_s.shape):
        if table.time_s[source, target_row] >= UNREACHABLE_S:
            continue
        ends = (
            edge.source_layouts.states[edge.source_layouts.of[rows[source]]],
            edge.target_layouts.states[edge.target_layouts.of[columns[target_row]]],
        )
        on_tiers = np.zeros(2)
        for move in pricer.transfers(edge.kind, *ends):
            for tier in found.setting.mesh.tiers_of(move.step.axes):
                on_tiers[tier] += move.step.time_s
        kinds = (at.gather, at.again, at.reduce, at.sync)
        loads = sum(table.loads[own, source, target_row] for own in kinds)
        np.testing.assert_allclose(loads, on_tiers, rtol=1e-9, atol=1e-15)
        seen += bool(on_tiers.all())
    assert seen


def test_layers_are_those_of_the_operators() -> None:
    found = lowered("torch", 8)
    overlap = found.problem.overlap
    assert overlap is not None
    assert len(overlap.layer_of) == len(found.nodes)
    assert list(overlap.layer_of) == sorted(overlap.layer_of)
