"""Layouts, groups and redistribution in MindSpore's own tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from costmodel.collectives import CollectiveModel
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import Shardable, Step
from exporters.mindspore.records import ParameterLayout
from ir.layout import Layout
from ir.ops.shape import reshape_maps
from ir.plan_checks import mesh_faults
from ir.rule import RuleBuilder
from tests.planner.mindspore_cases_file import all_cases, title
from tests.planner.mindspore_cases_list import held
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis, prime_mesh, rank_groups

pytestmark = pytest.mark.fast

LAYOUTS = held("tensor_layout")
MOVES = held("redistribution", "redistribution_layout_unify", "redistribution_cost_derived")
RESHAPES = held("reshape_layout_unify")
GROUPS = held("device_matrix")

KINDS = {
    "AllGather": "all_gather",
    "ConcatByAxis": "all_gather",
    "PermuteByAxis": "all_to_all",
    "StridedSlice": None,
}
"""Our names of the moves; `Reshape` is none."""


Placed = tuple[Sequence[int], Sequence[int]]
"""Device matrix and tensor map."""


def on_mesh(matrix: Sequence[int], tensor_map: Sequence[int], mesh: Mesh) -> Layout:
    """A layout of MindSpore's in axes of a mesh whose sizes are primes."""
    axes, place = [], 0
    for size in matrix:
        first = place
        while math.prod(mesh.sizes[first:place]) < size:
            place += 1
        axes.append(tuple(range(first, place)))
    assert place == len(mesh.sizes)
    return Layout(tuple(axes[-1 - a] if a >= 0 else () for a in tensor_map))


def twos(devices: int) -> Mesh:
    return Mesh(tuple(MeshAxis(f"a{i}", 2, 0) for i in range(devices.bit_length() - 1)))


@pytest.mark.parametrize("number", LAYOUTS, ids=title)
def test_a_finer_device_matrix_means_the_same_layout(number: int) -> None:
    """Of a dimension that is cut into several, the axes stand one behind the other."""
    case = all_cases()[number]
    given, expected = case["input"], case["expected"]
    matrix, shape = given["device_arrangement"], given["tensor_shape"]
    if "slice_shape_expect" in expected:
        check_share(matrix, given["tensor_map"], shape, expected["slice_shape_expect"])
        return
    finer = expected.get("device_arrangement_expect", given.get("device_arrangement_new"))
    mesh = twos(math.prod(matrix))
    before = on_mesh(matrix, given["tensor_map"], mesh)
    after = on_mesh(finer, expected["tensor_map_expect"], mesh)
    sizes = expected.get("tensor_shape_expect", given.get("tensor_shape_new"))
    assert joined(after, sizes, shape) == before


def check_share(
    matrix: list[int], tensor_map: list[int], shape: list[int], expected: list[int]
) -> None:
    """The optimizer shares the first dimension among all copies."""
    layout = ParameterLayout("w", tuple(matrix), tuple(tensor_map), tuple(shape))
    pieces = [1 if a < 0 else matrix[-1 - a] for a in tensor_map]
    pieces[0] *= layout.copies
    assert [size // count for size, count in zip(shape, pieces, strict=True)] == expected


def joined(layout: Layout, sizes: Sequence[int], shape: Sequence[int]) -> Layout:
    """The layout of a tensor whose dimensions are products of neighbours."""
    dims, place = [], 0
    for size in shape:
        axes: tuple[int, ...] = ()
        left = size
        while left > 1:
            axes += layout.dims[place]
            left //= sizes[place]
            place += 1
        dims.append(axes)
    return Layout(tuple(dims))


@pytest.mark.parametrize("number", MOVES, ids=title)
def test_redistribution_ends_in_the_wanted_layout(number: int) -> None:
    """By the moves that MindSpore makes, where the case says which."""
    case = all_cases()[number]
    shape, source, target = _ends(case["input"])
    mesh, steps = redistributed(
        shape, source, target, all_to_all=case["input"].get("enable_alltoall", False)
    )
    wanted = on_mesh(*target, mesh)
    start = on_mesh(*source, mesh)
    rank = min(len(wanted.dims), len(start.dims))  # what comes or goes has size 1
    assert not any((*wanted.dims[rank:], *start.dims[rank:]))
    reached = steps[-1].result if steps else start
    assert reached.dims[:rank] == wanted.dims[:rank]
    expected = case["expected"].get("op_sequence", case["expected"].get("ops"))
    if expected is not None:
        names = [name.partition("(")[0] for name in expected if name != "Reshape"]
        assert [step.kind and step.kind.value for step in steps] == [KINDS[n] for n in names]


def _ends(given: dict[str, Any]) -> tuple[list[int], Placed, Placed]:
    """Shape, and device matrix and tensor map before and after."""
    if "from" in given:
        before, after = (
            (given[k]["device_arrangement"], given[k]["tensor_map"]) for k in ("from", "to")
        )
        return given["from"]["tensor_shape"], before, after
    if "dev_matrix" in given:
        matrix = given["dev_matrix"]
        return given["tensor_shape"], (matrix, given["from_map"]), (matrix, given["to_map"])
    before, after = (
        (given[f"{k}_device_arrangement"], given[f"{k}_tensor_map"]) for k in ("in", "out")
    )
    return given["tensor_shape"], before, after


def redistributed(
    shape: list[int], source: Placed, target: Placed, *, all_to_all: bool
) -> tuple[Mesh, Sequence[Step]]:
    """The mesh of so many devices, and our moves on it."""
    cluster = named_cluster("atlas-800t-a2", math.prod(source[0]))
    mesh = prime_mesh(cluster, 6)
    priced = MindsporeRedistribution(CollectiveModel(cluster, mesh), mesh, all_to_all)
    start, end = on_mesh(*source, mesh), on_mesh(*target, mesh)
    rank = min(len(start.dims), len(end.dims))
    assert math.prod(shape[rank:]) == 1
    before, after = (Layout(each.dims[:rank]) for each in (start, end))
    return mesh, priced.steps(Shardable(tuple(shape[:rank]), "float32"), before, after)


@pytest.mark.parametrize("number", RESHAPES, ids=title)
def test_a_reshape_has_the_factors_that_mindspore_unifies(number: int) -> None:
    """MindSpore cuts a factor further where the layouts need it."""
    case = all_cases()[number]
    given, expected = case["input"], case["expected"]
    builder = RuleBuilder()
    source, target = (tuple(given[f"{side}_tensor_shape"]) for side in ("in", "out"))
    operand, result = reshape_maps(source, target, builder)
    unified = expected["unified_tensor_shape_expect"]
    ends = {math.prod(unified[:i]) for i in range(len(unified) + 1)}
    factors = [f for dim in operand for f in dim]
    assert factors == [f for dim in result for f in dim]
    assert {math.prod(builder.sizes[f] for f in factors[:i]) for i in range(len(factors))} <= ends
    mesh = twos(math.prod(given["device_arrangement"]))
    for side, shape in (("in", source), ("out", target)):
        plain = on_mesh(given["device_arrangement"], given[f"{side}_tensor_map"], mesh)
        matrix = expected["unified_device_arrangement_expect"]
        finer = on_mesh(matrix, expected[f"unified_{side}_tensor_map_expect"], mesh)
        assert joined(finer, unified, shape) == plain


@pytest.mark.parametrize("number", GROUPS, ids=title)
def test_groups_are_those_of_the_device_matrix(number: int) -> None:
    """A list of devices names those of the ranks in order; one of another length is refused."""
    case = all_cases()[number]
    given, expected = case["input"], case["expected"]
    sizes, devices = given["dev_shape"], given["dev_list"]
    mesh = Mesh(tuple(MeshAxis(f"a{i}", size, 0) for i, size in enumerate(sizes)))
    if "status" in expected:
        axes = [(axis.name, axis.size, axis.tier) for axis in mesh.axes]
        assert any(place == "mesh" for _, place in mesh_faults([axes], devices))
        return
    place = devices.index(given["rank"])

    def group(axes: tuple[int, ...]) -> list[int]:
        return [devices[r] for r in next(g for g in rank_groups(mesh.sizes, axes) if place in g)]

    if "replica_group" in expected:
        kept = {len(sizes) - 1 - a for a in given["tensor_map"] if a >= 0}
        free = tuple(axis for axis in range(len(sizes)) if axis not in kept)
        assert group(free) == expected["replica_group"]
    else:
        found = [group((axis,)) for axis in range(len(sizes))]
        assert found == expected["groups_along_each_axis"]
