"""Optimizer sharding as MindSpore stores it, and plans that MindSpore cannot follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.mindspore import ExportError, check_strategy, losses, strategy_checkpoint
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.exporters.mindspore_rules import layout, planned_slices, resting_slices
from tests.exporters.random_plans import known_space, plan_space, split_like
from tests.exporters.small_networks import perceptron, stored_otherwise, tied
from topology.catalogue import named_cluster


def rested(name: str, rest: tuple[tuple[str, ...], ...], *factors: int) -> Plan:
    """A perceptron on 16 devices whose weight rests in this layout."""
    space = known_space(_two_layers, 16)
    plan = space.plan(split_like(*factors))
    tensors = tuple(
        replace(t, layout=NamedLayout(rest)) if t.name == name else t for t in plan.tensors
    )
    return replace(plan, tensors=tensors)


def _two_layers() -> OpGraph:
    return perceptron(("a", "b"), ((256, 512), (512, 256)), 64)


@pytest.mark.parametrize(
    ("rest", "factors", "matrix", "tensor_map", "step", "size"),
    [
        ((("server", "card0"), ("card1", "card2")), (0, 0, 2, 2), (4, 4), (-1, 0), 4, 4),
        ((("card0",), ("card1", "card2")), (0, 0, 2, 2), (2, 2, 4), (-1, 0), 4, 2),
        ((("server", "card0", "card1", "card2"), ()), (0, 0, -1, -1), (16,), (-1, -1), 1, 16),
        ((("card0", "card1", "card2"), ()), (0, 0, 0, -1), (2, 8), (-1, -1), 1, 8),
        ((("server", "card1", "card2"), ()), (1, -1, -1, -1), (2, 2, 4), (2, -1), 1, 4),
    ],
)
def test_the_share_of_the_optimizer_is_one_axis_of_the_device_matrix(
    rest: tuple[tuple[str, ...], ...],
    factors: tuple[int, ...],
    matrix: tuple[int, ...],
    tensor_map: tuple[int, ...],
    step: int,
    size: int,
) -> None:
    plan = rested("a", rest, *factors)
    found = layout(strategy_checkpoint(plan), "a")
    assert (found.device_matrix, found.tensor_map) == (matrix, tensor_map)
    assert (found.opt_weight_shard_step, found.opt_weight_shard_size) == (step, size)
    assert resting_slices(found) == planned_slices(plan, NamedLayout(rest), (256, 512))


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ((("server",), ("card1", "card2")), "does not begin with the innermost devices"),
        (((), ("server", "card1", "card2")), "rests in another layout"),
        (((), ("card1",)), "rests in another layout"),
    ],
)
def test_a_weight_that_mindspore_cannot_let_rest_so_is_refused(
    rest: tuple[tuple[str, ...], ...], what: str
) -> None:
    with pytest.raises(ExportError, match=what) as caught:
        strategy_checkpoint(rested("a", rest, 0, 0, 2, 2))
    assert "at:  parameter 'a'" in str(caught.value)
    assert "fix: " in str(caught.value)


def test_a_plan_of_another_dialect_is_refused() -> None:
    graph = perceptron(("a",), ((64, 64),), 64)
    plan = search(graph, named_cluster("atlas-800t-a2", 8), SearchRequest(target="generic"))
    with pytest.raises(ExportError, match="dialect 'free'") as caught:
        strategy_checkpoint(plan)
    assert "fix: plan again with --target mindspore" in str(caught.value)


def test_a_table_that_two_operators_want_in_different_layouts_is_refused() -> None:
    space = known_space(tied, 8)
    alike = space.plan(split_like(-1, -1, -1))
    assert check_strategy(alike) == ()
    assert [i.key for i in strategy_checkpoint(alike).strategies] == [
        "Gather_table",
        "MatMul_table",
    ]
    apart = space.plan(split_like(3, 3, 3))
    assert "reads it as" in str(check_strategy(apart)[0])


def test_rows_of_a_table_over_some_devices_are_refused() -> None:
    """MindSpore repeats such a lookup over the outermost devices, the planner the innermost."""
    space = known_space(stored_otherwise, 8)
    whole = space.plan(split_like(0, 0, 0))
    assert check_strategy(whole) == ()
    found = {v.what for v in check_strategy(space.plan(split_like(0, 0, -1)))}
    assert "MindSpore would put its cuts on other devices than the plan" in found


def test_what_the_file_leaves_out_is_said() -> None:
    plan = rested("a", (("server", "card0"), ("card1", "card2")), 0, 0, 2, 2)
    assert losses(plan) == ()
    mixed = tuple(
        replace(t, layout=NamedLayout((("card0",), ("card1", "card2")))) if t.name == "b" else t
        for t in plan.tensors
    )
    (loss,) = losses(replace(plan, tensors=mixed))
    assert loss.startswith("the optimizer shares weights among 2, 4 devices")
    dashed = plan_space(perceptron(("layer-1",), ((64, 64),), 64), 8).best
    assert "what stands before a dash" in losses(dashed)[0]
