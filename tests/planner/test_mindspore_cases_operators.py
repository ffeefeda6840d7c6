"""Strategies of operators in MindSpore's own tests: device matrices, tensor maps, slices, refusals.

What MindSpore refuses the dialect does not offer, and a user's strategy is refused with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.cuts import DeviceLayout, device_layout, reader_of_cuts
from exporters.mindspore.records import ParameterLayout, expanded, standardise
from ir.dialects import MINDSPORE
from ir.graph import GraphError
from ir.mindspore_forms.primitives import primitive_form, whole_product
from ir.mindspore_forms.readers import Reader
from ir.ops import OpView, check_operators, lookup
from planner.candidates.offers import Offers
from tests.planner.mindspore_cases_file import Case, Cuts, all_cases, cuts_of, operator_of, title
from tests.planner.mindspore_cases_list import held
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis, prime_mesh

pytestmark = pytest.mark.fast

OPERATORS = held("ops_info")
DYNAMIC = 170
STRATEGIES = held("valid_strategy", "invalid_strategy")
PARAMETERS = held("parameter_layout")


def mesh_of(devices: int) -> Mesh:
    """Axes of two devices, or those of servers of eight."""
    if devices & (devices - 1):
        return prime_mesh(named_cluster("atlas-800t-a2", devices), 6)
    axes = (MeshAxis(f"a{i}", 2, 0) for i in range(devices.bit_length() - 1))
    return Mesh(tuple(axes))


def offered(view: OpView, devices: int) -> set[Cuts]:
    """The strategies of the dialect."""
    entry, mesh = lookup(view.op.kind), mesh_of(devices)
    rule = entry.rule(view)
    everything = replace(MINDSPORE, cut_positions=True)
    found, left_out = Offers(everything, mesh).assignments(rule, entry, gradient=False)
    assert left_out == 0
    forms = [primitive_form(view, rule)]
    if view.op.kind == "MatMul":
        forms.append(whole_product(view, rule))
    return {Reader(view.op, f, (), split, mesh.sizes).cuts for split in found for f in forms}


@pytest.mark.parametrize("number", OPERATORS, ids=title)
def test_an_operator_is_laid_out_or_refused_as_in_mindspore(number: int) -> None:
    case = all_cases()[number]
    given, devices = case["input"], case["input"]["stage_device_nums"][0]
    view, cuts = operator_of(given), cuts_of(given)
    if str(case["expected"].get("status", "")).startswith("FAILED"):
        assert is_refused(view, cuts, devices)
        return
    reader = reader_of_cuts(view, cuts, devices)
    assert cuts in offered(view, devices)
    check_layout(case, reader, device_layout(reader))


def is_refused(view: OpView, cuts: Cuts, devices: int) -> bool:
    """The operator does not exist, or the strategy is neither offered nor taken from a user."""
    try:
        check_operators(view.graph)
    except GraphError:
        return True
    with pytest.raises(StrategyFileError, match=r"\n  at:  operator 'op' .*\n  fix: "):
        reader_of_cuts(view, cuts, devices)
    form = primitive_form(view, lookup(view.op.kind).rule(view))
    return not form.name or cuts not in offered(view, devices)


def check_layout(case: Case, reader: Reader, layout: DeviceLayout) -> None:
    """Every expectation of a case; the maps of parameters of PReLU are declared but not asserted
    in MindSpore's test.
    """
    expected = dict(case["expected"])
    expected.pop("tensor_map:param", None)
    matrix = layout.device_matrix
    checks: dict[str, Any] = {
        "dev_matrix": list(matrix),
        "forward_op_count": forward_sums(reader),
        "forward_op_type": "AllReduce" if forward_sums(reader) else None,
        "mirror_ops_count": len(reader.parameters),
        "status": "SUCCESS",
    }
    sides = {"input": list(layout.inputs), "output": list(layout.results)}
    for key, value in expected.items():
        what, _, name = key.partition(":")
        if not name:
            assert checks[key] == value, key
            continue
        found = sides["output" if name.startswith("output") else "input"].pop(0)
        if what == "tensor_map":
            assert standardise(matrix, found) == standardise(matrix, tuple(value)), key
        else:
            shapes = case["input"]["output_shapes" if name.startswith("output") else "input_shapes"]
            left = len(sides["output" if name.startswith("output") else "input"]) + 1
            assert slice_of(shapes[-left:][0], matrix, found) == value, key


def forward_sums(reader: Reader) -> int:
    """All-reduces that complete a sum over what the result lacks."""
    kept = {f for dim in reader.form.results[0] for f in dim}
    split = {f for mapping in reader.form.inputs for dim in mapping for f in dim}
    return int(any(reader.count((f,)) > 1 for f in split - kept))


def slice_of(shape: list[int], matrix: tuple[int, ...], tensor_map: tuple[int, ...]) -> list[int]:
    pieces = (1 if axis < 0 else matrix[-1 - axis] for axis in tensor_map)
    return [size // count for size, count in zip(shape, pieces, strict=True)]


@pytest.mark.parametrize("number", [n for n in STRATEGIES if n != DYNAMIC], ids=title)
def test_a_strategy_is_taken_or_refused_as_in_mindspore(number: int) -> None:
    case = all_cases()[number]
    devices = case["input"]["device_num"]
    found = [is_taken({**given, "op": name}, devices) for name, given in _operators(case)]
    assert all(found) == ("compiles" in case["expected"])


def _operators(case: Case) -> list[tuple[str, Mapping[str, Any]]]:
    given = case["input"]
    return list(given["ops"].items()) if "ops" in given else [(given["op"], given)]


def is_taken(given: Mapping[str, Any], devices: int) -> bool:
    """Offered, and taken from a user; paddings and such are no inputs of ours."""
    view, cuts = operator_of(given), cuts_of(given)
    inputs = len(primitive_form(view, lookup(view.op.kind).rule(view)).dims)
    assert all(math.prod(each) == 1 for each in cuts[inputs:])
    cuts = cuts[:inputs]
    try:
        reader_of_cuts(view, cuts, devices)
    except StrategyFileError:
        assert cuts not in offered(view, devices)
        return False
    return cuts in offered(view, devices)


@pytest.mark.parametrize("number", PARAMETERS, ids=title)
def test_a_parameter_is_laid_out_as_in_mindspore(number: int) -> None:
    case = all_cases()[number]
    given, expected = case["input"], case["expected"]["w1"]
    found = _by_layout(given) if "layout" in given else _by_strategy(given)
    assert found.tensor_shape is not None
    axes = zip(found.tensor_shape, found.tensor_map, strict=True)
    plain = [(size, axis) for size, axis in axes if isinstance(axis, int)]
    pieces = [size // (1 if a < 0 else found.device_matrix[-1 - a]) for size, a in plain]
    assert math.prod(pieces) == math.prod(expected["slice_shape"])
    if "tensor_map" in expected:
        assert list(found.device_matrix) == expected["dev_matrix"]
        assert list(found.tensor_map) == expected["tensor_map"]


def _by_strategy(given: Mapping[str, Any]) -> ParameterLayout:
    view = operator_of(given)
    layout = device_layout(reader_of_cuts(view, cuts_of(given), given["device_num"]))
    matrix, tensor_map = standardise(layout.device_matrix, layout.inputs[1])
    return ParameterLayout("w1", matrix, tensor_map, view.dims(1))


def _by_layout(given: Mapping[str, Any]) -> ParameterLayout:
    """A `Layout` of named axes, as the file has it that is read."""
    names = given["layout"]["alias"]
    each = (dim if isinstance(dim, list) else [dim] for dim in given["layout"]["in_maps"][1])
    nested = tuple(tuple(len(names) - 1 - names.index(n) for n in dim) for dim in each)
    matrix = tuple(given["layout"]["device_matrix"])
    return expanded(ParameterLayout("w1", matrix, nested, tuple(given["weight_shape"])))


def test_a_dimension_of_any_size_is_not_cut() -> None:
    given = all_cases()[DYNAMIC]["input"]
    sizes = dict(zip(given["layout"]["alias"], given["layout"]["device_matrix"], strict=True))
    cuts = tuple(tuple(sizes[axis] for axis in own) for own in given["layout"]["maps"])
    known = [[size or 64 for size in dims] for dims in given["shapes"]]
    view = operator_of({"op": given["op"], "shapes": known})
    divisors = tuple(size or 1 for size in given["shapes"][0])
    dynamic = OpView(replace(view.op, divisors=divisors), view.graph)
    assert reader_of_cuts(view, cuts, given["device_num"]).cuts == cuts
    with pytest.raises(StrategyFileError, match="dynamic dimension 1 of input 0 is cut 4 ways"):
        reader_of_cuts(dynamic, cuts, given["device_num"])
    entry = lookup(view.op.kind)
    rule = replace(entry.rule(view), divisors=divisors)
    found, _ = Offers(MINDSPORE, mesh_of(8)).assignments(rule, entry, gradient=False)
    assert found
    assert not any(1 in split for split in found)
