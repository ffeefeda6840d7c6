"""Optimizer sharding as MindSpore stores it, and plans that MindSpore cannot follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.mindspore.checkpoint import ExportError, check_strategy, losses, strategy_checkpoint
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.exporters.mindspore_rules import layout, planned_slices, resting_slices
from tests.exporters.random_plans import known_space, plan_space, split_like
from tests.exporters.small_networks import language_model, perceptron, stored_otherwise, tied
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


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


def split_of(plan: Plan, kind: str, *factors: int) -> Plan:
    """The plan with other splits of all operators of a kind, whatever the planner offers."""
    axes = [name for name, _, _ in plan.mesh]
    split = tuple(zip(axes, factors, strict=True))
    found = tuple(replace(o, split=split) if o.kind == kind else o for o in plan.operators)
    return replace(plan, operators=found)


def what_is_refused(plan: Plan) -> str:
    return "\n".join(violation.what for violation in check_strategy(plan))


def test_a_table_that_two_operators_want_in_different_layouts_is_refused() -> None:
    plan = known_space(tied, 8).plan(split_like(-1, -1, -1))
    assert check_strategy(plan) == ()
    assert [each.key for each in strategy_checkpoint(plan).strategies] == [
        "Gather_table",
        "MatMul_table",
    ]
    assert "reads it as" in what_is_refused(split_of(plan, "MatMul", 3, 3, 3))


def test_rows_of_a_table_over_some_devices_are_refused() -> None:
    """MindSpore repeats such a lookup over the outermost devices, the planner the innermost."""
    plan = known_space(stored_otherwise, 8).plan(split_like(-1, -1, -1))
    elsewhere = "put its cuts on other devices"
    assert elsewhere not in what_is_refused(split_of(plan, "Gather", 0, 0, 0))
    assert elsewhere in what_is_refused(split_of(plan, "Gather", 0, 0, -1))


def test_rows_of_a_table_may_be_cut_with_the_first_dimension_of_the_indices() -> None:
    plan = known_space(tied, 8).plan(split_like(-1, -1, -1))
    for allowed in ((2, 0, 0), (2, 3, 0), (2, 2, 0)):
        refused = what_is_refused(split_of(plan, "Gather", *allowed))
        assert "the indices are cut" not in refused
        assert "is repeated" not in refused
    for split in ((2, 0, 1), (3, 0, 0)):
        assert "the indices are cut" in what_is_refused(split_of(plan, "Gather", *split))
    assert "is repeated" in what_is_refused(split_of(plan, "Gather", 2, 0, -1))


def test_cuts_that_are_not_in_the_order_of_the_device_matrix_are_refused() -> None:
    plan = known_space(_two_layers, 16).plan(split_like(-1, -1, -1, -1))
    for split in ((2, 2, 0, 0), (-1, 2, 2, 2), (0, -1, 2, 2)):
        assert "other devices" in what_is_refused(split_of(plan, "MatMul", *split))


def test_what_a_primitive_keeps_whole_is_not_cut() -> None:
    norm = known_space(language_model, 8).plan(split_like(-1, -1, -1))
    refused = what_is_refused(split_of(norm, "LayerNormalization", 2, 2, 2))
    assert "normalised dimensions are cut (8,)" in refused
    groups = known_space(_depthwise, 8).plan(split_like(-1, -1, -1))
    assert "in groups are cut" in what_is_refused(split_of(groups, "Conv", 1, 1, 1))
    assert what_is_refused(split_of(groups, "Conv", 0, 0, 0)) == ""


def _depthwise() -> OpGraph:
    build = GraphBuilder("depthwise")
    x, weight = build.input("x", (16, 32, 8, 8)), build.weight("w", (32, 1, 1, 1))
    return build.build(build.op("Conv", (x, weight), (16, 32, 8, 8), group=32))


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
    assert "what stands before a dash" in what_is_refused(dashed)
