"""What MindSpore's own searches choose in its tests: recursive programming beside what repeats it,
sharding propagation beside ours.

Cases that choose otherwise stand in docs/mindspore-cases.md with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from exporters.mindspore.checkpoint_import import pins_of_operators
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyItem
from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph
from ir.mindspore_forms.readers import operators
from ir.plan import NamedLayout, Plan
from planner.mindspore_searches.recursive_programming import ROWS_WEIGHT, recursive_pins
from planner.pipeline.preparation import prepare
from planner.request import Cuts, RequestError, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.planner.mindspore_cases_file import all_cases, title
from tests.planner.mindspore_cases_list import held
from tests.planner.mindspore_cases_words import NETS
from tests.planner.mindspore_nets import KINDS, Network, Pins
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

RECURSIVE, PROPAGATED = held("auto_parallel_rp"), held("auto_parallel_sp")
SEARCHES = [*RECURSIVE, *PROPAGATED]
LOADED = 113
DATASET, PROPERTY = "_VirtualDataset", "property"


def planned(
    graph: OpGraph,
    pins: Pins,
    devices: int,
    solver: str,
    cost: str = "time",
    *,
    fully_used: bool = False,
) -> Plan:
    request = SearchRequest(
        pins=pins, solver=solver, dataset_strategy="full_batch", cost=cost,
        fully_use_devices=fully_used,
    )  # fmt: skip
    return search(graph, named_cluster("atlas-800t-a2", devices), request)


def cuts_in(plan: Plan) -> dict[str, Cuts]:
    sizes = {name: size for name, size, _ in plan.mesh}

    def cuts(layout: NamedLayout) -> tuple[int, ...]:
        return tuple(math.prod(sizes[axis] for axis in dim) for dim in layout.dims)

    found = {
        op.name: tuple(cuts(layout) for layout in op.inputs if layout) for op in plan.operators
    }
    parts = {part.name for op in plan.graph.ops for part in op.parts}
    found |= {reader.op.name: reader.cuts for reader in operators(plan) if reader.op.name in parts}
    return {name.removeprefix("op_"): own for name, own in found.items()}


def network_of(number: int) -> Network:
    case = all_cases()[number]
    net = NETS.get(number) or case["input"]["net"]
    return Network(net, fed=DATASET in case["expected"]["strategies"])


def wanted(case: Mapping[str, Any], network: Network, graph: OpGraph) -> dict[str, Cuts]:
    """By operator of ours; MindSpore's names have the kind, and the last of a kind is number 0."""
    out: dict[str, Cuts] = {}
    for text, cuts in case["expected"]["strategies"].items():
        if text in {DATASET, PROPERTY}:
            continue  # how the inputs arrive is given
        kind, _, number = text.split("/")[-1].rstrip(")").partition("-op")
        same = [op.name for op in graph.ops if op.kind == KINDS.get(kind, kind)]
        name = same[-1 - int(number or 0)].removeprefix("op_")
        out[name] = tuple(tuple(own) for own in cuts)
    return out


@pytest.mark.parametrize("number", RECURSIVE, ids=title)
def test_recursive_programming_is_repeated(number: int) -> None:
    """It passes over strategies of the program unless an environment variable says otherwise."""
    given = all_cases()[number]["input"]
    network = network_of(number)
    graph, devices = network.graph(), given["device_num"]
    machine = named_cluster("atlas-800t-a2", devices)
    ready, _ = prepare(graph, machine, SearchRequest(dataset_strategy="full_batch"))
    respected = dict(network.pins) if "env" in given else {}
    weight = given.get("rp_matmul_mem_coef", ROWS_WEIGHT)
    found = recursive_pins(ready, devices, respected, weight)
    for name, cuts in wanted(all_cases()[number], network, graph).items():
        assert found[f"op_{name}"] == cuts, name


def test_a_plan_by_recursive_programming_has_its_cuts() -> None:
    network = Network(all_cases()[RECURSIVE[0]]["input"]["net"])
    plan = planned(network.graph(), (), 8, "recursive_programming")
    ready, _ = prepare(network.graph(), named_cluster("atlas-800t-a2", 8), SearchRequest())
    asked = {n.removeprefix("op_"): cuts for n, cuts in recursive_pins(ready, 8).items()}
    assert {name: cuts for name, cuts in cuts_in(plan).items() if name in asked} == asked


@pytest.mark.parametrize(
    ("sizes", "cuts"),
    [
        ((64, 2048, 1000), ((8, 1), (1, 1))),
        ((160, 320, 320000), ((1, 1), (1, 8))),
        ((256, 1024, 4096), ((8, 1), (1, 1))),
        ((256, 4096, 1024), ((8, 1), (1, 1))),
        ((64, 64, 64), ((8, 1), (1, 1))),
        ((8, 320, 4096), ((2, 1), (1, 4))),
        ((1024, 1024, 1024), ((8, 1), (1, 1))),
        ((128, 2048, 64), ((8, 1), (1, 1))),
        ((64, 512, 512), ((8, 1), (1, 1))),
    ],
)
def test_a_product_is_cut_as_mindspore_2_10_cuts_it_in_training(
    sizes: tuple[int, int, int], cuts: Cuts
) -> None:
    """Seen with the real package on 8 devices."""
    rows, inner, columns = sizes
    build = GraphBuilder("product")
    x, weight = build.input("x", (rows, inner)), build.weight("w", (inner, columns))
    graph = build.build(build.op("MatMul", (x, weight), (rows, columns), name="product"))
    assert recursive_pins(graph, 8)["op_product"] == cuts


def test_devices_that_are_no_power_of_two_are_refused() -> None:
    network = Network(all_cases()[RECURSIVE[0]]["input"]["net"])
    with pytest.raises(RequestError, match="halves the devices, and there are 24"):
        planned(network.graph(), (), 24, "recursive_programming")


@pytest.mark.parametrize("number", [n for n in PROPAGATED if n != LOADED], ids=title)
def test_sharding_propagation_chooses_the_same(number: int) -> None:
    case = all_cases()[number]
    network = network_of(number)
    graph, pins = network.graph(), tuple(network.pins)
    fully_used = case["input"].get("fully_use_devices", False)
    devices = case["input"]["device_num"]
    plan = planned(graph, pins, devices, "propagation", "mindspore", fully_used=fully_used)
    found = cuts_in(plan)
    for name, cuts in wanted(case, network, graph).items():
        assert found[name] == cuts, name
    if PROPERTY in case["expected"]["strategies"]:  # both products cut their common weight alike
        assert found["m"][1] == found["n"][1] != (1, 1)


@pytest.mark.parametrize(
    ("solver", "cut", "wanted"),
    [
        ("propagation", (1, 1, 2, 1), (1, 1, 2, 1)),
        ("mindspore_propagation", (1, 1, 2, 1), (1, 1, 2, 1)),
        ("mindspore_propagation", (1, 1, 1, 8), (1, 1, 1, 8)),
        ("dynamic_programming", (1, 1, 1, 8), (8, 1, 1, 1)),
        ("mindspore_elimination", (1, 1, 1, 8), (8, 1, 1, 1)),
    ],
)
def test_cuts_of_positions_go_on_in_propagation_alone(
    solver: str, cut: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    """As MindSpore 2.10.0 cuts the network of case 118 behind an activation that is cut so."""
    net = dict(all_cases()[118]["input"]["net"])
    first, *others = net["ops"]
    net["ops"] = [{**first, "user_strategy": [cut]}, *others]
    network = Network(net)
    found = cuts_in(planned(network.graph(), tuple(network.pins), 8, solver, "mindspore"))
    assert found["r"] == (cut,)
    assert {found[name][0] for name in ("c", "bn", "p", "t", "o")} == {wanted}
    if solver == "mindspore_propagation" and cut == (1, 1, 2, 1):
        assert found["t"][1] == (1, 1, 1, 1)  # no channels of the result are cut


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


def _primitives(graph: OpGraph) -> list[FilePrimitive]:
    return [
        FilePrimitive(op.name, op.kind, tuple(graph.tensors[n].dims for n in op.inputs), op.inputs)
        for op in graph.ops
    ]
