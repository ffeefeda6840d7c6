"""The name of a plan says what most of its time does, and when its operators differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ir.ops import OpView, lookup
from ir.plan import Plan
from ir.plan_degrees import main_uses
from ir.plan_name import is_sequence_parallel, plan_name
from tests.builders import mlp
from tests.ir.test_plan_degrees import TOKENS, laid_out, planned

pytestmark = pytest.mark.fast

TWO_AXES = {"a": (2, "batch"), "b": (8, "heads")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "name"),
    [
        ({"a": (16, "batch")}, "DP 4 x CP 4"),
        (TWO_AXES, "DP 2 x TP 8"),
        ({"a": (2, "batch"), "b": (2, "tokens"), "c": (4, "heads")}, "DP 2 x CP 2 x TP 4"),
    ],
)
def test_equal_operators_name_the_plan(axes: dict[str, tuple[int, str]], name: str) -> None:
    assert plan_name(laid_out(axes)).removesuffix(", SP") == name


def split_otherwise(plan: Plan, factor: int) -> Plan:
    """The plan whose heaviest product splits this factor over the second axis."""
    uses = main_uses(plan)
    heaviest = max((own for _, own in uses.products), key=lambda own: own.compute_s)
    operators = tuple(
        replace(own, split=((own.split[0]), ("b", factor))) if own.name == heaviest.name else own
        for own in plan.operators
    )
    return replace(plan, operators=operators)


@pytest.mark.slow
def test_a_product_that_is_split_otherwise_makes_a_per_operator_plan() -> None:
    plan = laid_out(TWO_AXES)
    other = plan_name(split_otherwise(plan, -1))
    assert other.startswith("per-operator plan, nearest: DP 2 x ")
    assert not plan_name(plan).startswith("per-operator")


def with_norms(plan: Plan, *, split: bool) -> Plan:
    """What is no product splits the tokens over the second axis, or repeats them."""
    products = {op.name for op, _ in main_uses(plan).products}
    operators = []
    for op, own in zip(plan.graph.ops, plan.operators, strict=True):
        if op.name in products:
            operators.append(own)
            continue
        sizes = lookup(op.kind).rule(OpView(op, plan.graph)).sizes
        tokens = sizes.index(TOKENS) if split and TOKENS in sizes else -1
        operators.append(replace(own, split=(own.split[0], ("b", tokens)), compute_s=1.0))
    return replace(plan, operators=tuple(operators))


@pytest.mark.slow
@pytest.mark.parametrize("split", [True, False])
def test_tokens_split_between_products_are_sequence_parallelism(split: bool) -> None:
    plan = with_norms(laid_out(TWO_AXES), split=split)
    assert is_sequence_parallel(plan, main_uses(plan)) == split
    assert plan_name(plan) == "DP 2 x TP 8" + ", SP" * split


def test_recomputation_is_named_by_how_much_of_the_plan_it_is() -> None:
    plan = planned(mlp(2, batch=64), devices=8, global_batch=64, micro_batch="32")
    assert "recompute" not in plan_name(plan)
    single = replace(plan, recomputed=(plan.graph.ops[0].outputs[0],))
    assert plan_name(single).endswith(", selective recompute")
    stages, count = plan.pipeline.stages, len(plan.operators)

    def again(*blocks: tuple[int, int]) -> str:
        changed = (replace(stages[0], blocks=blocks), *stages[1:])
        return plan_name(replace(plan, pipeline=replace(plan.pipeline, stages=changed)))

    assert again((0, count)).endswith(", full recompute")
    assert again((0, 1)).endswith(f", full recompute of {100 / count:.0f} %")


def test_a_plan_of_one_device_has_that_name() -> None:
    assert plan_name(planned(mlp(2, batch=8), devices=1)) == "one device"
