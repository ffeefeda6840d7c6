"""What each rank keeps under a plan, as the files have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ir.plan import Plan
from ir.plan_slicing import plan_slicing
from tests.exporters.mindspore_rules import planned_slices
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast

NAME = "m.layers.0.proj.weight"


def stored_otherwise(permutation: tuple[int, ...]) -> Plan:
    plan = tiny_plan()
    tensor = replace(
        plan.graph.tensors[NAME], dims=(64, 32), source="file.name", stored_permutation=permutation
    )
    graph = replace(plan.graph, tensors={**plan.graph.tensors, NAME: tensor})
    tensors = tuple(replace(t, dims=(64, 32)) if t.name == NAME else t for t in plan.tensors)
    return replace(plan, graph=graph, tensors=tensors)


@pytest.mark.parametrize("permutation", [(), (1, 0), (0, 1)])
def test_slices_are_those_of_the_file(permutation: tuple[int, ...]) -> None:
    plan = stored_otherwise(permutation)
    slicing = plan_slicing(plan)
    (grid,) = slicing.grids["file.name"]
    dims = slicing.dims["file.name"]
    assert dims == ((32, 64) if permutation == (1, 0) else (64, 32))
    planned = next(t for t in plan.tensors if t.name == NAME)
    wanted = planned_slices(plan, planned.layout, planned.dims, permutation)
    assert [grid.box(rank, dims) for rank in grid.ranks] == wanted
    assert slicing.ranks == plan.devices == 8


def test_dims_of_three_dimensions_are_put_in_their_places() -> None:
    plan = stored_otherwise(())
    tensor = replace(plan.graph.tensors[NAME], dims=(2, 4, 8), stored_permutation=(2, 0, 1))
    graph = replace(plan.graph, tensors={**plan.graph.tensors, NAME: tensor})
    layout = replace(plan.parameters[0].layout, dims=(("server",), ("card0",), ("card1",)))
    tensors = tuple(
        replace(t, dims=(2, 4, 8), layout=layout) if t.name == NAME else t for t in plan.tensors
    )
    slicing = plan_slicing(replace(plan, graph=graph, tensors=tensors))
    assert slicing.dims["file.name"] == (4, 8, 2)
    assert slicing.grids["file.name"][0].dims == ((1,), (2,), (0,))
