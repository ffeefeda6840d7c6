"""Plans of other tools hold the search, and one that the planner wrote comes back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from exporters.torch import from_json, to_json
from importers.foreign_plans import ForeignPlan, read_foreign
from ir.plan import Plan
from planner.foreign import held_to, layer_scopes, pins_of_sharding
from planner.preparation import prepare
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_machine

GRAPH = mlp(3)
CLUSTER = named_machine("atlas-800t-a2").cluster(16)
REQUEST = SearchRequest(target="torch")
READY, _ = prepare(GRAPH, CLUSTER, REQUEST)


def planned(found: ForeignPlan) -> Plan:
    asked, _ = held_to(REQUEST, found, READY, CLUSTER)
    return search(GRAPH, CLUSTER, asked)


def weight_cuts(plan: Plan, rest: bool = False) -> dict[str, int]:
    sizes = {name: size for name, size, _ in plan.mesh}
    return {
        t.name: math.prod(sizes[a] for dim in layout.dims for a in dim)
        for t in plan.parameters
        if (layout := t.layout if rest else t.used) is not None
    }


def test_megatron_without_dp_takes_all_devices() -> None:
    plan = planned(ForeignPlan("Megatron", (("tp", 8),)))
    assert set(weight_cuts(plan).values()) == {8}
    assert "held to tp=8,dp=2" in plan.notes[0]


def test_galvatron_cuts_every_layer_by_its_own_degree() -> None:
    assert layer_scopes(READY) == ("layers.0", "layers.1", "layers.2")
    layers = ((("tp", 8),), (("tp", 2),), (("tp", 1), ("zero3", 1)))
    plan = planned(ForeignPlan("Galvatron", layers=layers))
    assert [*weight_cuts(plan).values()] == [8, 2, 1]
    assert weight_cuts(plan, rest=True)["layers.2.weight"] == 16


def test_placements_hold_the_layout_at_rest() -> None:
    text = json.dumps({"mesh": [2, 8], "placements": {"layers.0.weight": ["Shard(0)", "Shard(1)"]}})
    found = read_foreign(text, "f")
    assert found is not None
    rest = next(t for t in planned(found).parameters if t.name == "layers.0.weight").layout
    assert [len(dim) for dim in rest.dims] == [1, 1]
    assert weight_cuts(planned(found), rest=True)["layers.0.weight"] == 16


def test_what_the_planner_wrote_for_torch_comes_back() -> None:
    plan = search(GRAPH, CLUSTER, REQUEST)
    pins = pins_of_sharding(READY, from_json(to_json(plan)))
    back = search(GRAPH, CLUSTER, replace(REQUEST, pins=pins))
    assert back.operators == plan.operators
    assert back.estimate.step_time_s == plan.estimate.step_time_s


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (ForeignPlan("Megatron", (("tp", 8), ("pp", 2))), "2 pipeline stages"),
        (ForeignPlan("Megatron", (("tp", 5),)), "not groups of 5"),
        (ForeignPlan("Galvatron", layers=((("tp", 8),),)), "1 layers, the model has 3"),
        (ForeignPlan("DTensor", placements=(("w", (0,)),)), "lacks 1"),
        (ForeignPlan("DTensor", placements=(("layers.0.weight", (7,)),)), r"Shard\(7\)"),
        (ForeignPlan("DTensor", placements=(("w", (0,)),), mesh=(8,)), "mesh of 8"),
        (ForeignPlan("DTensor", placements=(("w", (0, 0, 0)),)), "3 placements"),
    ],
)
def test_a_plan_for_something_else_is_refused(found: ForeignPlan, fault: str) -> None:
    with pytest.raises(RequestError, match=fault):
        held_to(REQUEST, found, READY, CLUSTER)
