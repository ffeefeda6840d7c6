"""What MindSpore's own searches choose in its tests: recursive programming beside what repeats it,
sharding propagation beside ours.

Cases that choose otherwise stand in docs/mindspore-cases.md with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from exporters.mindspore_import import pins_of_operators
from exporters.mindspore_operator_json import OperatorStrategies
from exporters.mindspore_records import StrategyItem
from importers.mindir.listing import ListedPrimitive
from ir.graph import OpGraph, Role
from ir.plan import NamedLayout, Plan
from planner.preparation import prepare
from planner.recursive_programming import ROWS_WEIGHT, recursive_pins
from planner.request import Cuts, RequestError, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.planner.mindspore_cases_file import all_cases, title
from tests.planner.mindspore_cases_list import held
from topology.catalogue import named_cluster

RECURSIVE, PROPAGATED = held("auto_parallel_rp"), held("auto_parallel_sp")
SEARCHES = [*RECURSIVE, *PROPAGATED]
LOADED = 113
_KINDS = {
    "ReLU": "Relu", "PReLU": "PRelu", "RmsNorm": "RMSNormalization", "Conv2D": "Conv",
    "BatchNorm": "BatchNormalization", "Conv2DTranspose": "ConvTranspose", "FloorDiv": "Div",
    "LpNorm": "LpNormalization", "StridedSlice": "Slice",
}  # fmt: skip
DATASET = "_VirtualDataset"
Pins = tuple[tuple[str, Cuts], ...]
Dims = tuple[int, ...]
Made = tuple[Dims, dict[str, Any]]
"""Dims of a result, and the attributes of its operator."""


class Network:
    """The network of a case: the first operand of an operator is data, the others are weights,
    unless all come from the dataset.
    """

    def __init__(self, net: Mapping[str, Any], *, fed: bool = False) -> None:
        self.shapes, self.fed = net["shapes"], fed
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
        kind = _KINDS.get(op["op"], op["op"])
        if kind == "BatchNormalization":
            channels = self.build.tensors[inputs[0]].dims[1:2]
            inputs += [self.build.weight(f"{op['out']}.{n}", channels) for n in ("scale", "shift")]
            for name in ("mean", "variance"):
                inputs.append(self.build.tensor(f"{op['out']}.{name}", channels, Role.BUFFER))
        dims = [self.build.tensors[name].dims for name in inputs]
        result, attributes = _result(kind, dims, op)
        name = op["out"]
        self.made[name] = self.build.op(kind, tuple(inputs), result, name=name, **attributes)
        if "user_strategy" in op:
            self.pins.append((f"op_{name}", tuple(tuple(own) for own in op["user_strategy"])))

    def _operand(self, name: str, place: int) -> str:
        if name not in self.made:
            make = self.build.weight if place and not self.fed else self.build.input
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
    if kind == "Slice":
        kept = tuple(end - begin for begin, end in zip(op["begin"], op["end"], strict=True))
        return kept, {"axes": tuple(i for i, size in enumerate(first) if size != kept[i])}
    if kind == "LpNormalization":
        return first, {"axis": len(first) - 1}
    if kind == "Gather":
        return (*others[0], *first[1:]), {"axis": 0}
    if kind in _IMAGES:
        return _IMAGES[kind](first, others, op)
    longest = max(dims, key=len) if kind == "Div" else first
    return longest, {"axis": len(first) - 1} if kind == "RMSNormalization" else {}


def _convolution(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    """Positions stay as many: `pad_mode` is `same`."""
    size = op["kernel"]
    return (first[0], others[0][0], *first[2:]), {"kernel_shape": (size, size), "pads": (1,) * 4}


def _pooling(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    del others
    size, step = op["kernel"], op["stride"]
    result = (*first[:2], *(extent // step for extent in first[2:]))
    return result, {"kernel_shape": (size, size), "strides": (step, step)}


def _back(first: Dims, others: Sequence[Dims], op: Mapping[str, Any]) -> Made:
    """A transposed convolution without padding, at every position."""
    del op
    size = others[0][-1]
    result = (first[0], others[0][1], *(extent + size - 1 for extent in first[2:]))
    return result, {"kernel_shape": (size, size)}


_IMAGES: Mapping[str, Callable[[Dims, Sequence[Dims], Mapping[str, Any]], Made]] = {
    "Conv": _convolution,
    "MaxPool": _pooling,
    "ConvTranspose": _back,
}


def _given(shard: Mapping[str, Any]) -> Cuts:
    """The strategy of a call of `shard`, or the layouts as the cuts that they are."""
    if "in_layout" not in shard:
        return tuple(tuple(own) for own in shard.get("in_strategy", ()))
    layout = shard["in_layout"]
    sizes = dict(zip(layout["alias"], layout["device_matrix"], strict=True)) | {"None": 1}
    return tuple(tuple(sizes[axis] for axis in own) for own in layout["maps"])


def planned(graph: OpGraph, pins: Pins, devices: int, solver: str, cost: str = "time") -> Plan:
    request = SearchRequest(pins=pins, solver=solver, dataset_strategy="full_batch", cost=cost)
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
        if text == DATASET:
            continue  # how the inputs arrive is given
        kind, _, number = text.split("/")[-1].rstrip(")").partition("-op")
        same = [op.name for op in graph.ops if op.kind == _KINDS.get(kind, kind)]
        name = same[-1 - int(number or 0)].removeprefix("op_")
        out[name] = tuple(tuple(own) for own in cuts)
    return out


@pytest.mark.parametrize("number", RECURSIVE, ids=title)
def test_recursive_programming_is_repeated(number: int) -> None:
    """It passes over strategies of the program unless an environment variable says otherwise."""
    given = all_cases()[number]["input"]
    network = Network(given["net"])
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
    network = Network(case["input"]["net"], fed=DATASET in case["expected"]["strategies"])
    graph, pins = network.graph(), tuple(network.pins)
    # From the dataset alone nothing is cut in MindSpore's cost, which counts a slice as work.
    cost = "time" if pins else "mindspore"
    found = cuts_in(planned(graph, pins, case["input"]["device_num"], "propagation", cost))
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
