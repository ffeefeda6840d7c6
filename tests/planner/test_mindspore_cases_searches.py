"""What MindSpore's own searches choose in its tests: recursive programming beside our bisection,
sharding propagation beside ours, both at the least time of a step.

Cases that choose otherwise stand in docs/mindspore-cases.md with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from exporters.mindspore_import import pins_of_operators
from exporters.mindspore_operator_json import OperatorStrategies
from exporters.mindspore_records import StrategyItem
from importers.mindir.listing import ListedPrimitive
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.preparation import prepare
from planner.request import Cuts, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.planner.mindspore_cases_file import all_cases, title
from tests.planner.mindspore_cases_list import held
from topology.catalogue import named_cluster

RECURSIVE, PROPAGATED = held("auto_parallel_rp"), held("auto_parallel_sp")
SEARCHES = [*RECURSIVE, *PROPAGATED]
LOADED = 113
_KINDS = {"ReLU": "Relu", "PReLU": "PRelu", "RmsNorm": "RMSNormalization"}
Pins = tuple[tuple[str, Cuts], ...]


class Network:
    """The network of a case: the first operand of an operator is data, the others are weights."""

    def __init__(self, net: Mapping[str, Any]) -> None:
        self.shapes = net["shapes"]
        self.build = GraphBuilder("case")
        self.made: dict[str, str] = {}
        self.pins: list[tuple[str, Cuts]] = []
        for op in net["ops"]:
            self._add(op)
        self.last = net["ops"][-1]["out"]
        whole = _given(net.get("shard_fn", {}))
        if whole:
            self.pins.append((f"op_{self.last}", whole))

    def graph(self) -> OpGraph:
        return self.build.build(self.made[self.last])

    def _add(self, op: Mapping[str, Any]) -> None:
        inputs = [self._operand(name, place) for place, name in enumerate(op["inputs"])]
        dims = [self.build.tensors[name].dims for name in inputs]
        kind = _KINDS.get(op["op"], op["op"])
        result, attributes = _result(kind, dims, op)
        name = op["out"]
        self.made[name] = self.build.op(kind, tuple(inputs), result, name=name, **attributes)
        if "user_strategy" in op:
            self.pins.append((f"op_{name}", tuple(tuple(own) for own in op["user_strategy"])))

    def _operand(self, name: str, place: int) -> str:
        if name not in self.made:
            make = self.build.weight if place else self.build.input
            self.made[name] = make(name, tuple(self.shapes[name]))
        return self.made[name]


def _result(
    kind: str, dims: Sequence[tuple[int, ...]], op: Mapping[str, Any]
) -> tuple[tuple[int, ...], dict[str, Any]]:
    first, *others = dims
    if kind == "MatMul":
        turned = bool(op.get("transpose_b"))
        return (*first[:-1], others[0][-2 if turned else -1]), {"trans_b": int(turned)}
    if kind == "Reshape":
        known = -math.prod(op["shape"]) if -1 in op["shape"] else 1
        sizes = [math.prod(first) // known if size == -1 else size for size in op["shape"]]
        return tuple(sizes), {}
    return first, {"axis": len(first) - 1} if kind == "RMSNormalization" else {}


def _given(shard: Mapping[str, Any]) -> Cuts:
    """The strategy of a call of `shard`, or the layouts as the cuts that they are."""
    if "in_layout" not in shard:
        return tuple(tuple(own) for own in shard.get("in_strategy", ()))
    layout = shard["in_layout"]
    sizes = dict(zip(layout["alias"], layout["device_matrix"], strict=True)) | {"None": 1}
    return tuple(tuple(sizes[axis] for axis in own) for own in layout["maps"])


def planned(graph: OpGraph, pins: Pins, devices: int, solver: str) -> Plan:
    request = SearchRequest(pins=pins, solver=solver, dataset_strategy="full_batch")
    return search(graph, named_cluster("atlas-800t-a2", devices), request)


def cuts_in(plan: Plan) -> dict[str, Cuts]:
    sizes = {name: size for name, size, _ in plan.mesh}

    def cuts(layout: NamedLayout) -> tuple[int, ...]:
        return tuple(math.prod(sizes[axis] for axis in dim) for dim in layout.dims)

    return {
        op.name.removeprefix("op_"): tuple(cuts(layout) for layout in op.inputs if layout)
        for op in plan.operators
    }


def wanted(case: Mapping[str, Any], network: Network, graph: OpGraph) -> dict[str, Cuts]:
    """By operator of ours; MindSpore's names have the kind, and the last of a kind is number 0."""
    out: dict[str, Cuts] = {}
    for text, cuts in case["expected"]["strategies"].items():
        kind, _, number = text.split("/")[-1].rstrip(")").partition("-op")
        same = [op.name for op in graph.ops if op.kind == _KINDS.get(kind, kind)]
        name = same[-1 - int(number or 0)].removeprefix("op_")
        out[name] = tuple(tuple(own) for own in cuts)
    return out


@pytest.mark.parametrize("number", [n for n in SEARCHES if n != LOADED], ids=title)
def test_our_search_of_that_name_chooses_the_same(number: int) -> None:
    case = all_cases()[number]
    network = Network(case["input"]["net"])
    graph = network.graph()
    solver = "recursive_bisection" if number in RECURSIVE else "propagation"
    respected = tuple(network.pins) if number in PROPAGATED else ()  # RP passes over strategies
    found = cuts_in(planned(graph, respected, case["input"]["device_num"], solver))
    for name, cuts in wanted(case, network, graph).items():
        assert found[name] == cuts, name


def test_a_loaded_file_decides_every_operator() -> None:
    case = all_cases()[LOADED]
    network = Network(case["input"]["net"])
    graph, devices = network.graph(), case["input"]["device_num"]
    want = wanted(case, network, graph)
    machine = named_cluster("atlas-800t-a2", devices)
    ready, _ = prepare(graph, machine, SearchRequest(dataset_strategy="full_batch"))
    items = tuple(StrategyItem(f"op_{name}", 0, cuts) for name, cuts in want.items())
    found = pins_of_operators(ready, OperatorStrategies(items), _primitives(graph), devices)
    plan = planned(graph, tuple(found.pins.items()), devices, "propagation")
    assert set(want) == {name.removeprefix("op_") for name in found.pins}
    assert {name: cuts for name, cuts in cuts_in(plan).items() if name in want} == want


def _primitives(graph: OpGraph) -> list[ListedPrimitive]:
    return [
        ListedPrimitive(
            op.name, op.kind, tuple(graph.tensors[n].dims for n in op.inputs), op.inputs
        )
        for op in graph.ops
    ]
